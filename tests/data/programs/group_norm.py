"""The mean of each group of six channels taken away from these: channels are written flat, as a user has them."""

from autosched import te

VERDICT = "accepted"


def main():
    x = te.placeholder((2, 24, 5, 5), "int8", name="x")
    c, p, q = te.reduce_axis((0, 6), name="c"), te.reduce_axis((0, 5), name="p"), te.reduce_axis((0, 5), name="q")
    s = te.compute((2, 4), lambda n, g: te.sum(x[n, g * 6 + c, p, q].astype("int32"), axis=[c, p, q]), name="s")
    m = te.compute((2, 4), lambda n, g: te.max(te.min((s[n, g] * 7) >> 10, 127), -128).astype("int8"), name="m")
    return te.create_prim_func([x, te.compute(x.shape, lambda n, k, i, j: te.max(te.min(
        x[n, k, i, j].astype("int32") - m[n, k // 6].astype("int32"), 127), -128).astype("int8"), name="y")])
