"""An int32 plane with a frame of zeros around it, in a tensor of its own, shifted by what happens to be 0."""

from autosched import te

VERDICT = "accepted"
N, SHIFT = 16, 0


def main():
    x = te.placeholder((N, N), "int32", name="x")
    t = te.compute((N + 2, N + 2), lambda i, j: te.if_then_else(
        te.all(i > 0, i <= N, j > 0, j <= N), x[i - 1, j - 1], 0), name="t")
    y = te.compute(t.shape, lambda i, j: (t[i, j] >> SHIFT).astype("int8"), name="y")
    return te.create_prim_func([x, y])
