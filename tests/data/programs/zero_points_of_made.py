"""Scores of queries and keys that the program makes, with zero points of both."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def projected(x, w, rows, wide, deep, name, shift=6):
    k = te.reduce_axis((0, deep), name="k_" + name)
    s = te.compute((rows, wide), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name=name + "_sum")
    return te.compute((rows, wide), lambda i, j: narrowed(s[i, j], shift), name=name)


def main():
    x, wq, wk = (te.placeholder(s, "int8", name=n) for s, n in (((16, 32), "x"), ((32, 32), "wq"), ((32, 32), "wk")))
    q, k = projected(x, wq, 16, 32, 32, "q"), projected(x, wk, 16, 32, 32, "k")
    d = te.reduce_axis((0, 32), name="d")
    s = te.compute((16, 16), lambda i, j: te.sum((q[i, d].astype("int32") - 3) * (k[j, d].astype("int32") - 5), axis=d), name="s")
    o = te.compute((16, 16), lambda i, j: narrowed(s[i, j]), name="o")
    return te.create_prim_func([x, wq, wk, o])
