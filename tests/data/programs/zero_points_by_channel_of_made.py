"""A layer behind another one, with a zero point for each of its channels: the sum of what the program makes is a product more."""

from autosched import te

VERDICT = "accepted"


def narrowed(e, shift, low=-128):
    return te.max(te.min(e >> shift, 127), low).astype("int8")


def main():
    x, w1, w2, zero = (te.placeholder(s, t, name=n) for s, t, n in (
        ((16, 32), "int8", "x"), ((32, 32), "int8", "w1"), ((32, 48), "int8", "w2"), ((48,), "int8", "zero")))
    k, r = te.reduce_axis((0, 32), name="k"), te.reduce_axis((0, 32), name="r")
    p = te.compute((16, 32), lambda i, j: te.sum(x[i, k].astype("int32") * w1[k, j].astype("int32"), axis=k), name="p")
    h = te.compute(p.shape, lambda i, j: narrowed(p[i, j], 8, 0), name="h")
    s = te.compute((16, 48), lambda i, j: te.sum(
        (h[i, r].astype("int32") + 12) * (w2[r, j].astype("int32") - zero[j].astype("int32")), axis=r), name="s")
    y = te.compute(s.shape, lambda i, j: narrowed(s[i, j], 8), name="y")
    return te.create_prim_func([x, w1, w2, zero, y])
