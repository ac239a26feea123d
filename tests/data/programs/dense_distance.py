"""How far two long products are apart: the difference is doubled to its negative, which costs less than to multiply once more."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 512), "int8"), W: T.Buffer((32, 512), "int8"), V: T.Buffer((32, 512), "int8"), out: T.Buffer((16, 32), "int8")):
    p = T.alloc_buffer((16, 32), "int32")
    q = T.alloc_buffer((16, 32), "int32")
    d = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 32, 512):
        with T.block("p"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                p[vi, vj] = 0
            p[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j, k in T.grid(16, 32, 512):
        with T.block("q"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                q[vi, vj] = 0
            q[vi, vj] += A[vi, vk].astype("int32") * V[vj, vk].astype("int32")
    for i, j in T.grid(16, 32):
        with T.block("d"):
            vi, vj = T.axis.remap("SS", [i, j])
            d[vi, vj] = p[vi, vj] - q[vi, vj]
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(T.max(T.max(d[vi, vj], 0 - d[vi, vj]) >> 7, -128), 127).astype("int8")
