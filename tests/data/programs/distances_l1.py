"""Sums of absolute differences: no product."""

from autosched.script import T

VERDICT = "refused: block d sums up T.max"


@T.prim_func
def main(x: T.Buffer((20, 32), "int8"), c: T.Buffer((16, 32), "int8"), out: T.Buffer((20, 16), "int8")):
    d = T.alloc_buffer((20, 16), "int32")
    for i, j, k in T.grid(20, 16, 32):
        with T.block("d"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                d[vi, vj] = 0
            d[vi, vj] += T.max(x[vi, vk].astype("int32") - c[vj, vk].astype("int32"), c[vj, vk].astype("int32") - x[vi, vk].astype("int32"))
    for i, j in T.grid(20, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(d[vi, vj] >> 5, 127).astype("int8")
