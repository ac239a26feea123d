"""A product of matrices with maxima for sums and sums for products: of one of the two the host repeats each element along lanes."""

from autosched import te

VERDICT = "accepted"


def main():
    a, b, k = te.placeholder((24, 8), "int8", name="a"), te.placeholder((8, 32), "int8", name="b"), te.reduce_axis((0, 8), name="k")
    s = te.compute((24, 32), lambda i, j: te.max(a[i, k].astype("int32") + b[k, j].astype("int32"), axis=k), name="s")
    return te.create_prim_func([a, b, te.compute((24, 32), lambda i, j: (s[i, j] >> 1).astype("int8"), name="y")])
