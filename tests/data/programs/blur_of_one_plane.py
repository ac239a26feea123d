"""A box of 3 x 3 over one plane: of no index are the lanes the same at all of its places."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((10, 18), "int8"), out: T.Buffer((8, 16), "int8")):
    s = T.alloc_buffer((8, 16), "int32")
    for i, j, p, q in T.grid(8, 16, 3, 3):
        with T.block("s"):
            vi, vj, vp, vq = T.axis.remap("SSRR", [i, j, p, q])
            with T.init():
                s[vi, vj] = 0
            s[vi, vj] = s[vi, vj] + T.Cast("int32", X[vi + vp, vj + vq])
    for i, j in T.grid(8, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", s[vi, vj] >> 3)
