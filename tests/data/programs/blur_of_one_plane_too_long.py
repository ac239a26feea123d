"""A box of 9 x 9 over one plane: more places than are written out."""

from autosched.script import T

VERDICT = "refused: windows over a plane are written out, of 64 places"


@T.prim_func
def main(X: T.Buffer((12, 24), "int8"), out: T.Buffer((4, 16), "int8")):
    s = T.alloc_buffer((4, 16), "int32")
    for i, j, p, q in T.grid(4, 16, 9, 9):
        with T.block("s"):
            vi, vj, vp, vq = T.axis.remap("SSRR", [i, j, p, q])
            with T.init():
                s[vi, vj] = 0
            s[vi, vj] = s[vi, vj] + T.Cast("int32", X[vi + vp, vj + vq])
    for i, j in T.grid(4, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", s[vi, vj] >> 7)
