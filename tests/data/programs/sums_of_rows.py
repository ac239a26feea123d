"""Squared lengths of rows that the program makes, as int32, beside what they are made of."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def projected(x, w, rows, wide, deep, name, shift=6):
    k = te.reduce_axis((0, deep), name="k_" + name)
    s = te.compute((rows, wide), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name=name + "_sum")
    return te.compute((rows, wide), lambda i, j: narrowed(s[i, j], shift), name=name)


def main():
    x, w = te.placeholder((20, 48), "int8", name="x"), te.placeholder((32, 48), "int8", name="w")
    f = projected(x, w, 20, 32, 48, "f")
    d = te.reduce_axis((0, 32), name="d")
    n = te.compute((20,), lambda i: te.sum(f[i, d].astype("int32") * f[i, d].astype("int32"), axis=d), name="n")
    return te.create_prim_func([x, w, f, n])
