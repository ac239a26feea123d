"""Attention as PyTorch writes it: views as heads, transposes, and the way back are stages of their own."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def projected(x, w, rows, wide, deep, name, shift=6):
    k = te.reduce_axis((0, deep), name="k_" + name)
    s = te.compute((rows, wide), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name=name + "_sum")
    return te.compute((rows, wide), lambda i, j: narrowed(s[i, j], shift), name=name)


def heads(t, rows, heads, deep, name):
    view = te.compute((rows, heads, deep), lambda i, h, d: t[i, h * deep + d], name=name + "_view")
    return te.compute((heads, rows, deep), lambda h, i, d: view[i, h, d], name=name + "_heads")


def main():
    rows, count, deep = 12, 2, 16
    wide = count * deep
    x = te.placeholder((rows, wide), "int8", name="x")
    wq, wk, wv, wo = (te.placeholder((wide, wide), "int8", name=name) for name in ("wq", "wk", "wv", "wo"))
    q, k, v = (heads(projected(x, w, rows, wide, wide, name), rows, count, deep, name) for w, name in ((wq, "q"), (wk, "k"), (wv, "v")))
    turned = te.compute((count, deep, rows), lambda h, d, i: k[h, i, d], name="turned")
    d, j = te.reduce_axis((0, deep), name="d"), te.reduce_axis((0, rows), name="j")
    s = te.compute((count, rows, rows), lambda h, i, t: te.sum(
        q[h, i, d].astype("int32") * turned[h, d, t].astype("int32"), axis=d), name="s")
    p = te.compute((count, rows, rows), lambda h, i, t: te.min(te.max(s[h, i, t] >> 6, 0), 127).astype("int8"), name="p")
    o = te.compute((count, rows, deep), lambda h, i, e: te.sum(
        p[h, i, j].astype("int32") * v[h, j, e].astype("int32"), axis=j), name="o")
    a = te.compute((count, rows, deep), lambda h, i, e: narrowed(o[h, i, e]), name="a")
    back = te.compute((rows, count, deep), lambda i, h, e: a[h, i, e], name="back")
    joined = te.compute((rows, wide), lambda i, c: back[i, c // deep, c % deep], name="joined")
    return te.create_prim_func([x, wq, wk, wv, wo, projected(joined, wo, rows, wide, wide, "y")])
