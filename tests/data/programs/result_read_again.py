"""A result, and the relu of that result."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(a: T.Buffer((17, 32), "int8"), w: T.Buffer((40, 32), "int8"), p: T.Buffer((17, 40), "int8"), q: T.Buffer((17, 40), "int8")):
    c = T.alloc_buffer((17, 40), "int32")
    for i, j, k in T.grid(17, 40, 32):
        with T.block("c"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[vi, vj] = 0
            c[vi, vj] += a[vi, vk].astype("int32") * w[vj, vk].astype("int32")
    for i, j in T.grid(17, 40):
        with T.block("p"):
            vi, vj = T.axis.remap("SS", [i, j])
            p[vi, vj] = T.min(T.max(c[vi, vj] >> 6, -128), 127).astype("int8")
    for i, j in T.grid(17, 40):
        with T.block("q"):
            vi, vj = T.axis.remap("SS", [i, j])
            q[vi, vj] = T.max(p[vi, vj], T.int8(0))
