"""A cell of a recurrent network with its state: gates, which products make, are multiplied by each other."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    n, size = 3, 24
    x = te.placeholder((n, size), "int8", name="x")
    c = te.placeholder((n, size), "int8", name="c")
    weights = [te.placeholder((size, size), "int8", name="w" + name) for name in "ifgo"]
    i, f, g, o = (narrowed(product(x, w, n, size, size, name + "s"), 6, name, -128 if name == "g" else 0)
                  for name, w in zip("ifgo", weights))

    def wide(x, *at):
        return x[at].astype("int32")

    new = te.compute((n, size), lambda a, b: te.max(te.min(
        (wide(f, a, b) * wide(c, a, b) + wide(i, a, b) * wide(g, a, b)) >> 7, 127), -128).astype("int8"), name="new")
    out = te.compute((n, size), lambda a, b: ((wide(o, a, b) * wide(new, a, b)) >> 7).astype("int8"), name="out")
    return te.create_prim_func([x, c, *weights, new, out])
