"""Scores of heads whose queries and keys are parts of one parameter."""

from autosched import te

VERDICT = "accepted"


def main():
    rows, heads, deep = 18, 2, 16
    qkv = te.placeholder((rows, 3 * heads * deep), "int8", name="qkv")
    d = te.reduce_axis((0, deep), name="d")
    s = te.compute((heads, rows, rows), lambda h, i, j: te.sum(
        qkv[i, h * deep + d].astype("int32") * qkv[j, (heads + h) * deep + d].astype("int32"), axis=d), name="s")
    p = te.compute((heads, rows, rows), lambda h, i, j: te.max(te.min(s[h, i, j] >> 6, 127), 0).astype("int8"), name="p")
    return te.create_prim_func([qkv, p])
