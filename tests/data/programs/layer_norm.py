"""Rows without their means, scaled and shifted by parameters; the mean is an int32 stage."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def main():
    x, g, b = (te.placeholder(s, "int8", name=n) for s, n in (((16, 64), "x"), ((64,), "g"), ((64,), "b")))
    k = te.reduce_axis((0, 64), name="k")
    s = te.compute((16,), lambda i: te.sum(x[i, k].astype("int32"), axis=k), name="s")
    m = te.compute((16,), lambda i: s[i] >> 6, name="m")
    c = te.compute((16, 64), lambda i, j: narrowed(x[i, j].astype("int32") - m[i], 0), name="c")
    o = te.compute((16, 64), lambda i, j: narrowed(
        ((c[i, j].astype("int32") * g[j].astype("int32")) >> 6) + b[j].astype("int32"), 0), name="o")
    return te.create_prim_func([x, g, b, o])
