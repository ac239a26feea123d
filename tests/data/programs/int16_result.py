"""A result of 16 bits."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 16), "int8"), W: T.Buffer((16, 16), "int8"), out: T.Buffer((16, 16), "int16")):
    C = T.alloc_buffer((16, 16), "int32")
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += X[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(16, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = C[vi, vj].astype("int16")
