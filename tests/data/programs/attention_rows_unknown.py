"""Rows that fill up an element are not zero: what is made of both of them is more than zeros."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    x = te.placeholder((20, 32), "int8", name="x")
    w = te.placeholder((32, 16), "int8", name="w")
    s = product(x, w, 20, 16, 32, "vs")
    v = te.compute((20, 16), lambda i, j: te.max(te.min((s[i, j] >> 6) + 3, 127), -128).astype("int8"), name="v")
    t = product(x, x, 20, 20, 32, "s", across=True)
    p = te.compute((20, 20), lambda i, j: te.max(te.min((t[i, j] >> 8) + 9, 127), 0).astype("int8"), name="p")
    return te.create_prim_func([x, w, narrowed(product(p, v, 20, 16, 20, "o"), 7, "y")])
