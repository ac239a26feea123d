"""A dense layer whose rows and columns have zero points of their own, as dynamic quantization has for each token."""

from autosched import te

VERDICT = "accepted"
ROWS, WIDE, DEEP = 12, 32, 48


def main():
    a, b = te.placeholder((ROWS, DEEP), "int8", name="a"), te.placeholder((DEEP, WIDE), "int8", name="b")
    za, zb, bias = (te.placeholder((n,), "int32", name=name) for n, name in ((ROWS, "za"), (WIDE, "zb"), (WIDE, "bias")))
    k = te.reduce_axis((0, DEEP), name="k")
    s = te.compute((ROWS, WIDE), lambda i, j: te.sum(
        (a[i, k].astype("int32") - za[i]) * (b[k, j].astype("int32") - zb[j]), axis=k), name="s")
    y = te.compute(s.shape, lambda i, j: te.max(te.min((s[i, j] + bias[j]) >> 8, 127), -128).astype("int8"), name="y")
    return te.create_prim_func([a, b, za, zb, bias, y])
