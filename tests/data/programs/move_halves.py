"""The halves of an int8 matrix, a result each."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 64), "int8"), a: T.Buffer((16, 32), "int8"), b: T.Buffer((16, 32), "int8")):
    for i, j in T.grid(16, 32):
        with T.block("a"):
            vi, vj = T.axis.remap("SS", [i, j])
            a[vi, vj] = X[vi, vj]
    for i, j in T.grid(16, 32):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = X[vi, vj + 32]
