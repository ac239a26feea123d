"""Two dense layers of as many columns, the second with a skip over it: what is skipped is its own factor."""

from autosched import te

VERDICT = "accepted"


def main():
    x = te.placeholder((20, 48), "int8", name="x")
    w, v = (te.placeholder((48, 48), "int8", name=name) for name in "wv")

    def product(a, b, name):
        k = te.reduce_axis((0, 48), name="k_" + name)
        return te.compute((20, 48), lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k), name=name)

    s = product(x, w, "s")
    h = te.compute((20, 48), lambda i, j: te.max(te.min(s[i, j] >> 7, 127), 0).astype("int8"), name="h")
    t = product(h, v, "t")
    return te.create_prim_func([x, w, v, te.compute((20, 48), lambda i, j: te.max(te.min(
        (t[i, j] >> 7) + h[i, j].astype("int32"), 127), -128).astype("int8"), name="y")])
