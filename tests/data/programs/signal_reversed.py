"""A one-dimensional filter with its taps reversed."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((135, 16), "int8"), R: T.Buffer((8, 16, 16), "int8"), out: T.Buffer((128, 16), "int8")):
    C = T.alloc_buffer((128, 16), "int32")
    for i, o, j, c in T.grid(128, 16, 8, 16):
        with T.block("C"):
            vi, vo, vj, vc = T.axis.remap("SSRR", [i, o, j, c])
            with T.init():
                C[vi, vo] = 0
            C[vi, vo] = C[vi, vo] + T.Cast("int32", X[vi + vj, vc]) * T.Cast("int32", R[7 - vj, vo, vc])
    for i, o in T.grid(128, 16):
        with T.block("out"):
            vi, vo = T.axis.remap("SS", [i, o])
            out[vi, vo] = T.Cast("int8", T.min(T.max(C[vi, vo] >> 8, -128), 127))
