"""A transposition of int8: nothing is computed."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((64, 16), "int8"), out: T.Buffer((16, 64), "int8")):
    for i, j in T.grid(16, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = X[vj, vi]
