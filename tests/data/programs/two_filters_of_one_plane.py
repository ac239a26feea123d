"""Two filters over one plane, and the larger one of what they give."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((10, 18), "int8"), K: T.Buffer((2, 3, 3), "int8"), out: T.Buffer((8, 16), "int8")):
    g = T.alloc_buffer((2, 8, 16), "int32")
    for f, i, j, p, q in T.grid(2, 8, 16, 3, 3):
        with T.block("g"):
            vf, vi, vj, vp, vq = T.axis.remap("SSSRR", [f, i, j, p, q])
            with T.init():
                g[vf, vi, vj] = 0
            g[vf, vi, vj] += X[vi + vp, vj + vq].astype("int32") * K[vf, vp, vq].astype("int32")
    for i, j in T.grid(8, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.max(g[0, vi, vj], g[1, vi, vj]) >> 8)
