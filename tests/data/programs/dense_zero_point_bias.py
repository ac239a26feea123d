"""A zero point that makes signed data unsigned, and a bias; odd extents."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((9, 40), "int8"), W: T.Buffer((40, 20), "int8"), b: T.Buffer((20,), "int32"), out: T.Buffer((9, 20), "int8")):
    C = T.alloc_buffer((9, 20), "int32")
    for i, j, k in T.grid(9, 20, 40):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = b[vj]
            C[vi, vj] += W[vk, vj].astype("int32") * (128 + A[vi, vk].astype("int32"))
    for i, j in T.grid(9, 20):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(T.max((C[vi, vj] >> 8) - 7, -128), 127).astype("int8")
