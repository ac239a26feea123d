"""A division that is no shift."""

from autosched.script import T

VERDICT = "refused: the ALU cannot compute X[..] // 10; it shifts instead of dividing"


@T.prim_func
def main(X: T.Buffer((20, 30), "int32"), out: T.Buffer((20, 30), "int8")):
    for i, j in T.grid(20, 30):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", X[vi, vj] // 10)
