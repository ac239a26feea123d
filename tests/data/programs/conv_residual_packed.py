"""A packed 1x1 convolution with bias, whose int8 shortcut is added before the clip."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((1, 4, 14, 14, 1, 16), "int8"),
    W: T.Buffer((4, 4, 16, 16), "int8"),
    b: T.Buffer((1, 4, 1, 1, 1, 16), "int32"),
    R: T.Buffer((1, 4, 14, 14, 1, 16), "int8"),
    out: T.Buffer((1, 4, 14, 14, 1, 16), "int8"),
):
    T.func_attr({"autosched.value_ranges": {"b": [-16384, 16384]}})
    C = T.alloc_buffer((1, 4, 14, 14, 1, 16), "int32")
    for n, o, y, x, nb, cb, c, ib in T.grid(1, 4, 14, 14, 1, 16, 4, 16):
        with T.block("C"):
            vn, vo, vy, vx, vnb, vcb, vc, vib = T.axis.remap("SSSSSSRR", [n, o, y, x, nb, cb, c, ib])
            with T.init():
                C[vn, vo, vy, vx, vnb, vcb] = 0
            C[vn, vo, vy, vx, vnb, vcb] = C[vn, vo, vy, vx, vnb, vcb] + T.Cast("int32", X[vn, vc, vy, vx, vnb, vib]) * T.Cast("int32", W[vo, vc, vcb, vib])
    for n, o, y, x, nb, cb in T.grid(1, 4, 14, 14, 1, 16):
        with T.block("out"):
            vn, vo, vy, vx, vnb, vcb = T.axis.remap("SSSSSS", [n, o, y, x, nb, cb])
            out[vn, vo, vy, vx, vnb, vcb] = T.Cast("int8", T.min(T.max((C[vn, vo, vy, vx, vnb, vcb] >> 8) + b[vn, vo, 0, 0, vnb, vcb] + T.Cast("int32", R[vn, vo, vy, vx, vnb, vcb]), 0), 127))
