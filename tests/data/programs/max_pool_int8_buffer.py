"""A maximum over windows, kept in int8."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 8, 8), "int8"), out: T.Buffer((1, 32, 4, 4), "int8")):
    for n, c, y, x, p, q in T.grid(1, 32, 4, 4, 2, 2):
        with T.block("out"):
            vn, vc, vy, vx, vp, vq = T.axis.remap("SSSSRR", [n, c, y, x, p, q])
            with T.init():
                out[vn, vc, vy, vx] = T.int8(-128)
            out[vn, vc, vy, vx] = T.max(out[vn, vc, vy, vx], X[vn, vc, vy * 2 + vp, vx * 2 + vq])
