"""A product, its relu and a shifted copy with a bias."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((7, 24), "int8"), W: T.Buffer((20, 24), "int8"), b: T.Buffer((20,), "int32"), p: T.Buffer((7, 20), "int8"), q: T.Buffer((7, 20), "int8"), r: T.Buffer((20, 7), "int8")):
    C = T.alloc_buffer((7, 20), "int32")
    B = T.alloc_buffer((7, 20), "int32")
    for i, j, k in T.grid(7, 20, 24):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(7, 20):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[vi, vj] + b[vj]
    for i, j in T.grid(7, 20):
        with T.block("p"):
            vi, vj = T.axis.remap("SS", [i, j])
            p[vi, vj] = (B[vi, vj] >> 4).astype("int8")
    for i, j in T.grid(7, 20):
        with T.block("q"):
            vi, vj = T.axis.remap("SS", [i, j])
            q[vi, vj] = T.max(B[vi, vj] >> 4, 0).astype("int8")
    for i, j in T.grid(20, 7):
        with T.block("r"):
            vi, vj = T.axis.remap("SS", [i, j])
            r[vi, vj] = (C[vj, vi] >> 2).astype("int8")
