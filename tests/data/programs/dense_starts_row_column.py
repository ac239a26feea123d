"""A product whose sums start with a value for the row and one for the column."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((8, 32), "int8"), W: T.Buffer((16, 32), "int8"), b: T.Buffer((16,), "int32"), c: T.Buffer((8,), "int32"), out: T.Buffer((8, 16), "int8")):
    C = T.alloc_buffer((8, 16), "int32")
    for i, j, k in T.grid(8, 16, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = b[vj] + c[vi]
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(8, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = (C[vi, vj] >> 7).astype("int8")
