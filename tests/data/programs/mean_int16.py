"""The mean of two tensors, computed in int16, which holds it, beside one of int8 that is shifted as it is."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((9, 33), "int8"), Y: T.Buffer((9, 33), "int8"), out: T.Buffer((9, 33), "int8"), half: T.Buffer((9, 33), "int8")
):
    S = T.alloc_buffer((9, 33), "int16")
    for i, j in T.grid(9, 33):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [i, j])
            S[vi, vj] = T.Cast("int16", X[vi, vj]) + T.Cast("int16", Y[vi, vj]) + T.int16(1)
    for i, j in T.grid(9, 33):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", S[vi, vj] >> T.int16(1))
    for i, j in T.grid(9, 33):
        with T.block("half"):
            vi, vj = T.axis.remap("SS", [i, j])
            half[vi, vj] = T.if_then_else(X[vi, vj] >= T.int8(0), X[vi, vj], X[vi, vj] >> T.int8(2))
