"""Absolute differences over more planes than are written out."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((24, 16, 32), "int8"), c: T.Buffer((24, 16, 32), "int8"), out: T.Buffer((16, 32), "int8")):
    d = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 32, 24):
        with T.block("d"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                d[vi, vj] = 0
            d[vi, vj] += T.max(x[vk, vi, vj].astype("int32") - c[vk, vi, vj].astype("int32"), c[vk, vi, vj].astype("int32") - x[vk, vi, vj].astype("int32"))
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(T.max(d[vi, vj] >> 5, -128), 127).astype("int8")
