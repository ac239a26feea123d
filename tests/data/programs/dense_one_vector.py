"""A result of ten numbers: one vector, and no loop around it."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(a: T.Buffer((100,), "int8"), w: T.Buffer((10, 100), "int8"), b: T.Buffer((10,), "int32"), out: T.Buffer((10,), "int8")):
    s = T.alloc_buffer((10,), "int32")
    for j, k in T.grid(10, 100):
        with T.block("s"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                s[vj] = b[vj]
            s[vj] = s[vj] + T.Cast("int32", a[vk]) * T.Cast("int32", w[vj, vk])
    for j in T.serial(10):
        with T.block("out"):
            vj = T.axis.spatial(10, j)
            out[vj] = T.Cast("int8", T.min(s[vj] >> 5, 127))
