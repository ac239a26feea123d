"""The largest of a single element of what a layer stores: no window, and said to be none."""

from autosched import te

VERDICT = "refused: it reduces one element: write it as a stage"


def main():
    x = te.placeholder((8, 16, 32), "int8", name="x")
    w = te.placeholder((32, 32), "int8", name="w")
    c, a = te.reduce_axis((0, 32), name="c"), te.reduce_axis((0, 1), name="a")
    acc = te.compute((8, 16, 32), lambda y, z, o: te.sum(
        x[y, z, c].astype("int32") * w[o, c].astype("int32"), axis=c), name="acc")
    s = te.compute((8, 16, 32), lambda y, z, o: (acc[y, z, o] >> 5).astype("int8"), name="s")
    p = te.compute((4, 16, 32), lambda y, z, o: te.max(s[y * 2 + a, z, o], axis=a), name="p")
    return te.create_prim_func([x, w, te.compute((4, 16, 32), lambda *i: p(*i), name="out")])
