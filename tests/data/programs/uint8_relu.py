"""Unsigned bytes."""

from autosched.script import T

VERDICT = "refused: uint8"


@T.prim_func
def main(X: T.Buffer((16, 64), "uint8"), out: T.Buffer((16, 64), "int8")):
    for i, j in T.grid(16, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.min(X[vi, vj], T.uint8(127)))
