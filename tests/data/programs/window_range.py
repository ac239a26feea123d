"""The largest less the smallest of each window, in int32."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((18, 32), "int8"), out: T.Buffer((16, 32), "int8")):
    hi = T.alloc_buffer((16, 32), "int32")
    lo = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 32, 3):
        with T.block("hi"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                hi[vi, vj] = -128
            hi[vi, vj] = T.max(hi[vi, vj], x[vi + vk, vj].astype("int32"))
    for i, j, k in T.grid(16, 32, 3):
        with T.block("lo"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                lo[vi, vj] = 127
            lo[vi, vj] = T.min(lo[vi, vj], x[vi + vk, vj].astype("int32"))
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(T.max(hi[vi, vj] - lo[vi, vj], -128), 127).astype("int8")
