"""An odd shape."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((5, 37), "int32"), Y: T.Buffer((5, 37), "int32"), out: T.Buffer((5, 37), "int8")):
    for i, j in T.grid(5, 37):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", X[vi, vj] + Y[vi, vj])
