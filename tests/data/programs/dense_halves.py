"""Two products that fill the halves of one result."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 32), "int8"), W: T.Buffer((16, 32), "int8"), V: T.Buffer((16, 32), "int8"), out: T.Buffer((16, 32), "int8")):
    C = T.alloc_buffer((16, 16), "int32")
    D = T.alloc_buffer((16, 16), "int32")
    for i, j, k in T.grid(16, 16, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j, k in T.grid(16, 16, 32):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = 0
            D[vi, vj] += A[vi, vk].astype("int32") * V[vj, vk].astype("int32")
    for i, j in T.grid(16, 16):
        with T.block("left"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = (C[vi, vj] >> 8).astype("int8")
    for i, j in T.grid(16, 16):
        with T.block("right"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj + 16] = (D[vi, vj] >> 8).astype("int8")
