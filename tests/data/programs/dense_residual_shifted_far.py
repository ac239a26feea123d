"""A shortcut of int8 is shifted left by 8 before it is added: no int8 factor does that."""

from autosched import te

VERDICT = "accepted"


def main():
    x = te.placeholder((10, 48), "int8", name="x")
    w = te.placeholder((40, 48), "int8", name="w")
    r = te.placeholder((10, 40), "int8", name="r")
    k = te.reduce_axis((0, 48), name="k")
    f = te.compute((10, 40), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="f")
    g = te.compute((10, 40), lambda i, j: f[i, j] + (r[i, j].astype("int32") << 8), name="g")
    y = te.compute((10, 40), lambda i, j: te.max(te.min((g[i, j] + 128) >> 8, 127), -128).astype("int8"), name="y")
    return te.create_prim_func([x, w, r, y])
