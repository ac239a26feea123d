"""One loop over all elements of the result."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 32), "int8"), W: T.Buffer((32, 32), "int8"), out: T.Buffer((16, 32), "int8")):
    C = T.alloc_buffer((16, 32), "int32")
    for ij, k in T.grid(512, 32):
        with T.block("C"):
            vi = T.axis.spatial(16, ij // 32)
            vj = T.axis.spatial(32, ij % 32)
            vk = T.axis.reduce(32, k)
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for ij in range(512):
        with T.block("out"):
            vi = T.axis.spatial(16, ij // 32)
            vj = T.axis.spatial(32, ij % 32)
            out[vi, vj] = (C[vi, vj] >> 8).astype("int8")
