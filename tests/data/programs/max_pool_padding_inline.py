"""A 3x3 maximum of int8, its padding inside the maximum, kept in int8."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 16, 8, 8), "int8"), out: T.Buffer((1, 16, 8, 8), "int8")):
    for n, c, y, x, p, q in T.grid(1, 16, 8, 8, 3, 3):
        with T.block("pool"):
            vn, vc, vy, vx, vp, vq = T.axis.remap("SSSSRR", [n, c, y, x, p, q])
            with T.init():
                out[vn, vc, vy, vx] = T.min_value("int8")
            out[vn, vc, vy, vx] = T.max(out[vn, vc, vy, vx], T.if_then_else(vy + vp >= 1 and vy + vp < 9 and vx + vq >= 1 and vx + vq < 9, X[vn, vc, vy + vp - 1, vx + vq - 1], T.min_value("int8")))
