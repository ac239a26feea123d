"""The minimum of each column."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((32, 64), "int32"), out: T.Buffer((64,), "int8")):
    C = T.alloc_buffer((64,), "int32")
    for j, i in T.grid(64, 32):
        with T.block("C"):
            vj, vi = T.axis.remap("SR", [j, i])
            with T.init():
                C[vj] = T.max_value("int32")
            C[vj] = T.min(C[vj], X[vi, vj])
    for j in range(64):
        with T.block("out"):
            vj = T.axis.remap("S", [j])
            out[vj] = T.Cast("int8", C[vj])
