"""A convolution in loops without blocks: all of P set to zero, its inside set anew, sums in place."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((32, 14, 14), "int8"), W: T.Buffer((32, 32, 3, 3), "int8"), out: T.Buffer((32, 14, 14), "int8")):
    P = T.alloc_buffer((32, 16, 16), "int8")
    C = T.alloc_buffer((32, 14, 14), "int32")
    for c, y, x in T.grid(32, 16, 16):
        P[c, y, x] = T.int8(0)
    for c, y, x in T.grid(32, 14, 14):
        P[c, y + 1, x + 1] = X[c, y, x]
    for o, y, x in T.grid(32, 14, 14):
        C[o, y, x] = 0
        for c, p, q in T.grid(32, 3, 3):
            C[o, y, x] += P[c, y + p, x + q].astype("int32") * W[o, c, p, q].astype("int32")
        out[o, y, x] = T.Cast("int8", T.min(T.max(C[o, y, x] >> 8, 0), 127))
