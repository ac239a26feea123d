"""Every element of one vector times every element of another: nothing is summed up, and a diagonal sums up zeros."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(a: T.Buffer((48,), "int8"), b: T.Buffer((64,), "int8"), out: T.Buffer((48, 64), "int8")):
    C = T.alloc_buffer((48, 64), "int32")
    for i, j in T.grid(48, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = a[vi].astype("int32") * b[vj].astype("int32")
    for i, j in T.grid(48, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = (C[vi, vj] >> 7).astype("int8")
