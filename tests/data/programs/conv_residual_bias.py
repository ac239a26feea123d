"""A 1x1 convolution with bias; adds the int8 shortcut."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((1, 64, 14, 14), "int8"),
    W: T.Buffer((64, 64), "int8"),
    b: T.Buffer((64,), "int32"),
    R: T.Buffer((1, 64, 14, 14), "int8"),
    out: T.Buffer((1, 64, 14, 14), "int8"),
):
    T.func_attr({"autosched.value_ranges": {"b": [-16384, 16384]}})
    C = T.alloc_buffer((1, 64, 14, 14), "int32")
    for n, o, y, x, c in T.grid(1, 64, 14, 14, 64):
        with T.block("C"):
            vn, vo, vy, vx, vc = T.axis.remap("SSSSR", [n, o, y, x, c])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + T.Cast("int32", X[vn, vc, vy, vx]) * T.Cast("int32", W[vo, vc])
    for n, o, y, x in T.grid(1, 64, 14, 14):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max((C[vn, vo, vy, vx] >> 8) + b[vo] + T.Cast("int32", R[vn, vo, vy, vx]), 0), 127))
