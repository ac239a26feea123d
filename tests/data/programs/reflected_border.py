"""A convolution of an image whose border mirrors it: where an index is read is chosen by place."""

from autosched import te

VERDICT = "accepted"


def mirrored(i, size):
    return te.if_then_else(i < 1, 1 - i, te.if_then_else(i > size, 2 * size - 1 - i, i - 1))


def main():
    x, w = te.placeholder((1, 16, 6, 7), "int8", name="x"), te.placeholder((16, 16, 3, 3), "int8", name="w")
    p = te.compute((1, 16, 8, 9), lambda n, c, i, j: x[n, c, mirrored(i, 6), mirrored(j, 7)], name="p")
    c, a, b = te.reduce_axis((0, 16), name="c"), te.reduce_axis((0, 3), name="a"), te.reduce_axis((0, 3), name="b")
    s = te.compute((1, 16, 6, 7), lambda n, o, i, j: te.sum(
        p[n, c, i + a, j + b].astype("int32") * w[o, c, a, b].astype("int32"), axis=[c, a, b]), name="s")
    return te.create_prim_func([x, w, te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 8, 127), -128).astype("int8"), name="y")])
