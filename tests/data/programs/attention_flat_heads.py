"""Scores and values of heads that lie side by side in every tensor: ``head * 16 + d`` is an index of both factors."""

from autosched import te

VERDICT = "accepted"


def main():
    rows, heads, deep = 16, 2, 16
    q = te.placeholder((rows, heads * deep), "int8", name="q")
    k = te.placeholder((rows, heads * deep), "int8", name="k")
    v = te.placeholder((rows, heads * deep), "int8", name="v")
    d, t = te.reduce_axis((0, deep), name="d"), te.reduce_axis((0, rows), name="t")
    s = te.compute((heads, rows, rows), lambda h, i, j: te.sum(
        q[i, h * deep + d].astype("int32") * k[j, h * deep + d].astype("int32"), axis=d), name="s")
    p = te.compute((heads, rows, rows), lambda h, i, j: te.max(te.min(s[h, i, j] >> 6, 127), 0).astype("int8"), name="p")
    o = te.compute((rows, heads * deep), lambda i, c: te.sum(
        p[c // deep, i, t].astype("int32") * v[t, c].astype("int32"), axis=t), name="o")
    y = te.compute((rows, heads * deep), lambda i, c: (o[i, c] >> 7).astype("int8"), name="y")
    return te.create_prim_func([q, k, v, y])
