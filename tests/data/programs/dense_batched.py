"""A batch of matrix products."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((4, 16, 32), "int8"), W: T.Buffer((4, 32, 32), "int8"), out: T.Buffer((4, 16, 32), "int8")):
    C = T.alloc_buffer((4, 16, 32), "int32")
    for b, i, j, k in T.grid(4, 16, 32, 32):
        with T.block("C"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                C[vb, vi, vj] = 0
            C[vb, vi, vj] = C[vb, vi, vj] + T.Cast("int32", A[vb, vi, vk]) * T.Cast("int32", W[vb, vj, vk])
    for b, i, j in T.grid(4, 16, 32):
        with T.block("out"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            out[vb, vi, vj] = T.Cast("int8", C[vb, vi, vj])
