"""A matrix times a vector, without a dimension for the one row."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((128,), "int8"), W: T.Buffer((64, 128), "int8"), y: T.Buffer((64,), "int8")):
    C = T.alloc_buffer((64,), "int32")
    for j, k in T.grid(64, 128):
        with T.block("C"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C[vj] = 0
            C[vj] = C[vj] + T.Cast("int32", x[vk]) * T.Cast("int32", W[vj, vk])
    for j in range(64):
        with T.block("y"):
            vj = T.axis.remap("S", [j])
            y[vj] = T.Cast("int8", T.min(T.max(C[vj] >> 8, -128), 127))
