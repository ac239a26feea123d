"""Queries, keys and values of a head lie side by side in what one product makes, and then those of the next head."""

from autosched import te

VERDICT = "accepted"


def narrowed(e, shift, low=-128):
    return te.max(te.min(e >> shift, 127), low).astype("int8")


def main():
    rows, heads, deep = 9, 3, 8
    wide = heads * deep
    x, w = te.placeholder((rows, wide), "int8", name="x"), te.placeholder((3 * wide, wide), "int8", name="w")
    r, d, t = (te.reduce_axis((0, n), name=name) for name, n in (("r", wide), ("d", deep), ("t", rows)))
    sums = te.compute((rows, 3 * wide), lambda i, c: te.sum(
        x[i, r].astype("int32") * w[c, r].astype("int32"), axis=r), name="sums")
    qkv = te.compute(sums.shape, lambda i, c: narrowed(sums[i, c], 9), name="qkv")
    s = te.compute((heads, rows, rows), lambda h, i, j: te.sum(
        qkv[i, h * 3 * deep + d].astype("int32") * qkv[j, (h * 3 + 1) * deep + d].astype("int32"), axis=d), name="s")
    p = te.compute(s.shape, lambda h, i, j: narrowed(s[h, i, j], 8, 0), name="p")
    o = te.compute((heads, rows, deep), lambda h, i, e: te.sum(
        p[h, i, t].astype("int32") * qkv[t, (h * 3 + 2) * deep + e].astype("int32"), axis=t), name="o")
    z = te.compute((rows, wide), lambda i, c: narrowed(o[c // deep, i, c % deep], 7), name="z")
    return te.create_prim_func([x, w, z])
