"""A leaky relu whose slope is no power of two."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 32), "int8"), W: T.Buffer((32, 32), "int8"), out: T.Buffer((16, 32), "int8")):
    C = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 32, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(T.max(C[vi, vj], (C[vi, vj] * 13) >> 7) >> 5, 127).astype("int8")
