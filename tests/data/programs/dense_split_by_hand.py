"""Loops that are split by hand already."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 64), "int8"), W: T.Buffer((32, 64), "int8"), out: T.Buffer((16, 32), "int8")):
    C = T.alloc_buffer((16, 32), "int32")
    for io, jo, ko, ii, ji, ki in T.grid(4, 2, 4, 4, 16, 16):
        with T.block("C"):
            vi = T.axis.spatial(16, io * 4 + ii)
            vj = T.axis.spatial(32, jo * 16 + ji)
            vk = T.axis.reduce(64, ko * 16 + ki)
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(T.max(C[vi, vj] >> 8, -128), 127).astype("int8")
