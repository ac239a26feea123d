"""A block of loops and a variable of its own."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 32), "int8"), W: T.Buffer((48, 32), "int8"), out: T.Buffer((16, 48), "int8")):
    for i, j in T.grid(16, 48):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            acc = T.alloc_buffer((1,), "int32")
            acc[0] = 0
            for k in range(32):
                acc[0] += A[vi, k].astype("int32") * W[vj, k].astype("int32")
            out[vi, vj] = (acc[0] >> 8).astype("int8")
