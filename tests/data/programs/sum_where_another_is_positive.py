"""Sums of the elements of each row where those of another tensor are positive, written as a product with a comparison."""

from autosched import te

VERDICT = "accepted"


def main():
    x, y = te.placeholder((16, 48), "int8", name="x"), te.placeholder((16, 48), "int8", name="y")
    k = te.reduce_axis((0, 48), name="k")
    return te.create_prim_func([x, y, te.compute((16,), lambda i: te.sum(
        x[i, k].astype("int32") * (y[i, k] > 0).astype("int32"), axis=k), name="out")])
