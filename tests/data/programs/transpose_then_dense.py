"""Tokens are mixed as in MLP-Mixer: what a layer makes is transposed, and multiplied again."""

from autosched import te

VERDICT = "accepted"


def layer(x, w, rows, wide, deep, name):
    k = te.reduce_axis((0, deep), name="k_" + name)
    s = te.compute((rows, wide), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name=name + "_sum")
    return te.compute((rows, wide), lambda i, j: te.min(te.max(s[i, j] >> 6, -128), 127).astype("int8"), name=name)


def main():
    x, w1, w2 = (te.placeholder(s, "int8", name=n) for s, n in (((24, 32), "x"), ((32, 32), "w1"), ((40, 24), "w2")))
    y = layer(x, w1, 24, 32, 32, "y")
    t = te.compute((32, 24), lambda i, j: y[j, i], name="t")
    return te.create_prim_func([x, w1, w2, layer(t, w2, 32, 40, 24, "z")])
