"""Scores of tokens: one of the class, and behind it what a convolution makes of an image's patches, row by row."""

from autosched import te

VERDICT = "accepted"
SIDE, PATCH, COLOURS, WIDE = 4, 4, 3, 32
TOKENS = SIDE * SIDE + 1


def narrowed(e, shift):
    return te.max(te.min(e >> shift, 127), -128).astype("int8")


def main():
    image, w, first, wq = (te.placeholder(s, "int8", name=n) for s, n in (
        ((SIDE * PATCH, SIDE * PATCH, COLOURS), "image"), ((PATCH, PATCH, COLOURS, WIDE), "w"), ((WIDE,), "first"),
        ((WIDE, WIDE), "wq")))
    dy, dx, c = (te.reduce_axis((0, n), name=m) for n, m in ((PATCH, "dy"), (PATCH, "dx"), (COLOURS, "c")))
    s = te.compute((SIDE, SIDE, WIDE), lambda y, x, o: te.sum(
        image[y * PATCH + dy, x * PATCH + dx, c].astype("int32") * w[dy, dx, c, o].astype("int32"), axis=[dy, dx, c]), name="s")
    patch = te.compute(s.shape, lambda *i: narrowed(s(*i), 8), name="patch")
    token = te.compute((TOKENS, WIDE), lambda i, j: te.if_then_else(
        i < 1, first[j], patch[(i - 1) // SIDE, (i - 1) % SIDE, j]), name="token")
    k, d = te.reduce_axis((0, WIDE), name="k"), te.reduce_axis((0, WIDE), name="d")
    t = te.compute((TOKENS, WIDE), lambda i, j: te.sum(token[i, k].astype("int32") * wq[k, j].astype("int32"), axis=k), name="t")
    query = te.compute(t.shape, lambda *i: narrowed(t(*i), 8), name="query")
    u = te.compute((TOKENS, TOKENS), lambda i, j: te.sum(query[i, d].astype("int32") * token[j, d].astype("int32"), axis=d), name="u")
    y = te.compute(u.shape, lambda *i: narrowed(u(*i), 8), name="y")
    return te.create_prim_func([image, w, first, wq, y])
