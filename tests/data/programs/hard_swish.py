"""What a layer makes times its own hard sigmoid, which is computed in int32 and fits int8."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def projected(x, w, rows, wide, deep, name, shift=6):
    k = te.reduce_axis((0, deep), name="k_" + name)
    s = te.compute((rows, wide), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name=name + "_sum")
    return te.compute((rows, wide), lambda i, j: narrowed(s[i, j], shift), name=name)


def main():
    x, w = te.placeholder((8, 64), "int8", name="x"), te.placeholder((32, 64), "int8", name="w")
    y = projected(x, w, 8, 32, 64, "y")
    g = te.compute((8, 32), lambda i, j: te.max(te.min((y[i, j].astype("int32") >> 1) + 48, 96), 0), name="gate")
    r = te.compute((8, 32), lambda i, j: ((y[i, j].astype("int32") * g[i, j]) >> 7).astype("int8"), name="r")
    return te.create_prim_func([x, w, r])
