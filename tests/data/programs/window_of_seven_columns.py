"""A window over rows, of fewer columns than an element has lanes."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((10, 7,), "int32"), o1: T.Buffer((8, 7,), "int8")):
    for i, j in T.grid(8, 7):
        with T.block("o1"):
            vi, vj = T.axis.remap("SS", [i, j])
            o1[vi, vj] = ((A[vi, vj] + A[vi + 1, vj] + A[vi + 2, vj]) >> 3).astype('int8')
