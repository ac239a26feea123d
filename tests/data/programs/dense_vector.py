"""One row."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    A: T.Buffer((1, 128), "int8"),
    W: T.Buffer((64, 128), "int8"),
    bias: T.Buffer((64,), "int32"),
    out: T.Buffer((1, 64), "int8"),
):
    T.func_attr({"autosched.value_ranges": {"bias": [-16384, 16384]}})
    C = T.alloc_buffer((1, 64), "int32")
    for i, j, k in T.grid(1, 64, 128):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(1, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.min(T.max((C[vi, vj] >> 8) + bias[vj], 0), 127))
