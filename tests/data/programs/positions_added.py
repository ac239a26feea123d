"""What a product makes, scaled by the column and moved by row and column: numbers of iterations are computed with."""

from autosched import te

VERDICT = "accepted"


def main():
    x, w = te.placeholder((12, 33), "int8", name="x"), te.placeholder((33, 24), "int8", name="w")
    k = te.reduce_axis((0, 33), name="k")
    s = te.compute((12, 24), lambda i, j: te.sum(x[i, k].astype("int32") * w[k, j].astype("int32"), axis=k), name="s")
    q = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 8, 127), -128).astype("int8"), name="q")
    out = te.compute(s.shape, lambda i, j: te.max(te.min(
        ((q[i, j].astype("int32") * (24 - j)) >> 4) + (i * 3 - j), 127), -128).astype("int8"), name="out")
    return te.create_prim_func([x, w, out])
