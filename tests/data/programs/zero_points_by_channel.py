"""A convolution whose filters have zero points of their own, in a tensor."""

from autosched import te

VERDICT = "accepted"
CI, CO, SIZE, K = 16, 32, 10, 3


def main():
    x, w = te.placeholder((CI, SIZE, SIZE), "int8", name="x"), te.placeholder((CO, CI, K, K), "int8", name="w")
    zero = te.placeholder((CO,), "int32", name="zero")
    c, dy, dx = (te.reduce_axis((0, n), name=name) for n, name in ((CI, "c"), (K, "dy"), (K, "dx")))
    s = te.compute((CO, SIZE - K + 1, SIZE - K + 1), lambda o, i, j: te.sum(
        x[c, i + dy, j + dx].astype("int32") * (w[o, c, dy, dx].astype("int32") - zero[o]), axis=[c, dy, dx]), name="s")
    y = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 9, 127), -128).astype("int8"), name="y")
    return te.create_prim_func([x, w, zero, y])
