"""One tensor that is set, added to twice, shifted and clipped, all in place."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((4, 16), "int8"), Y: T.Buffer((4, 24), "int8"), W: T.Buffer((20, 16), "int8"), V: T.Buffer((20, 24), "int8"),
    b: T.Buffer((20,), "int32"), out: T.Buffer((4, 20), "int8")
):
    C = T.alloc_buffer((4, 20), "int32")
    for i, j in T.grid(4, 20):
        with T.block("bias"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = b[vj]
    for i, j, k in T.grid(4, 20, 16):
        with T.block("input"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] += X[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j, k in T.grid(4, 20, 24):
        with T.block("state"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] += Y[vi, vk].astype("int32") * V[vj, vk].astype("int32")
    for i, j in T.grid(4, 20):
        with T.block("shift"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = C[vi, vj] >> 7
    for i, j in T.grid(4, 20):
        with T.block("clip"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.min(T.max(C[vi, vj], -128), 127)
    for i, j in T.grid(4, 20):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = C[vi, vj].astype("int8")
