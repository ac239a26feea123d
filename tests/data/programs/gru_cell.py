"""``z * n + (64 - z) * h``: both gates are made, and one of them is taken from a constant."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def projected(x, w, rows, wide, deep, name, shift=6):
    k = te.reduce_axis((0, deep), name="k_" + name)
    s = te.compute((rows, wide), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name=name + "_sum")
    return te.compute((rows, wide), lambda i, j: narrowed(s[i, j], shift), name=name)


def main():
    x, h, wz, wn = (te.placeholder(s, "int8", name=n) for s, n in (((1, 32), "x"), ((1, 32), "h"), ((32, 32), "wz"), ((32, 32), "wn")))
    kz = te.reduce_axis((0, 32), name="kz")
    zs = te.compute((1, 32), lambda i, j: te.sum(x[i, kz].astype("int32") * wz[j, kz].astype("int32"), axis=kz), name="zs")
    z = te.compute((1, 32), lambda i, j: te.min(te.max((zs[i, j] >> 8) + 32, 0), 64).astype("int8"), name="z")
    n = projected(h, wn, 1, 32, 32, "n", 7)
    o = te.compute((1, 32), lambda i, j: ((z[i, j].astype("int32") * n[i, j].astype("int32")
                                           + (64 - z[i, j].astype("int32")) * h[i, j].astype("int32")) >> 6).astype("int8"), name="o")
    return te.create_prim_func([x, h, wz, wn, o])
