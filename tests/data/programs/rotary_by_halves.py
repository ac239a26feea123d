"""A rotary embedding of a projection, with a block for the other half of each row, as ``rotate_half`` is written."""

from autosched import te

VERDICT = "accepted"
ROWS, HALF = 7, 16


def main():
    size = 2 * HALF
    x, w, cos, sin = (te.placeholder(s, "int8", name=n) for s, n in (
        ((ROWS, size), "x"), ((size, size), "w"), ((ROWS, size), "cos"), ((ROWS, size), "sin")))
    k = te.reduce_axis((0, size), name="k")
    s = te.compute((ROWS, size), lambda i, j: te.sum(x[i, k].astype("int32") * w[k, j].astype("int32"), axis=k), name="s")
    q = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 7, 127), -128).astype("int8"), name="q")

    def wide(x, *at):
        return x[at].astype("int32")

    half = te.compute(s.shape, lambda i, j: te.if_then_else(j < HALF, 0 - wide(q, i, j + HALF), wide(q, i, j - HALF)), name="half")
    y = te.compute(s.shape, lambda i, j: ((wide(q, i, j) * wide(cos, i, j) + half[i, j] * wide(sin, i, j)) >> 8).astype("int8"), name="y")
    return te.create_prim_func([x, w, cos, sin, y])
