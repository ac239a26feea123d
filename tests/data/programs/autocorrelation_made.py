"""What a product makes, multiplied by itself further on: no vector of it is another one's row."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    x = te.placeholder((8, 32), "int8", name="x")
    w = te.placeholder((32, 48), "int8", name="w")
    a = narrowed(product(x, w, 8, 48, 32, "s"), 7, "a")
    r = te.reduce_axis((0, 32), name="r")
    c = te.compute((8, 16), lambda i, k: te.sum(a[i, r].astype("int32") * a[i, r + k].astype("int32"), axis=r), name="c")
    return te.create_prim_func([x, w, narrowed(c, 9, "y")])
