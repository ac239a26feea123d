"""Three int8 matrices on top of each other."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((10, 32), "int8"), Y: T.Buffer((6, 32), "int8"), Z: T.Buffer((4, 32), "int8"), out: T.Buffer((20, 32), "int8")):
    for i, j in T.grid(20, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.if_then_else(vi < 10, X[vi, vj], T.if_then_else(vi < 16, Y[vi - 10, vj], Z[vi - 16, vj]))
