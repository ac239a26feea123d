"""A leaky relu that chooses a slope by the sign."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((10, 32), "int8"), W: T.Buffer((20, 32), "int8"), b: T.Buffer((20,), "int32"), out: T.Buffer((10, 20), "int8")):
    C = T.alloc_buffer((10, 20), "int32")
    for i, j, k in T.grid(10, 20, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = b[vj]
            C[vi, vj] += T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(10, 20):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.Select(C[vi, vj] < 0, C[vi, vj] >> 9, T.Select(C[vi, vj] >= 8192, 127, C[vi, vj] >> 6)))
