"""The products of rows with each other, of what a stage makes: one tensor is data and weight."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    x = te.placeholder((20, 48), "int8", name="x")
    a = te.compute((20, 48), lambda i, j: te.max(x[i, j], te.const(0, "int8")), name="a")
    return te.create_prim_func([x, narrowed(product(a, a, 20, 20, 48, "s", across=True), 8, "y")])
