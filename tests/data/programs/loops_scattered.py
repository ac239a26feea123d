"""A transposed convolution that adds to what several of its loops store."""

from autosched.script import T

VERDICT = "refused: iterations of o and x and k are not known to store different elements of out"


@T.prim_func
def main(X: T.Buffer((16, 8), "int8"), W: T.Buffer((16, 16, 3), "int8"), res: T.Buffer((16, 10), "int8")):
    out = T.alloc_buffer((16, 10), "int32")
    for o, x in T.grid(16, 10):
        out[o, x] = 0
    for o, x, c, k in T.grid(16, 8, 16, 3):
        out[o, x + k] += X[c, x].astype("int32") * W[o, c, k].astype("int32")
    for i, j in T.grid(16, 10):
        res[i, j] = T.Cast("int8", out[i, j] >> 6)
