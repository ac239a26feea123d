"""A minimum over a window, and a maximum over a window of that."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 12, 12), "int8"), out: T.Buffer((16, 8, 8), "int8")):
    E = T.alloc_buffer((16, 10, 10), "int8")
    for c, y, x, p, q in T.grid(16, 10, 10, 3, 3):
        with T.block("erode"):
            vc, vy, vx, vp, vq = T.axis.remap("SSSRR", [c, y, x, p, q])
            with T.init():
                E[vc, vy, vx] = T.int8(127)
            E[vc, vy, vx] = T.min(E[vc, vy, vx], X[vc, vy + vp, vx + vq])
    for c, y, x, p, q in T.grid(16, 8, 8, 3, 3):
        with T.block("dilate"):
            vc, vy, vx, vp, vq = T.axis.remap("SSSRR", [c, y, x, p, q])
            with T.init():
                out[vc, vy, vx] = T.int8(-128)
            out[vc, vy, vx] = T.max(out[vc, vy, vx], E[vc, vy + vp, vx + vq])
