"""A minimum inside a maximum, of one tensor at three places."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((20, 32), "int8"), out: T.Buffer((18, 32), "int8")):
    for i, j in T.grid(18, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.max(T.min(T.Cast("int32", X[vi, vj]), T.Cast("int32", X[vi + 1, vj])), T.Cast("int32", X[vi + 2, vj])))
