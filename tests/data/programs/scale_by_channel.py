"""A scale of its own for every channel, of sums that 15 bits hold."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def main():
    x, w, m = (te.placeholder(s, "int8", name=n) for s, n in (((8, 64), "x"), ((32, 64), "w"), ((32,), "m")))
    k = te.reduce_axis((0, 64), name="k")
    s = te.compute((8, 32), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="s")
    r = te.compute((8, 32), lambda i, j: narrowed((s[i, j] >> 7) * m[j].astype("int32") + 32, 6), name="r")
    return te.create_prim_func([x, w, m, r])
