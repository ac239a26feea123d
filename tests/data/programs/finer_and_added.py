"""A pyramid of pools: means of large windows go through a layer, and are added to all of their elements."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), -128).astype("int8"), name=name)


def main():
    x, w = te.placeholder((16, 6, 6), "int8", name="x"), te.placeholder((16, 16), "int8", name="w")
    p, q, k = te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q"), te.reduce_axis((0, 16), name="k")
    mean = narrowed(te.compute((16, 2, 2), lambda c, i, j: te.sum(x[c, i * 3 + p, j * 3 + q].astype("int32"), axis=[p, q]), name="s"),
                    3, "mean")
    b = narrowed(te.compute((16, 2, 2), lambda o, i, j: te.sum(mean[k, i, j].astype("int32") * w[o, k].astype("int32"), axis=k), name="t"),
                 7, "b")
    return te.create_prim_func([x, w, te.compute(x.shape, lambda c, i, j: (
        (x[c, i, j].astype("int32") + b[c, i // 3, j // 3].astype("int32")) >> 1).astype("int8"), name="y")])
