"""A product that starts with a difference: what another product makes, clipped, is taken away of a parameter."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 32), "int8"), W: T.Buffer((32, 32), "int8"), V: T.Buffer((32, 32), "int8"),
         z: T.Buffer((16, 32), "int32"), out: T.Buffer((16, 32), "int8")):
    p = T.alloc_buffer((16, 32), "int32")
    C = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 32, 32):
        with T.block("p"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                p[vi, vj] = 0
            p[vi, vj] += A[vi, vk].astype("int32") * V[vj, vk].astype("int32")
    for i, j, k in T.grid(16, 32, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = z[vi, vj] - (T.max(p[vi, vj], 0) >> 2)
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = (C[vi, vj] >> 6).astype("int8")
