"""Rows without their means, each scaled by what its sum of squares gives: both are written where they are used."""

from autosched import te

VERDICT = "accepted"
ROWS, SIZE = 20, 48


def main():
    x, g = te.placeholder((ROWS, SIZE), "int8", name="x"), te.placeholder((SIZE,), "int8", name="g")
    k, r = te.reduce_axis((0, SIZE), name="k"), te.reduce_axis((0, SIZE), name="r")
    total = te.compute((ROWS,), lambda i: te.sum(x[i, k].astype("int32"), axis=k), name="total")
    c = te.compute((ROWS, SIZE), lambda i, j: te.max(te.min(
        x[i, j].astype("int32") - (total[i] >> 6), 127), -128).astype("int8"), name="c")
    squares = te.compute((ROWS,), lambda i: te.sum(c[i, r].astype("int32") * c[i, r].astype("int32"), axis=r), name="squares")
    scale = te.compute((ROWS,), lambda i: te.max(te.min(127 - (squares[i] >> 12), 127), 1).astype("int8"), name="scale")
    n = te.compute((ROWS, SIZE), lambda i, j: ((c[i, j].astype("int32") * scale[i].astype("int32")) >> 7).astype("int8"), name="n")
    out = te.compute((ROWS, SIZE), lambda i, j: ((n[i, j].astype("int32") * g[j].astype("int32")) >> 6).astype("int8"), name="out")
    return te.create_prim_func([x, g, out])
