"""The largest of three int8 tensors."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((20, 32), "int8"), Y: T.Buffer((20, 32), "int8"), Z: T.Buffer((20, 32), "int8"), out: T.Buffer((20, 32), "int8")):
    for i, j in T.grid(20, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.max(T.max(X[vi, vj], Y[vi, vj]), Z[vi, vj])
