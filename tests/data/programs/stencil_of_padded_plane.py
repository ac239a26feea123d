"""A plane with a border of zeros, of which a stage reads neighbours along both of its indices."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((8, 16), "int8"), out: T.Buffer((8, 16), "int8")):
    P = T.alloc_buffer((10, 18), "int8")
    for i, j in T.grid(10, 18):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(1 <= vi and vi < 9 and 1 <= vj and vj < 17, X[vi - 1, vj - 1], T.int8(0))
    for i, j in T.grid(8, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast(
                "int8",
                (T.Cast("int32", P[vi, vj + 1]) + T.Cast("int32", P[vi + 1, vj]) + T.Cast("int32", P[vi + 1, vj + 2])
                 + T.Cast("int32", P[vi + 2, vj + 1])) >> 2,
            )
