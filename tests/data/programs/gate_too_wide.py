"""A gate of more than 15 bits, which two elements of int8 do not hold."""

from autosched.script import T

VERDICT = "refused: block y multiplies x[vi, vj] by gate[vi, vj]"


@T.prim_func
def main(x: T.Buffer((14, 32), "int8"), y: T.Buffer((14, 32), "int8")):
    gate = T.alloc_buffer((14, 32), "int32")
    for i, j in T.grid(14, 32):
        with T.block("gate"):
            vi, vj = T.axis.remap("SS", [i, j])
            gate[vi, vj] = T.min(T.max(T.shift_left(T.Cast("int32", x[vi, vj]), 9) + 96, 0), 40000)
    for i, j in T.grid(14, 32):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("int8", (T.Cast("int32", x[vi, vj]) * gate[vi, vj]) >> 8)
