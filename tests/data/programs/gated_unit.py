"""A gated linear unit and the product behind it: two products, multiplied element by element."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    x = te.placeholder((10, 32), "int8", name="x")
    w1, w2 = (te.placeholder((32, 40), "int8", name=name) for name in ("w1", "w2"))
    w3 = te.placeholder((40, 16), "int8", name="w3")
    a = narrowed(product(x, w1, 10, 40, 32, "as"), 6, "a")
    b = narrowed(product(x, w2, 10, 40, 32, "bs"), 6, "b", 0)
    g = te.compute((10, 40), lambda i, j: te.max(te.min(
        (a[i, j].astype("int32") * b[i, j].astype("int32")) >> 6, 127), -128).astype("int8"), name="g")
    return te.create_prim_func([x, w1, w2, w3, narrowed(product(g, w3, 10, 16, 40, "o"), 7, "y")])
