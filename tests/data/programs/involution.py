"""A kernel for every place, made of the channels there, over the neighbours of the place: data and kernels at once."""

from autosched import te

VERDICT = "refused: let what is made be an int8 result and read it in another program"


def narrow(value):
    return te.max(te.min(value >> 7, 127), -128).astype("int8")


def main():
    x, w = te.placeholder((10, 10, 16), "int8", name="x"), te.placeholder((9, 16), "int8", name="w")
    k, p, q = te.reduce_axis((0, 16), name="k"), te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
    a = te.compute((8, 8, 9), lambda i, j, t: te.sum(x[i + 1, j + 1, k].astype("int32") * w[t, k].astype("int32"), axis=k), name="a")
    n = te.compute((8, 8, 9), lambda i, j, t: narrow(a[i, j, t]), name="n")
    s = te.compute((8, 8, 16), lambda i, j, c: te.sum(
        x[i + p, j + q, c].astype("int32") * n[i, j, p * 3 + q].astype("int32"), axis=[p, q]), name="s")
    return te.create_prim_func([x, w, te.compute((8, 8, 16), lambda i, j, c: narrow(s[i, j, c]), name="out")])
