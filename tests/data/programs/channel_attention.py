"""Attention to channels (CBAM): their means and their maxima go through one small network, whose sum gates the channels."""

from autosched import te

VERDICT = "accepted"
C, N, FEW = 32, 5, 8


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def layer(x, w, n, k, name):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n,), lambda j: te.sum(x[r].astype("int32") * w[j, r].astype("int32"), axis=r), name=name)


def main():
    x, v, w = (te.placeholder(s, "int8", name=n) for s, n in (((C, N, N), "x"), ((FEW, C), "v"), ((C, FEW), "w")))
    a, b, c, d = (te.reduce_axis((0, N), name=n) for n in "abcd")
    mean = narrowed(te.compute((C,), lambda o: te.sum(x[o, a, b].astype("int32"), axis=[a, b]), name="total"), 4, "mean")
    most = te.compute((C,), lambda o: te.max(x[o, c, d], axis=[c, d]), name="most")
    one, other = (layer(narrowed(layer(p, v, FEW, C, "h" + p.name), 7, "n" + p.name, 0), w, C, FEW, "s" + p.name) for p in (mean, most))
    gate = te.compute((C,), lambda o: te.max(te.min((one[o] + other[o] >> 8) + 64, 127), 0).astype("int8"), name="gate")
    y = te.compute(x.shape, lambda o, i, j: ((x[o, i, j].astype("int32") * gate[o].astype("int32")) >> 7).astype("int8"), name="y")
    return te.create_prim_func([x, v, w, y])
