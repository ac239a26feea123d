"""The square of what a product is scaled to."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 64), "int8"), W: T.Buffer((32, 64), "int8"), out: T.Buffer((16, 32), "int8")):
    q = T.alloc_buffer((16, 32), "int32")
    t = T.alloc_buffer((16, 32), "int8")
    for i, j, k in T.grid(16, 32, 64):
        with T.block("q"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                q[vi, vj] = 0
            q[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(16, 32):
        with T.block("t"):
            vi, vj = T.axis.remap("SS", [i, j])
            t[vi, vj] = T.min(T.max(q[vi, vj] >> 7, -128), 127).astype("int8")
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(T.max((t[vi, vj].astype("int32") * t[vi, vj].astype("int32")) >> 7, -128), 127).astype("int8")
