"""Attention as it is usually written: values by head, heads put side by side where they are narrowed, projected and added."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(a[i, r].astype("int32") * b[r, j].astype("int32"), axis=r), name=name)


def main():
    rows, heads, deep = 18, 2, 16
    wide = heads * deep
    x = te.placeholder((rows, wide), "int8", name="x")
    wq, wk, wv, wo = (te.placeholder((wide, wide), "int8", name=name) for name in ("wq", "wk", "wv", "wo"))
    q, k, v = (narrowed(product(x, w, rows, wide, wide, name + "s"), 9, name) for name, w in zip("qkv", (wq, wk, wv)))
    d, t = te.reduce_axis((0, deep), name="d"), te.reduce_axis((0, rows), name="t")
    s = te.compute((heads, rows, rows), lambda h, i, j: te.sum(
        q[i, h * deep + d].astype("int32") * k[j, h * deep + d].astype("int32"), axis=d), name="s")
    p = narrowed(s, 8, "p", 0)
    o = te.compute((heads, rows, deep), lambda h, i, e: te.sum(
        p[h, i, t].astype("int32") * v[t, h * deep + e].astype("int32"), axis=t), name="o")
    a = te.compute((rows, wide), lambda i, c: te.max(te.min(
        o[c // deep, i, c % deep] >> 7, 127), -128).astype("int8"), name="a")
    y = product(a, wo, rows, wide, wide, "ys")
    z = te.compute((rows, wide), lambda i, j: te.max(te.min(
        (y[i, j] >> 9) + (x[i, j] >> 1).astype("int32"), 127), -128).astype("int8"), name="z")
    return te.create_prim_func([x, wq, wk, wv, wo, z])
