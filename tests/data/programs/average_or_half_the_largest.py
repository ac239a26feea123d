"""The average of each row or half of its largest element, whichever is more: an extremum is shifted before it is joined."""

from autosched import te

VERDICT = "accepted"
ROWS, SIZE = 24, 64


def main():
    x = te.placeholder((ROWS, SIZE), "int8", name="x")
    k, r = te.reduce_axis((0, SIZE), name="k"), te.reduce_axis((0, SIZE), name="r")
    most = te.compute((ROWS,), lambda i: te.max(x[i, k].astype("int32"), axis=k), name="most")
    total = te.compute((ROWS,), lambda i: te.sum(x[i, r].astype("int32"), axis=r), name="total")
    y = te.compute((ROWS,), lambda i: te.max(most[i] >> 1, total[i] >> 6).astype("int8"), name="y")
    return te.create_prim_func([x, y])
