"""What a product makes is scaled and shifted by rows that other products make (16 channels, as many as lanes)."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    rows, deep, size = 9, 24, 16
    x, c = te.placeholder((rows, deep), "int8", name="x"), te.placeholder((1, deep), "int8", name="c")
    wx, wg, wb = (te.placeholder((deep, size), "int8", name=name) for name in ("wx", "wg", "wb"))
    f = narrowed(product(x, wx, rows, size, deep, "fs"), 9, "f")
    g, b = (narrowed(product(c, w, 1, size, deep, name + "s"), 9, name) for name, w in (("g", wg), ("b", wb)))
    y = te.compute((rows, size), lambda i, j: te.max(te.min(
        ((f[i, j].astype("int32") * g[0, j].astype("int32")) >> 7) + b[0, j].astype("int32"), 127), -128).astype("int8"), name="y")
    return te.create_prim_func([x, c, wx, wg, wb, y])
