"""Attention of two heads that lie side by side, from its input to its output and what it is added to."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    rows, heads, deep = 18, 2, 16
    wide = heads * deep
    x = te.placeholder((rows, wide), "int8", name="x")
    wq, wk, wv, wo = (te.placeholder((wide, wide), "int8", name=name) for name in ("wq", "wk", "wv", "wo"))
    q = narrowed(product(x, wq, rows, wide, wide, "qs"), 6, "q")
    k = narrowed(product(x, wk, rows, wide, wide, "ks"), 6, "k")
    v = narrowed(product(x, wv, rows, wide, wide, "vs"), 6, "v")
    d, t = te.reduce_axis((0, deep), name="d"), te.reduce_axis((0, rows), name="t")
    s = te.compute((heads, rows, rows), lambda h, i, j: te.sum(
        q[i, h * deep + d].astype("int32") * k[j, h * deep + d].astype("int32"), axis=d), name="s")
    p = narrowed(s, 6, "p", 0)
    o = te.compute((rows, wide), lambda i, c: te.sum(
        p[c // deep, i, t].astype("int32") * v[t, c].astype("int32"), axis=t), name="o")
    a = narrowed(o, 7, "a")
    h = product(a, wo, rows, wide, wide, "hs")
    z = te.compute((rows, wide), lambda i, j: te.max(te.min(
        (h[i, j] >> 6) + x[i, j].astype("int32"), 127), -128).astype("int8"), name="z")
    return te.create_prim_func([x, wq, wk, wv, wo, z])
