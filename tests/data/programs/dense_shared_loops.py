"""Clears, sums and narrows inside the same two loops, as one writes it in C."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((8, 32), "int8"), W: T.Buffer((16, 32), "int8"), out: T.Buffer((8, 16), "int8")):
    C = T.alloc_buffer((8, 16), "int32")
    for i in range(8):
        for j in range(16):
            with T.block("init"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = 0
            for k in range(32):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
            with T.block("out"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi, vj] = (C[vi, vj] >> 6).astype("int8")
