"""Channels of two groups are taken by turns between a pointwise layer and one of windows, with zeros around."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), 0).astype("int8"), name=name)


def main():
    size, deep, wide, groups = 7, 16, 32, 2
    x, w = te.placeholder((deep, size, size), "int8", name="x"), te.placeholder((wide, deep), "int8", name="w")
    v = te.placeholder((16, wide, 3, 3), "int8", name="v")
    c, k = te.reduce_axis((0, deep), name="c"), te.reduce_axis((0, wide), name="k")
    p, q = te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
    first = narrowed(te.compute((wide, size, size), lambda o, i, j: te.sum(
        x[c, i, j].astype("int32") * w[o, c].astype("int32"), axis=c), name="first_sum"), 8, "first")
    turns = te.compute((wide, size, size), lambda o, i, j: first[o % groups * (wide // groups) + o // groups, i, j], name="turns")
    around = te.compute((wide, size + 2, size + 2), lambda o, i, j: te.if_then_else(
        te.all(i >= 1, i <= size, j >= 1, j <= size), turns[o, i - 1, j - 1], te.const(0, "int8")), name="around")
    last = te.compute((16, size, size), lambda o, i, j: te.sum(
        around[k, i + p, j + q].astype("int32") * v[o, k, p, q].astype("int32"), axis=[k, p, q]), name="last_sum")
    return te.create_prim_func([x, w, v, narrowed(last, 10, "last")])
