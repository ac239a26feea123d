"""Attention of every row to the sixteen from it on: its keys and values are a window that slides along."""

from autosched import te

VERDICT = "accepted"


def main():
    rows, window, deep = 24, 16, 32
    q = te.placeholder((rows, deep), "int8", name="q")
    k, v = (te.placeholder((rows + window - 1, deep), "int8", name=name) for name in ("k", "v"))
    d, r = te.reduce_axis((0, deep), name="d"), te.reduce_axis((0, window), name="r")

    def narrowed(s, low, name):
        return te.compute(s.shape, lambda i, j: te.max(te.min(s[i, j] >> 9, 127), low).astype("int8"), name=name)

    s = te.compute((rows, window), lambda i, w: te.sum(q[i, d].astype("int32") * k[i + w, d].astype("int32"), axis=d), name="s")
    p = narrowed(s, 0, "p")
    o = te.compute((rows, deep), lambda i, e: te.sum(p[i, r].astype("int32") * v[i + r, e].astype("int32"), axis=r), name="o")
    return te.create_prim_func([q, k, v, narrowed(o, -128, "y")])
