"""Convolutions one behind the other, whose results are clipped to int8 and then made positive, in one expression."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def padded(x, c, size):
    return te.compute((1, c, size + 2, size + 2), lambda n, o, y, v: te.if_then_else(
        te.all(y >= 1, y < size + 1, v >= 1, v < size + 1), x[n, o, y - 1, v - 1], te.const(0, "int8")), name=x.op.name + "_padded")


def layer(x, w, ci, co, size, name):
    p = padded(x, ci, size)
    c, ky, kx = te.reduce_axis((0, ci), name="c"), te.reduce_axis((0, 3), name="ky"), te.reduce_axis((0, 3), name="kx")
    s = te.compute((1, co, size, size), lambda n, o, y, v: te.sum(
        p[n, c, y + ky, v + kx].astype("int32") * w[o, c, ky, kx].astype("int32"), axis=[c, ky, kx]), name=name + "_sum")
    return te.compute((1, co, size, size), lambda n, o, y, v: te.max(narrowed(s[n, o, y, v]), te.const(0, "int8")), name=name)


def main():
    x = te.placeholder((1, 20, 7, 7), "int8", name="x")
    w1, w2 = te.placeholder((16, 20, 3, 3), "int8", name="w1"), te.placeholder((24, 16, 3, 3), "int8", name="w2")
    return te.create_prim_func([x, w1, w2, layer(layer(x, w1, 20, 16, 7, "a"), w2, 16, 24, 7, "b")])
