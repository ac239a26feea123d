"""The outer product of two vectors that products make."""

from autosched import te

VERDICT = "refused: block y multiplies each element of a by each of b, and the program makes both"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    x = te.placeholder((1, 32), "int8", name="x")
    w1, w2 = te.placeholder((32, 24), "int8", name="w1"), te.placeholder((32, 20), "int8", name="w2")
    a = narrowed(product(x, w1, 1, 24, 32, "as"), 6, "a")
    b = narrowed(product(x, w2, 1, 20, 32, "bs"), 6, "b")
    y = te.compute((24, 20), lambda i, j: (
        (a[0, i].astype("int32") * b[0, j].astype("int32")) >> 7).astype("int8"), name="y")
    return te.create_prim_func([x, w1, w2, y])
