"""A result in two parts, the loops of the second from where it begins."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 32), "int32"), B: T.Buffer((16, 48), "int32"), out: T.Buffer((16, 80), "int8")):
    for i, j in T.grid(16, 32):
        with T.block("left"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = (A[vi, vj] >> 4).astype("int8")
    for i in range(16):
        for j in range(32, 80):
            with T.block("right"):
                vi = T.axis.spatial(16, i)
                vj = T.axis.spatial((32, 80), j)
                out[vi, vj] = (B[vi, vj - 32] >> 3).astype("int8")
