"""A hard swish whose gate goes up to 192: no int8 holds it, two do."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((14, 32), "int8"), y: T.Buffer((14, 32), "int8")):
    gate = T.alloc_buffer((14, 32), "int32")
    for i, j in T.grid(14, 32):
        with T.block("gate"):
            vi, vj = T.axis.remap("SS", [i, j])
            gate[vi, vj] = T.min(T.max(T.Cast("int32", x[vi, vj]) + 96, 0), 192)
    for i, j in T.grid(14, 32):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("int8", (T.Cast("int32", x[vi, vj]) * gate[vi, vj]) >> 8)
