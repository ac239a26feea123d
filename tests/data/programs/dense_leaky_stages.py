"""A leaky relu in stages: two of them read the sum."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((40, 32), "int8"), W: T.Buffer((48, 32), "int8"), out: T.Buffer((40, 48), "int8")):
    C = T.alloc_buffer((40, 48), "int32")
    S = T.alloc_buffer((40, 48), "int32")
    M = T.alloc_buffer((40, 48), "int32")
    for i, j, k in T.grid(40, 48, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(40, 48):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [i, j])
            S[vi, vj] = C[vi, vj] >> 3
    for i, j in T.grid(40, 48):
        with T.block("M"):
            vi, vj = T.axis.remap("SS", [i, j])
            M[vi, vj] = T.max(S[vi, vj], C[vi, vj])
    for i, j in T.grid(40, 48):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(M[vi, vj] >> 5, 127).astype("int8")
