"""A relu of int8 as a block of its own between two dense layers, and a residual."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def projected(x, w, rows, wide, deep, name, shift=6):
    k = te.reduce_axis((0, deep), name="k_" + name)
    s = te.compute((rows, wide), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name=name + "_sum")
    return te.compute((rows, wide), lambda i, j: narrowed(s[i, j], shift), name=name)


def main():
    x, w1, w2 = (te.placeholder(s, "int8", name=n) for s, n in (((10, 48), "x"), ((96, 48), "w1"), ((48, 96), "w2")))
    h = projected(x, w1, 10, 96, 48, "h")
    r = te.compute((10, 96), lambda i, j: te.max(h[i, j], te.const(0, "int8")), name="relu")
    k = te.reduce_axis((0, 96), name="k")
    y = te.compute((10, 48), lambda i, j: te.sum(r[i, k].astype("int32") * w2[j, k].astype("int32"), axis=k), name="y")
    z = te.compute((10, 48), lambda i, j: narrowed((y[i, j] >> 6) + x[i, j].astype("int32"), 0), name="z")
    return te.create_prim_func([x, w1, w2, z])
