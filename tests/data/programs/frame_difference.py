"""Features of neighbouring frames, less each other."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((33, 24), "int8"), w: T.Buffer((32, 24), "int8"), out: T.Buffer((32, 32), "int8")):
    f = T.alloc_buffer((33, 32), "int32")
    for t, j, k in T.grid(33, 32, 24):
        with T.block("f"):
            vt, vj, vk = T.axis.remap("SSR", [t, j, k])
            with T.init():
                f[vt, vj] = 0
            f[vt, vj] += x[vt, vk].astype("int32") * w[vj, vk].astype("int32")
    for t, j in T.grid(32, 32):
        with T.block("out"):
            vt, vj = T.axis.remap("SS", [t, j])
            out[vt, vj] = T.min(T.max((f[vt + 1, vj] - f[vt, vj]) >> 6, -128), 127).astype("int8")
