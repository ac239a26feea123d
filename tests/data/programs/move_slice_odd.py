"""A part of an int8 matrix that begins inside an element."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((12, 64), "int8"), out: T.Buffer((10, 40), "int8")):
    for i, j in T.grid(10, 40):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = X[vi + 1, vj + 8]
