"""A rotary embedding of what a product makes: halves of its rows are turned by angles that are given as cosines and sines."""

from autosched import te

VERDICT = "accepted"
ROWS, HALF = 12, 20


def main():
    x, w = te.placeholder((ROWS, 32), "int8", name="x"), te.placeholder((32, 2 * HALF), "int8", name="w")
    cos, sin = (te.placeholder((ROWS, HALF), "int8", name=name) for name in ("cos", "sin"))
    k = te.reduce_axis((0, 32), name="k")
    s = te.compute((ROWS, 2 * HALF), lambda i, j: te.sum(x[i, k].astype("int32") * w[k, j].astype("int32"), axis=k), name="s")
    q = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 7, 127), -128).astype("int8"), name="q")

    def wide(x, *at):
        return x[at].astype("int32")

    left = te.compute((ROWS, HALF), lambda i, j: (
        (wide(q, i, j) * wide(cos, i, j) - wide(q, i, j + HALF) * wide(sin, i, j)) >> 7).astype("int8"), name="left")
    right = te.compute((ROWS, HALF), lambda i, j: (
        (wide(q, i, j) * wide(sin, i, j) + wide(q, i, j + HALF) * wide(cos, i, j)) >> 7).astype("int8"), name="right")
    return te.create_prim_func([x, w, cos, sin, left, right])
