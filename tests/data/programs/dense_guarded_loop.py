"""A loop that is longer than the result, with a guard."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((14, 32), "int8"), W: T.Buffer((32, 32), "int8"), out: T.Buffer((14, 32), "int8")):
    C = T.alloc_buffer((14, 32), "int32")
    for io, ii, j, k in T.grid(4, 4, 32, 32):
        with T.block("C"):
            T.where(io * 4 + ii < 14)
            vi = T.axis.spatial(14, io * 4 + ii)
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(14, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = (C[vi, vj] >> 8).astype("int8")
