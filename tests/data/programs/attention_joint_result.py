"""Attention whose queries, keys and values one product makes, and that product is a result of its own, as training wants it."""

from autosched import te

VERDICT = "accepted"


def narrowed(e, shift, low=-128):
    return te.max(te.min(e >> shift, 127), low).astype("int8")


def product(a, b, n, m, k, name):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(a[i, r].astype("int32") * b[r, j].astype("int32"), axis=r), name=name)


def main():
    rows, heads, deep = 18, 2, 16
    wide = heads * deep
    x, bias = te.placeholder((rows, wide), "int8", name="x"), te.placeholder((3 * wide,), "int32", name="bias")
    wqkv, wo = (te.placeholder((wide, n * wide), "int8", name=name) for name, n in (("wqkv", 3), ("wo", 1)))
    sums = product(x, wqkv, rows, 3 * wide, wide, "sums")
    qkv = te.compute(sums.shape, lambda i, c: narrowed(sums[i, c] + bias[c], 9), name="qkv")
    d, t = te.reduce_axis((0, deep), name="d"), te.reduce_axis((0, rows), name="t")
    s = te.compute((heads, rows, rows), lambda h, i, j: te.sum(
        qkv[i, h * deep + d].astype("int32") * qkv[j, wide + h * deep + d].astype("int32"), axis=d), name="s")
    p = te.compute(s.shape, lambda h, i, j: narrowed(s[h, i, j], 8, 0), name="p")
    o = te.compute((heads, rows, deep), lambda h, i, e: te.sum(
        p[h, i, t].astype("int32") * qkv[t, 2 * wide + h * deep + e].astype("int32"), axis=t), name="o")
    a = te.compute((rows, wide), lambda i, c: narrowed(o[c // deep, i, c % deep], 7), name="a")
    y = product(a, wo, rows, wide, wide, "y")
    z = te.compute((rows, wide), lambda i, j: te.max(te.min(
        (y[i, j] >> 9) + (x[i, j] >> 1).astype("int32"), 127), -128).astype("int8"), name="z")
    return te.create_prim_func([x, wqkv, bias, wo, z, qkv])
