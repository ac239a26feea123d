"""A running sum in a variable: no iteration fills it anew."""

from autosched.script import T

VERDICT = "refused: two stores write acc"


@T.prim_func
def main(X: T.Buffer((16, 32), "int32"), out: T.Buffer((16, 32), "int8")):
    acc = T.alloc_buffer((1,), "int32")
    acc[0] = 0
    for i, j in T.grid(16, 32):
        acc[0] = acc[0] + X[i, j]
        out[i, j] = T.Cast("int8", acc[0] >> 6)
