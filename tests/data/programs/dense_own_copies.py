"""Both operands are copied first, as for caches of the user's own; the weight's copy lies the other way round."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 64), "int8"), B: T.Buffer((64, 40), "int8"), bias: T.Buffer((40,), "int32"), C: T.Buffer((16, 40), "int8")):
    A_shared = T.alloc_buffer((16, 64), "int8")
    B_shared = T.alloc_buffer((40, 64), "int8")
    bias_rows = T.alloc_buffer((16, 40), "int32")
    acc = T.alloc_buffer((16, 40), "int32")
    C_shared = T.alloc_buffer((16, 40), "int8")
    for i, k in T.grid(16, 64):
        with T.block("A_shared"):
            vi, vk = T.axis.remap("SS", [i, k])
            A_shared[vi, vk] = A[vi, vk]
    for j, k in T.grid(40, 64):
        with T.block("B_shared"):
            vj, vk = T.axis.remap("SS", [j, k])
            B_shared[vj, vk] = B[vk, vj]
    for i, j in T.grid(16, 40):
        with T.block("bias_rows"):
            vi, vj = T.axis.remap("SS", [i, j])
            bias_rows[vi, vj] = bias[vj]
    for i, j, k in T.grid(16, 40, 64):
        with T.block("acc"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                acc[vi, vj] = 0
            acc[vi, vj] += T.Cast("int32", A_shared[vi, vk]) * T.Cast("int32", B_shared[vj, vk])
    for i, j in T.grid(16, 40):
        with T.block("C_shared"):
            vi, vj = T.axis.remap("SS", [i, j])
            C_shared[vi, vj] = T.Cast("int8", T.max(T.min((acc[vi, vj] + bias_rows[vi, vj]) >> 7, 127), -128))
    for i, j in T.grid(16, 40):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = C_shared[vi, vj]
