"""An int8 tensor and two products, the tensor first: what a sum starts with is int32, so it is added last."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 64), "int8"), W: T.Buffer((32, 64), "int8"), V: T.Buffer((32, 64), "int8"), x: T.Buffer((16, 32), "int8"), out: T.Buffer((16, 32), "int8")):
    p = T.alloc_buffer((16, 32), "int32")
    q = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 32, 64):
        with T.block("p"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                p[vi, vj] = 0
            p[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j, k in T.grid(16, 32, 64):
        with T.block("q"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                q[vi, vj] = 0
            q[vi, vj] += A[vi, vk].astype("int32") * V[vj, vk].astype("int32")
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(T.max((x[vi, vj].astype("int32") + p[vi, vj] + q[vi, vj]) >> 7, -128), 127).astype("int8")
