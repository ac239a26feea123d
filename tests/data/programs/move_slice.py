"""A part of an int8 matrix."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((32, 64), "int8"), out: T.Buffer((16, 32), "int8")):
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = X[vi + 8, vj + 16]
