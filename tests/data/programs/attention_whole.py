"""Attention from its input to its output: queries, keys and values are computed, and multiplied by each other."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    rows, deep, size = 20, 24, 40
    x = te.placeholder((rows, deep), "int8", name="x")
    wq, wk, wv = (te.placeholder((deep, size), "int8", name=name) for name in ("wq", "wk", "wv"))
    q = narrowed(product(x, wq, rows, size, deep, "qs"), 6, "q")
    k = narrowed(product(x, wk, rows, size, deep, "ks"), 6, "k")
    v = narrowed(product(x, wv, rows, size, deep, "vs"), 6, "v")
    p = narrowed(product(q, k, rows, rows, size, "s", across=True), 7, "p", 0)
    y = narrowed(product(p, v, rows, size, rows, "o"), 7, "y")
    return te.create_prim_func([x, wq, wk, wv, y])
