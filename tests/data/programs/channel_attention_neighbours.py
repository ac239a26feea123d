"""Channels scaled by what a filter makes of the means of their neighbours (ECA): one filter slides over what is made."""

from autosched import te

VERDICT = "accepted"


def main():
    x, w = te.placeholder((32, 6, 6), "int8", name="x"), te.placeholder((3,), "int8", name="w")
    p, q, k = (te.reduce_axis((0, n), name=name) for n, name in ((6, "p"), (6, "q"), (3, "k")))
    s = te.compute((32,), lambda c: te.sum(x[c, p, q].astype("int32"), axis=[p, q]), name="s")
    m = te.compute((32,), lambda c: (s[c] >> 6).astype("int8"), name="m")
    z = te.compute((34,), lambda c: te.if_then_else(te.all(c >= 1, c < 33), m[c - 1], te.const(0, "int8")), name="z")
    g = te.compute((32,), lambda c: te.sum(z[c + k].astype("int32") * w[k].astype("int32"), axis=k), name="g")
    gate = te.compute((32,), lambda c: te.min(te.max((g[c] >> 6) + 32, 0), 64).astype("int8"), name="gate")
    return te.create_prim_func([x, w, te.compute((32, 6, 6), lambda c, i, j: (
        (x[c, i, j].astype("int32") * gate[c].astype("int32")) >> 6).astype("int8"), name="y")])
