"""One dimension."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1024,), "int32"), Y: T.Buffer((1024,), "int32"), out: T.Buffer((1024,), "int8")):
    for i in range(1024):
        with T.block("out"):
            vi = T.axis.remap("S", [i])
            out[vi] = T.Cast("int8", X[vi] + Y[vi])
