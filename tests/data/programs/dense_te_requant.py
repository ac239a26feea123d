"""A definition with its epilogue in one expression."""

from autosched import te
from autosched.script import T

VERDICT = "accepted"


def main():
    A, W = te.placeholder((16, 64), "int8", "A"), te.placeholder((32, 64), "int8", "W")
    k = te.reduce_axis((0, 64), "k")
    C = te.compute((16, 32), lambda i, j: te.sum(A[i, k].astype("int32") * W[j, k].astype("int32"), axis=k), name="C")
    out = te.compute((16, 32), lambda i, j: T.min(T.max(C[i, j] >> 8, 0), 127).astype("int8"), name="out")
    return te.create_prim_func([A, W, out])
