"""A 3x3 maximum with stride 2 and padding, on int8."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 8, 8), "int8"), out: T.Buffer((1, 32, 4, 4), "int8")):
    P = T.alloc_buffer((1, 32, 10, 10), "int8")
    C = T.alloc_buffer((1, 32, 4, 4), "int8")
    for n, c, y, x in T.grid(1, 32, 10, 10):
        with T.block("pad"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(
                vy >= 1 and vy < 9 and vx >= 1 and vx < 9, X[vn, vc, vy - 1, vx - 1], T.int8(-128)
            )
    for n, c, y, x, p, q in T.grid(1, 32, 4, 4, 3, 3):
        with T.block("C"):
            vn, vc, vy, vx, vp, vq = T.axis.remap("SSSSRR", [n, c, y, x, p, q])
            with T.init():
                C[vn, vc, vy, vx] = T.int8(-128)
            C[vn, vc, vy, vx] = T.max(C[vn, vc, vy, vx], P[vn, vc, vy * 2 + vp, vx * 2 + vq])
    for n, c, y, x in T.grid(1, 32, 4, 4):
        with T.block("out"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            out[vn, vc, vy, vx] = C[vn, vc, vy, vx]
