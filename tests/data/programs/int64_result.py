"""A result of 64 bits, which the machine does not compute."""

from autosched.script import T

VERDICT = "refused: out is a result and int64"


@T.prim_func
def main(X: T.Buffer((16, 64), "int32"), out: T.Buffer((16, 64), "int64")):
    for i, j in T.grid(16, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int64", X[vi, vj] + 1)
