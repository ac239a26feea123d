"""Scores of several heads in a batch, cut from projections by views."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def main():
    batch, rows, count, deep = 2, 8, 2, 16
    wide = count * deep
    x, wq, wk = (te.placeholder(s, "int8", name=n) for s, n in (((batch, rows, wide), "x"), ((wide, wide), "wq"), ((wide, wide), "wk")))

    def heads(w, name):
        k = te.reduce_axis((0, wide), name="k_" + name)
        s = te.compute((batch, rows, wide), lambda b, i, j: te.sum(
            x[b, i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name=name + "_sum")
        t = te.compute((batch, rows, wide), lambda b, i, j: narrowed(s[b, i, j], 6), name=name)
        return te.compute((batch, count, rows, deep), lambda b, h, i, d: t[b, i, h * deep + d], name=name + "_heads")

    q, k = heads(wq, "q"), heads(wk, "k")
    d = te.reduce_axis((0, deep), name="d")
    s = te.compute((batch, count, rows, rows), lambda b, h, i, j: te.sum(
        q[b, h, i, d].astype("int32") * k[b, h, j, d].astype("int32"), axis=d), name="s")
    p = te.compute((batch, count, rows, rows), lambda b, h, i, j: narrowed(s[b, h, i, j], 6), name="p")
    return te.create_prim_func([x, wq, wk, p])
