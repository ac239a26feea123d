"""A symbolic extent."""

from autosched.script import T

VERDICT = "refused: symbolic"


@T.prim_func
def main(x: T.handle, o: T.handle):
    n = T.int32()
    X = T.match_buffer(x, (n, 16), "int32")
    out = T.match_buffer(o, (n, 16), "int8")
    for i, j in T.grid(n, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", X[vi, vj])
