"""Neighbours in what a product makes, multiplied by each other: they lie in other lanes."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    x = te.placeholder((8, 32), "int8", name="x")
    w = te.placeholder((32, 33), "int8", name="w")
    a = narrowed(product(x, w, 8, 33, 32, "s"), 7, "a")
    y = te.compute((8, 32), lambda i, j: (
        (a[i, j].astype("int32") * a[i, j + 1].astype("int32")) >> 7).astype("int8"), name="y")
    return te.create_prim_func([x, w, y])
