"""Zero points that are no constants, from which the elements of both factors are taken away, as some exporters write them."""

from autosched import te

VERDICT = "accepted"
ROWS, DEEP, WIDE = 12, 40, 24


def main():
    x, w = te.placeholder((ROWS, DEEP), "int8", name="x"), te.placeholder((WIDE, DEEP), "int8", name="w")
    zx, zw = te.placeholder((1,), "int32", name="zx"), te.placeholder((WIDE,), "int32", name="zw")
    k = te.reduce_axis((0, DEEP), name="k")
    s = te.compute((ROWS, WIDE), lambda i, j: te.sum(
        (zx[0] - x[i, k].astype("int32")) * (zw[j] - w[j, k].astype("int32")), axis=k), name="s")
    y = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 8, 127), -128).astype("int8"), name="y")
    return te.create_prim_func([x, w, zx, zw, y])
