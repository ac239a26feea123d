"""A padded convolution as in C: every tensor is a vector, and loops have no blocks."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((6272,), "int8"), W: T.Buffer((9216,), "int8"), b: T.Buffer((32,), "int32"), out: T.Buffer((6272,), "int8")):
    P = T.alloc_buffer((8192,), "int8")
    C = T.alloc_buffer((6272,), "int32")
    for i in range(8192):
        P[i] = T.int8(0)
    for c, y, x in T.grid(32, 14, 14):
        P[(c * 16 + y + 1) * 16 + x + 1] = X[(c * 14 + y) * 14 + x]
    for o, y, x in T.grid(32, 14, 14):
        C[(o * 14 + y) * 14 + x] = b[o]
        for c, p, q in T.grid(32, 3, 3):
            C[(o * 14 + y) * 14 + x] += P[(c * 16 + y + p) * 16 + x + q].astype("int32") * W[((o * 32 + c) * 3 + p) * 3 + q].astype("int32")
    for i in range(6272):
        out[i] = T.Cast("int8", T.min(T.max(C[i] >> 8, 0), 127))
