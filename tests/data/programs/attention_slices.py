"""One projection to queries, keys and values, which slices as stages take apart."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def projected(x, w, rows, wide, deep, name, shift=6):
    k = te.reduce_axis((0, deep), name="k_" + name)
    s = te.compute((rows, wide), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name=name + "_sum")
    return te.compute((rows, wide), lambda i, j: narrowed(s[i, j], shift), name=name)


def sliced(y, first):
    return lambda i, c: y[i, c + first]


def main():
    rows, wide = 16, 32
    x, w = te.placeholder((rows, wide), "int8", name="x"), te.placeholder((3 * wide, wide), "int8", name="w")
    y = projected(x, w, rows, 3 * wide, wide, "qkv")
    q, k, v = (te.compute((rows, wide), sliced(y, at * wide), name=name) for at, name in enumerate("qkv"))
    d, j = te.reduce_axis((0, wide), name="d"), te.reduce_axis((0, rows), name="j")
    s = te.compute((rows, rows), lambda i, t: te.sum(q[i, d].astype("int32") * k[t, d].astype("int32"), axis=d), name="s")
    p = te.compute((rows, rows), lambda i, t: te.min(te.max(s[i, t] >> 7, 0), 127).astype("int8"), name="p")
    o = te.compute((rows, wide), lambda i, e: te.sum(p[i, j].astype("int32") * v[j, e].astype("int32"), axis=j), name="o")
    r = te.compute((rows, wide), lambda i, e: narrowed(o[i, e]), name="r")
    return te.create_prim_func([x, w, r])
