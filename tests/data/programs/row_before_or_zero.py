"""Each row and the one before it, which is zero in front of the first: a stage that reads inside an image, and zero around it."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((8, 16), "int8"), B: T.Buffer((8, 16), "int8"), out: T.Buffer((8, 16), "int8")):
    for i, j in T.grid(8, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast(
                "int8",
                (T.Cast("int32", A[vi, vj]) + T.Cast("int32", T.if_then_else(vi >= 1, A[vi - 1, vj], T.int8(0)))
                 - T.if_then_else(vi >= 1, T.Cast("int32", B[vi - 1, vj]), 0)) >> 2,
            )
