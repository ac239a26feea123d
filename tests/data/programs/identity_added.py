"""A constant that is added on the diagonal only."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 16), "int8"), out: T.Buffer((16, 16), "int8")):
    for i, j in T.grid(16, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = ((A[vi, vj].astype("int32") + T.if_then_else(vi == vj, 64, 0)) >> 1).astype("int8")
