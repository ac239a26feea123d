"""A filter per channel, packed."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((1, 2, 16, 16, 1, 16), "int8"),
    W: T.Buffer((2, 3, 3, 16), "int8"),
    out: T.Buffer((1, 2, 14, 14, 1, 16), "int8"),
):
    C = T.alloc_buffer((1, 2, 14, 14, 1, 16), "int32")
    for n, c, y, x, b, l, p, q in T.grid(1, 2, 14, 14, 1, 16, 3, 3):
        with T.block("C"):
            vn, vc, vy, vx, vb, vl, vp, vq = T.axis.remap("SSSSSSRR", [n, c, y, x, b, l, p, q])
            with T.init():
                C[vn, vc, vy, vx, vb, vl] = 0
            C[vn, vc, vy, vx, vb, vl] = C[vn, vc, vy, vx, vb, vl] + T.Cast("int32", X[vn, vc, vy + vp, vx + vq, vb, vl]) * T.Cast("int32", W[vc, vp, vq, vl])
    for n, c, y, x, b, l in T.grid(1, 2, 14, 14, 1, 16):
        with T.block("out"):
            vn, vc, vy, vx, vb, vl = T.axis.remap("SSSSSS", [n, c, y, x, b, l])
            out[vn, vc, vy, vx, vb, vl] = T.Cast("int8", T.min(T.max(C[vn, vc, vy, vx, vb, vl] >> 7, 0), 127))
