"""Two chains of int32 tensors, each in a stage of its own, joined."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 64), "int32"), Y: T.Buffer((16, 64), "int32"), out: T.Buffer((16, 64), "int8")):
    a = T.alloc_buffer((16, 64), "int32")
    b = T.alloc_buffer((16, 64), "int32")
    for i, j in T.grid(16, 64):
        with T.block("a"):
            vi, vj = T.axis.remap("SS", [i, j])
            a[vi, vj] = T.max(X[vi, vj] >> 1, 0)
    for i, j in T.grid(16, 64):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = T.min(Y[vi, vj] >> 2, 7)
    for i, j in T.grid(16, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", a[vi, vj] + b[vi, vj])
