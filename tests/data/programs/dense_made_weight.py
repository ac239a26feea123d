"""A product of two tensors that the program computes both."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 32), "int8"), Y: T.Buffer((16, 32), "int8"), out: T.Buffer((16, 16), "int8")):
    A = T.alloc_buffer((16, 32), "int8")
    B = T.alloc_buffer((16, 32), "int8")
    C = T.alloc_buffer((16, 16), "int32")
    for i, j in T.grid(16, 32):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.max(X[vi, vj], T.int8(0))
    for i, j in T.grid(16, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.max(Y[vi, vj], T.int8(0))
    for i, j, k in T.grid(16, 16, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj, vk])
    for i, j in T.grid(16, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.max(T.min(C[vi, vj] >> 7, 127), -128))
