"""A dense layer behind another one, with zero points of both its factors."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def projected(x, w, rows, wide, deep, name, shift=6):
    k = te.reduce_axis((0, deep), name="k_" + name)
    s = te.compute((rows, wide), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name=name + "_sum")
    return te.compute((rows, wide), lambda i, j: narrowed(s[i, j], shift), name=name)


def main():
    x, w1, w2 = (te.placeholder(s, "int8", name=n) for s, n in (((16, 32), "x"), ((32, 32), "w1"), ((32, 32), "w2")))
    h = projected(x, w1, 16, 32, 32, "h")
    k = te.reduce_axis((0, 32), name="k")
    s = te.compute((16, 32), lambda i, j: te.sum(
        (h[i, k].astype("int32") + 12) * (w2[j, k].astype("int32") - 5), axis=k), name="s")
    o = te.compute((16, 32), lambda i, j: narrowed(s[i, j]), name="o")
    return te.create_prim_func([x, w1, w2, o])
