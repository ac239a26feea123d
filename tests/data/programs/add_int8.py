"""Two int8 tensors."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 64), "int8"), Y: T.Buffer((16, 64), "int8"), out: T.Buffer((16, 64), "int8")):
    for i, j in T.grid(16, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.min(T.max(T.Cast("int32", X[vi, vj]) + T.Cast("int32", Y[vi, vj]), -128), 127))
