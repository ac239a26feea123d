"""Sums of all that lies above and to the left of each place: which terms count is written as a condition on both places."""

from autosched import te

VERDICT = "accepted"


def main():
    x, p, q = te.placeholder((7, 11), "int8", name="x"), te.reduce_axis((0, 7), name="p"), te.reduce_axis((0, 11), name="q")
    s = te.compute((7, 11), lambda i, j: te.sum(te.if_then_else(te.all(p <= i, q <= j), x[p, q].astype("int32"), 0), axis=[p, q]),
                   name="s")
    return te.create_prim_func([x, te.compute(s.shape, lambda i, j: te.max(te.min(s[i, j] >> 6, 127), -128).astype("int8"), name="y")])
