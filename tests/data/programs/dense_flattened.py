"""A product transposed and flattened, read at quotients and remainders."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(a: T.Buffer((24, 32), "int8"), w: T.Buffer((32, 32), "int8"), out: T.Buffer((768,), "int8")):
    c = T.alloc_buffer((24, 32), "int32")
    for i, j, k in T.grid(24, 32, 32):
        with T.block("c"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[vi, vj] = 0
            c[vi, vj] += a[vi, vk].astype("int32") * w[vj, vk].astype("int32")
    for f in range(768):
        with T.block("out"):
            vf = T.axis.spatial(768, f)
            out[vf] = T.min(T.max(c[vf % 24, vf // 24] >> 6, -128), 127).astype("int8")
