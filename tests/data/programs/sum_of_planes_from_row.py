"""A sum over planes that starts with a row."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((9, 20, 12,), "int32"), b: T.Buffer((12,), "int32"), out: T.Buffer((20, 12,), "int8")):
    C = T.alloc_buffer((20, 12,), "int32")
    for i, j, k in T.grid(20, 12, 9):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = b[vj]
            C[vi, vj] += X[vk, vi, vj]
    for i, j in T.grid(20, 12):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = (C[vi, vj] >> 6).astype('int8')
