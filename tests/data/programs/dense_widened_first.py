"""Both operands are converted by stages of their own, before the sum."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((8, 32), "int8"), W: T.Buffer((16, 32), "int8"), b: T.Buffer((16,), "int32"), out: T.Buffer((8, 16), "int8")):
    A32 = T.alloc_buffer((8, 32), "int32")
    W32 = T.alloc_buffer((16, 32), "int32")
    C = T.alloc_buffer((8, 16), "int32")
    for i, k in T.grid(8, 32):
        with T.block("A32"):
            vi, vk = T.axis.remap("SS", [i, k])
            A32[vi, vk] = A[vi, vk].astype("int32")
    for j, k in T.grid(16, 32):
        with T.block("W32"):
            vj, vk = T.axis.remap("SS", [j, k])
            W32[vj, vk] = W[vj, vk].astype("int32")
    for i, j, k in T.grid(8, 16, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A32[vi, vk] * W32[vj, vk]
    for i, j in T.grid(8, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = ((C[vi, vj] + b[vj]) >> 6).astype("int8")
