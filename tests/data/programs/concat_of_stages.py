"""Three parts of a result, the first and the last of one stage, with comparisons either way."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((5, 7, 9), "int32"), B: T.Buffer((5, 4, 9), "int32"), out: T.Buffer((5, 18, 9), "int8")):
    P = T.alloc_buffer((5, 7, 9), "int32")
    Q = T.alloc_buffer((5, 4, 9), "int32")
    for i, j, k in T.grid(5, 7, 9):
        with T.block("P"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            P[vi, vj, vk] = T.max(A[vi, vj, vk], -100)
    for i, j, k in T.grid(5, 4, 9):
        with T.block("Q"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            Q[vi, vj, vk] = T.min(B[vi, vj, vk], 100)
    for i, j, k in T.grid(5, 18, 9):
        with T.block("out"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            out[vi, vj, vk] = T.if_then_else(7 > vj, P[vi, vj, vk] >> 3, T.if_then_else(vj >= 11, P[vi, vj - 11, vk] >> 4, Q[vi, vj - 7, vk] >> 5)).astype("int8")
