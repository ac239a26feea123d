"""The plane of all channels' means, blurred by a filter that is given."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((16, 10, 12), "int8"), w: T.Buffer((3, 3), "int8"), out: T.Buffer((8, 10), "int8")):
    s = T.alloc_buffer((10, 12), "int32")
    m = T.alloc_buffer((10, 12), "int8")
    b = T.alloc_buffer((8, 10), "int32")
    for i, j, c in T.grid(10, 12, 16):
        with T.block("s"):
            vi, vj, vc = T.axis.remap("SSR", [i, j, c])
            with T.init():
                s[vi, vj] = 0
            s[vi, vj] += x[vc, vi, vj].astype("int32")
    for i, j in T.grid(10, 12):
        with T.block("m"):
            vi, vj = T.axis.remap("SS", [i, j])
            m[vi, vj] = T.max(T.min(s[vi, vj] >> 4, 127), -128).astype("int8")
    for i, j, p, q in T.grid(8, 10, 3, 3):
        with T.block("b"):
            vi, vj, vp, vq = T.axis.remap("SSRR", [i, j, p, q])
            with T.init():
                b[vi, vj] = 0
            b[vi, vj] += m[vi + vp, vj + vq].astype("int32") * w[vp, vq].astype("int32")
    for i, j in T.grid(8, 10):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.max(T.min(b[vi, vj] >> 7, 127), -128).astype("int8")
