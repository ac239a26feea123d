"""A matrix product as it is written in C: int32, loops without blocks."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((24, 40), "int8"), B: T.Buffer((40, 36), "int8"), C: T.Buffer((24, 36), "int32")):
    for i in range(24):
        for j in range(36):
            C[i, j] = 0
            for k in range(40):
                C[i, j] += T.cast(A[i, k], "int32") * T.cast(B[k, j], "int32")
