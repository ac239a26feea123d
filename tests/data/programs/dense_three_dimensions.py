"""The epilogue narrows a sum of another block without any intermediate name; bias in front."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(b: T.Buffer((32,), "int32"), W: T.Buffer((32, 64), "int8"), A: T.Buffer((3, 4, 64), "int8"), out: T.Buffer((3, 4, 32), "int8")):
    C = T.alloc_buffer((3, 4, 32), "int32")
    B = T.alloc_buffer((3, 4, 32), "int32")
    for s, t, j in T.grid(3, 4, 32):
        with T.block("B"):
            vs, vt, vj = T.axis.remap("SSS", [s, t, j])
            B[vs, vt, vj] = b[vj] << 2
    for s, t, j, k in T.grid(3, 4, 32, 64):
        with T.block("C"):
            vs, vt, vj, vk = T.axis.remap("SSSR", [s, t, j, k])
            with T.init():
                C[vs, vt, vj] = 0
            C[vs, vt, vj] += T.Cast("int32", W[vj, vk]) * T.Cast("int32", A[vs, vt, vk])
    for s, t, j in T.grid(3, 4, 32):
        with T.block("out"):
            vs, vt, vj = T.axis.remap("SSS", [s, t, j])
            out[vs, vt, vj] = T.Cast("int8", T.min(T.max(B[vs, vt, vj] + C[vs, vt, vj], -1000) >> 4, 127))
