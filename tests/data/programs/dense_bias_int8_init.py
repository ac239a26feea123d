"""The sum starts from a bias that is int8."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    A: T.Buffer((16, 64), "int8"),
    W: T.Buffer((32, 64), "int8"),
    bias: T.Buffer((32,), "int8"),
    out: T.Buffer((16, 32), "int8"),
):
    C = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 32, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.Cast("int32", bias[vj]) << 4
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.min(T.max(C[vi, vj] >> 8, 0), 127))
