"""The product reads a part of its data only."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((20, 100), "int8"), W: T.Buffer((32, 64), "int8"), out: T.Buffer((16, 32), "int8")):
    C = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 32, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi + 2, vk + 20].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = (C[vi, vj] >> 8).astype("int8")
