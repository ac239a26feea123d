"""A 2x2 maximum of int32, packed."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 2, 8, 8, 1, 16), "int32"), out: T.Buffer((1, 2, 4, 4, 1, 16), "int8")):
    C = T.alloc_buffer((1, 2, 4, 4, 1, 16), "int32")
    for n, c, y, x, b, l, p, q in T.grid(1, 2, 4, 4, 1, 16, 2, 2):
        with T.block("C"):
            vn, vc, vy, vx, vb, vl, vp, vq = T.axis.remap("SSSSSSRR", [n, c, y, x, b, l, p, q])
            with T.init():
                C[vn, vc, vy, vx, vb, vl] = T.min_value("int32")
            C[vn, vc, vy, vx, vb, vl] = T.max(C[vn, vc, vy, vx, vb, vl], X[vn, vc, vy * 2 + vp, vx * 2 + vq, vb, vl])
    for n, c, y, x, b, l in T.grid(1, 2, 4, 4, 1, 16):
        with T.block("out"):
            vn, vc, vy, vx, vb, vl = T.axis.remap("SSSSSS", [n, c, y, x, b, l])
            out[vn, vc, vy, vx, vb, vl] = T.Cast("int8", C[vn, vc, vy, vx, vb, vl])
