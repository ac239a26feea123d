"""A product over rows repeated twice, and the largest of neighbouring rows."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((6, 16,), "int8"), W: T.Buffer((18, 16,), "int8"), out: T.Buffer((10, 18,), "int8")):
    C = T.alloc_buffer((12, 18,), "int32")
    D = T.alloc_buffer((12, 18,), "int8")
    for i, j, k in T.grid(12, 18, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi // 2, vk].astype('int32') * W[vj, vk].astype('int32')
    for i, j in T.grid(12, 18):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = (C[vi, vj] >> 6).astype('int8')
    for i, j, p in T.grid(10, 18, 3):
        with T.block("out"):
            vi, vj, vp = T.axis.remap("SSR", [i, j, p])
            with T.init():
                out[vi, vj] = T.int8(-128)
            out[vi, vj] = T.max(out[vi, vj], D[vi + vp, vj])
