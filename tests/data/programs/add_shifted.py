"""A vector and itself, shifted."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((400, 16), "int32"), out: T.Buffer((200, 16), "int8")):
    for i, j in T.grid(200, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", X[vi, vj] + X[vi + 200, vj])
