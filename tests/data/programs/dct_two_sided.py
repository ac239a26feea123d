"""A transform of rows and columns by one matrix, which is data of one product and the weight of another."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((4, 16, 16), "int8"), c: T.Buffer((16, 16), "int8"), out: T.Buffer((4, 16, 16), "int8")):
    a = T.alloc_buffer((4, 16, 16), "int32")
    a8 = T.alloc_buffer((4, 16, 16), "int8")
    d = T.alloc_buffer((4, 16, 16), "int32")
    for b, i, j, k in T.grid(4, 16, 16, 16):
        with T.block("a"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                a[vb, vi, vj] = 0
            a[vb, vi, vj] += c[vi, vk].astype("int32") * x[vb, vk, vj].astype("int32")
    for b, i, j in T.grid(4, 16, 16):
        with T.block("a8"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            a8[vb, vi, vj] = T.min(T.max(a[vb, vi, vj] >> 7, -128), 127).astype("int8")
    for b, i, j, k in T.grid(4, 16, 16, 16):
        with T.block("d"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                d[vb, vi, vj] = 0
            d[vb, vi, vj] += a8[vb, vi, vk].astype("int32") * c[vj, vk].astype("int32")
    for b, i, j in T.grid(4, 16, 16):
        with T.block("out"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            out[vb, vi, vj] = T.min(T.max(d[vb, vi, vj] >> 7, -128), 127).astype("int8")
