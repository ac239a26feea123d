"""Sums of each column from its beginning on: every term is multiplied by 1 or 0, by the places of both."""

from autosched import te

VERDICT = "accepted"


def main():
    x, k = te.placeholder((24, 40), "int8", name="x"), te.reduce_axis((0, 24), name="k")
    s = te.compute((24, 40), lambda i, j: te.sum(x[k, j].astype("int32") * te.if_then_else(k <= i, 1, 0), axis=k), name="s")
    return te.create_prim_func([x, te.compute(s.shape, lambda i, j: te.max(te.min(s[i, j] >> 3, 127), -128).astype("int8"), name="y")])
