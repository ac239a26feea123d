"""Bias of rows and of columns on plain tensors."""
from autosched.script import T
VERDICT = "accepted"
@T.prim_func
def main(X: T.Buffer((20, 40), "int32"), r: T.Buffer((20,), "int32"), c: T.Buffer((40,), "int32"), out: T.Buffer((20, 40), "int8")):
    for i, j in T.grid(20, 40):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", X[vi, vj] + r[vi] + c[vj])
