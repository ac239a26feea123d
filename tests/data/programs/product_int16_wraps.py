"""A multiple of an int8 value that int16 does not hold."""

from autosched.script import T

VERDICT = "refused: block 'out' computes in int16 what may not fit into it; the ALU computes in int32: write int32 in place"


@T.prim_func
def main(X: T.Buffer((9, 33), "int8"), out: T.Buffer((9, 33), "int8")):
    for i, j in T.grid(9, 33):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.min(T.Cast("int16", X[vi, vj]) * T.int16(1000), T.int16(127)))
