"""Attention from its input to its output, with biases: rows that fill up an element are zero all the same."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    rows, deep, size = 17, 32, 16
    x = te.placeholder((rows, deep), "int8", name="x")
    weights = [te.placeholder((deep, size), "int8", name="w" + name) for name in "qkv"]
    biases = [te.placeholder((size,), "int32", name="b" + name) for name in "qkv"]
    made = []

    def bias(s, b):
        return lambda i, j: s[i, j] + b[j]

    for name, w, b in zip("qkv", weights, biases):
        s = product(x, w, rows, size, deep, name + "s")
        t = te.compute((rows, size), bias(s, b), name=name + "t")
        made.append(narrowed(t, 6, name))
    q, k, v = made
    p = narrowed(product(q, k, rows, rows, size, "s", across=True), 7, "p")
    y = narrowed(product(p, v, rows, size, rows, "o"), 7, "y")
    return te.create_prim_func([x, *weights, *biases, y])
