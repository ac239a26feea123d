"""Variables of every element, one changed under a condition by data."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 32), "int32"), out: T.Buffer((16, 32), "int8")):
    t = T.alloc_buffer((1,), "int32")
    u = T.alloc_buffer((1,), "int32")
    for i, j in T.grid(16, 32):
        t[0] = X[i, j] + 3
        u[0] = t[0] >> 2
        if u[0] < 0:
            u[0] = 0
        out[i, j] = T.Cast("int8", T.min(u[0], 127))
