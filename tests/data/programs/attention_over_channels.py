"""Channels weighed by their products with each other: of what is multiplied both layouts are computed."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    x = te.placeholder((48, 32), "int8", name="x")
    w = te.placeholder((32, 32), "int8", name="w")
    f = narrowed(product(x, w, 48, 32, 32, "fs"), 6, "f")
    t = te.reduce_axis((0, 48), name="t")
    g = te.compute((32, 32), lambda c, d: te.sum(f[t, c].astype("int32") * f[t, d].astype("int32"), axis=t), name="g")
    return te.create_prim_func([x, w, narrowed(product(f, narrowed(g, 9, "a", 0), 48, 32, 32, "o"), 7, "y")])
