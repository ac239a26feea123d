"""Two blocks of attention, one behind the other; what one product makes has an axis of queries, keys and values."""

from autosched import te

VERDICT = "accepted"
ROWS, HEADS, DEEP = 9, 3, 16
WIDE = HEADS * DEEP


def narrowed(e, shift, low=-128):
    return te.max(te.min(e >> shift, 127), low).astype("int8")


def block(x, wqkv, wo, n):
    r, d, t, c = (te.reduce_axis((0, k), name=name) for name, k in (("r", WIDE), ("d", DEEP), ("t", ROWS), ("c", WIDE)))
    sums = te.compute((ROWS, HEADS, 3, DEEP), lambda i, h, m, e: te.sum(
        x[i, r].astype("int32") * wqkv[h, m, e, r].astype("int32"), axis=r), name=f"sums{n}")
    qkv = te.compute(sums.shape, lambda *i: narrowed(sums(*i), 9), name=f"qkv{n}")
    s = te.compute((HEADS, ROWS, ROWS), lambda h, i, j: te.sum(
        qkv[i, h, 0, d].astype("int32") * qkv[j, h, 1, d].astype("int32"), axis=d), name=f"s{n}")
    p = te.compute(s.shape, lambda h, i, j: narrowed(s[h, i, j], 8, 0), name=f"p{n}")
    o = te.compute((HEADS, ROWS, DEEP), lambda h, i, e: te.sum(
        p[h, i, t].astype("int32") * qkv[t, h, 2, e].astype("int32"), axis=t), name=f"o{n}")
    a = te.compute((ROWS, WIDE), lambda i, k: narrowed(o[k // DEEP, i, k % DEEP], 7), name=f"a{n}")
    y = te.compute((ROWS, WIDE), lambda i, k: te.sum(a[i, c].astype("int32") * wo[c, k].astype("int32"), axis=c), name=f"y{n}")
    return te.compute((ROWS, WIDE), lambda i, k: te.max(te.min(
        (y[i, k] >> 9) + (x[i, k] >> 1).astype("int32"), 127), -128).astype("int8"), name=f"z{n}")


def main():
    x = te.placeholder((ROWS, WIDE), "int8", name="x")
    shapes = (("wqkv", (HEADS, 3, DEEP, WIDE)), ("wo", (WIDE, WIDE)))
    weights = [[te.placeholder(shape, "int8", name=f"{name}{n}") for name, shape in shapes] for n in (0, 1)]
    h = x
    for n, (wqkv, wo) in enumerate(weights):
        h = block(h, wqkv, wo, n)
    return te.create_prim_func([x, *weights[0], *weights[1], h])
