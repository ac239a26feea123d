"""Places scaled by what a filter makes of two planes, the means and the largest of all channels (CBAM), padded."""

from autosched import te

VERDICT = "accepted"


def main():
    x, w = te.placeholder((32, 8, 8), "int8", name="x"), te.placeholder((2, 5, 5), "int8", name="w")
    c, d, t, p, q = (te.reduce_axis((0, n), name=name) for n, name in ((32, "c"), (32, "d"), (2, "t"), (5, "p"), (5, "q")))
    s = te.compute((8, 8), lambda i, j: te.sum(x[c, i, j].astype("int32"), axis=c), name="s")
    mean = te.compute((8, 8), lambda i, j: te.max(te.min(s[i, j] >> 5, 127), -128).astype("int8"), name="mean")
    most = te.compute((8, 8), lambda i, j: te.max(x[d, i, j], axis=d), name="most")
    both = te.compute((2, 12, 12), lambda t, i, j: te.if_then_else(
        te.all(i >= 2, i < 10, j >= 2, j < 10), te.if_then_else(t < 1, mean[i - 2, j - 2], most[i - 2, j - 2]),
        te.const(0, "int8")), name="both")
    g = te.compute((8, 8), lambda i, j: te.sum(
        both[t, i + p, j + q].astype("int32") * w[t, p, q].astype("int32"), axis=[t, p, q]), name="g")
    gate = te.compute((8, 8), lambda i, j: te.min(te.max((g[i, j] >> 8) + 32, 0), 64).astype("int8"), name="gate")
    return te.create_prim_func([x, w, te.compute((32, 8, 8), lambda c, i, j: (
        (x[c, i, j].astype("int32") * gate[i, j].astype("int32")) >> 6).astype("int8"), name="y")])
