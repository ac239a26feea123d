"""A convolution in one nest: set at the first step, stored at the last."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 10, 10), "int8"), W: T.Buffer((32, 16, 3, 3), "int8"), out: T.Buffer((32, 8, 8), "int8")):
    C = T.alloc_buffer((32, 8, 8), "int32")
    for o, y, x in T.grid(32, 8, 8):
        for c in range(16):
            for p in range(3):
                for q in range(3):
                    if c == 0 and p == 0 and q == 0:
                        C[o, y, x] = 0
                    C[o, y, x] += X[c, y + p, x + q].astype("int32") * W[o, c, p, q].astype("int32")
                    if c == 15 and p == 2 and q == 2:
                        out[o, y, x] = T.Cast("int8", T.max(C[o, y, x] >> 8, 0))
