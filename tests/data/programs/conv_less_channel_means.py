"""An image less the mean of each of its channels, within the convolution that reads it: the host sums up what the means make."""

from autosched import te

VERDICT = "accepted"
CI, CO, SIZE, K = 3, 16, 14, 3


def main():
    x, w = te.placeholder((CI, SIZE, SIZE), "int8", name="x"), te.placeholder((CO, CI, K, K), "int8", name="w")
    mean = te.placeholder((CI,), "int32", name="mean")
    c, dy, dx = (te.reduce_axis((0, n), name=name) for n, name in ((CI, "c"), (K, "dy"), (K, "dx")))
    s = te.compute((CO, SIZE - K + 1, SIZE - K + 1), lambda o, i, j: te.sum(
        (x[c, i + dy, j + dx].astype("int32") - mean[c]) * w[o, c, dy, dx].astype("int32"), axis=[c, dy, dx]), name="s")
    y = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 8, 127), -128).astype("int8"), name="y")
    return te.create_prim_func([x, w, mean, y])
