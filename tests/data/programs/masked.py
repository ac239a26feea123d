"""A mask of int8 chooses elements."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 64), "int8"), M: T.Buffer((16, 64), "int8"), out: T.Buffer((16, 64), "int8")):
    for i, j in T.grid(16, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Select(M[vi, vj] > T.int8(0), X[vi, vj], T.int8(0))
