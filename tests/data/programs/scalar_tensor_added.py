"""A bias of a row, and a tensor of one element."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    A: T.Buffer((6, 20,), "int32"), b: T.Buffer((20,), "int32"), e: T.Buffer((1,), "int32"), out: T.Buffer((6, 20,), "int8")
):
    for i, j in T.grid(6, 20):
        with T.block("a"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = ((A[vi, vj] + b[vj] + e[0]) >> 3).astype('int8')
