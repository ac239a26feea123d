"""A product in loops without blocks, summed up in one variable."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 32), "int8"), W: T.Buffer((48, 32), "int8"), out: T.Buffer((16, 48), "int8")):
    acc = T.alloc_buffer((1,), "int32")
    for i, j in T.grid(16, 48):
        acc[0] = 0
        for k in range(32):
            acc[0] += A[i, k].astype("int32") * W[j, k].astype("int32")
        out[i, j] = (acc[0] >> 8).astype("int8")
