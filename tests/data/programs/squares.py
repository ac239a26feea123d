"""Every element times itself: the host makes a diagonal of what is data as well."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((16, 32), "int8"), out: T.Buffer((16, 32), "int8")):
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(T.max((x[vi, vj].astype("int32") * x[vi, vj].astype("int32")) >> 7, -128), 127).astype("int8")
