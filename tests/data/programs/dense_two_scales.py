"""One sum, one bias, two scales: the bias is added once, though both results say so."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 64), "int8"), W: T.Buffer((32, 64), "int8"), b: T.Buffer((32,), "int32"), o1: T.Buffer((16, 32), "int8"), o2: T.Buffer((16, 32), "int8")):
    C = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 32, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(16, 32):
        with T.block("o1"):
            vi, vj = T.axis.remap("SS", [i, j])
            o1[vi, vj] = T.min(T.max((C[vi, vj] + b[vj]) >> 7, -128), 127).astype("int8")
    for i, j in T.grid(16, 32):
        with T.block("o2"):
            vi, vj = T.axis.remap("SS", [i, j])
            o2[vi, vj] = T.min(T.max((C[vi, vj] + b[vj]) >> 3, -128), 127).astype("int8")
