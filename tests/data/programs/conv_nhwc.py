"""The same in NHWC with HWIO weights."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((1, 14, 14, 32), "int8"),
    W: T.Buffer((3, 3, 32, 32), "int8"),
    bias: T.Buffer((32,), "int32"),
    out: T.Buffer((1, 14, 14, 32), "int8"),
):
    T.func_attr({"autosched.value_ranges": {"bias": [-16384, 16384]}})
    C = T.alloc_buffer((1, 14, 14, 32), "int32")
    P = T.alloc_buffer((1, 16, 16, 32), "int8")
    for n, y, x, c in T.grid(1, 16, 16, 32):
        with T.block("pad"):
            vn, vy, vx, vc = T.axis.remap("SSSS", [n, y, x, c])
            P[vn, vy, vx, vc] = T.if_then_else(
                vy >= 1 and vy < 15 and vx >= 1 and vx < 15, X[vn, vy - 1, vx - 1, vc], T.int8(0)
            )
    for n, y, x, o, p, q, c in T.grid(1, 14, 14, 32, 3, 3, 32):
        with T.block("C"):
            vn, vy, vx, vo, vp, vq, vc = T.axis.remap("SSSSRRR", [n, y, x, o, p, q, c])
            with T.init():
                C[vn, vy, vx, vo] = 0
            C[vn, vy, vx, vo] = C[vn, vy, vx, vo] + T.Cast("int32", P[vn, vy + vp, vx + vq, vc]) * T.Cast("int32", W[vp, vq, vc, vo])
    for n, y, x, o in T.grid(1, 14, 14, 32):
        with T.block("out"):
            vn, vy, vx, vo = T.axis.remap("SSSS", [n, y, x, o])
            out[vn, vy, vx, vo] = T.Cast("int8", T.min(T.max((C[vn, vy, vx, vo] >> 8) + bias[vo], 0), 127))
