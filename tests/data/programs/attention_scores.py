"""Scores of four heads: Q times K transposed, one matrix for each head."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(Q: T.Buffer((4, 12, 32), "int8"), K: T.Buffer((4, 20, 32), "int8"), scores: T.Buffer((4, 12, 20), "int8")):
    S = T.alloc_buffer((4, 12, 20), "int32")
    for h, i, j, d in T.grid(4, 12, 20, 32):
        with T.block("S"):
            vh, vi, vj, vd = T.axis.remap("SSSR", [h, i, j, d])
            with T.init():
                S[vh, vi, vj] = 0
            S[vh, vi, vj] = S[vh, vi, vj] + T.Cast("int32", Q[vh, vi, vd]) * T.Cast("int32", K[vh, vj, vd])
    for h, i, j in T.grid(4, 12, 20):
        with T.block("scores"):
            vh, vi, vj = T.axis.remap("SSS", [h, i, j])
            scores[vh, vi, vj] = T.Cast("int8", T.min(T.max(S[vh, vi, vj] >> 5, -128), 127))
