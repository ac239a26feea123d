"""Two packed tensors that stages make, multiplied element by element."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((4, 1, 16), "int8"), Y: T.Buffer((4, 1, 16), "int8"), out: T.Buffer((4, 1, 16), "int8")):
    a = T.alloc_buffer((4, 1, 16), "int8")
    b = T.alloc_buffer((4, 1, 16), "int8")
    for i, r, j in T.grid(4, 1, 16):
        with T.block("a"):
            vi, vr, vj = T.axis.remap("SSS", [i, r, j])
            a[vi, vr, vj] = T.max(X[vi, vr, vj], T.int8(0))
    for i, r, j in T.grid(4, 1, 16):
        with T.block("b"):
            vi, vr, vj = T.axis.remap("SSS", [i, r, j])
            b[vi, vr, vj] = T.max(Y[vi, vr, vj], T.int8(-3))
    for i, r, j in T.grid(4, 1, 16):
        with T.block("out"):
            vi, vr, vj = T.axis.remap("SSS", [i, r, j])
            out[vi, vr, vj] = ((a[vi, vr, vj].astype("int32") * b[vi, vr, vj].astype("int32")) >> 7).astype("int8")
