"""A rotary embedding of a projection that turns neighbours: the other one of each pair has a block, and stands by turns."""

from autosched import te

VERDICT = "accepted"
ROWS, SIZE = 7, 32


def main():
    x, w, cos, sin = (te.placeholder(s, "int8", name=n) for s, n in (
        ((ROWS, SIZE), "x"), ((SIZE, SIZE), "w"), ((ROWS, SIZE), "cos"), ((ROWS, SIZE), "sin")))
    k = te.reduce_axis((0, SIZE), name="k")
    s = te.compute((ROWS, SIZE), lambda i, j: te.sum(x[i, k].astype("int32") * w[k, j].astype("int32"), axis=k), name="s")
    q = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 7, 127), -128).astype("int8"), name="q")

    def wide(x, *at):
        return x[at].astype("int32")

    other = te.compute(s.shape, lambda i, j: te.if_then_else(
        te.equal(j % 2, 0), 0 - wide(q, i, j + 1), wide(q, i, j - 1)), name="other")
    y = te.compute(s.shape, lambda i, j: (
        (wide(q, i, j) * wide(cos, i, j) + other[i, j] * wide(sin, i, j)) >> 8).astype("int8"), name="y")
    return te.create_prim_func([x, w, cos, sin, y])
