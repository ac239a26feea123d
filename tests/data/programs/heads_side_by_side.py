"""A product for each head, the heads put side by side."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(a: T.Buffer((4, 20, 16), "int8"), w: T.Buffer((4, 16, 16), "int8"), out: T.Buffer((20, 64), "int8")):
    c = T.alloc_buffer((4, 20, 16), "int32")
    for h, i, d, k in T.grid(4, 20, 16, 16):
        with T.block("c"):
            vh, vi, vd, vk = T.axis.remap("SSSR", [h, i, d, k])
            with T.init():
                c[vh, vi, vd] = 0
            c[vh, vi, vd] += a[vh, vi, vk].astype("int32") * w[vh, vd, vk].astype("int32")
    for i, f in T.grid(20, 64):
        with T.block("out"):
            vi, vf = T.axis.remap("SS", [i, f])
            out[vi, vf] = T.min(T.max(c[vf // 16, vi, vf % 16] >> 6, -128), 127).astype("int8")
