"""Attention without softmax: scores that come later are zero, by a choice of the place, and values are mixed by the rest."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    Q: T.Buffer((16, 32), "int8"), K: T.Buffer((16, 32), "int8"), V: T.Buffer((16, 32), "int8"), out: T.Buffer((16, 32),
    "int8")
):
    S = T.alloc_buffer((16, 16), "int32")
    P = T.alloc_buffer((16, 16), "int8")
    M = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 16, 32):
        with T.block("scores"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                S[vi, vj] = 0
            S[vi, vj] += Q[vi, vk].astype("int32") * K[vj, vk].astype("int32")
    for i, j in T.grid(16, 16):
        with T.block("causal"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(vj <= vi, T.min(T.max(S[vi, vj] >> 8, 0), 127), 0).astype("int8")
    for i, d, j in T.grid(16, 32, 16):
        with T.block("values"):
            vi, vd, vj = T.axis.remap("SSR", [i, d, j])
            with T.init():
                M[vi, vd] = 0
            M[vi, vd] += P[vi, vj].astype("int32") * V[vj, vd].astype("int32")
    for i, d in T.grid(16, 32):
        with T.block("out"):
            vi, vd = T.axis.remap("SS", [i, d])
            out[vi, vd] = T.min(T.max(M[vi, vd] >> 7, -128), 127).astype("int8")
