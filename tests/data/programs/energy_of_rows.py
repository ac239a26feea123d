"""Sums of squares along the rows of what a product makes: one factor becomes a diagonal, element by element."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    x = te.placeholder((16, 32), "int8", name="x")
    w = te.placeholder((32, 32), "int8", name="w")
    a = narrowed(product(x, w, 16, 32, 32, "s"), 6, "a")
    r = te.reduce_axis((0, 32), name="r")
    e = te.compute((16,), lambda i: te.sum(a[i, r].astype("int32") * a[i, r].astype("int32"), axis=r), name="e")
    return te.create_prim_func([x, w, te.compute((16,), lambda i: te.max(te.min(e[i] >> 12, 127), -128).astype("int8"), name="y")])
