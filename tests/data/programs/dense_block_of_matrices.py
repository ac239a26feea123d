"""A dense block of three layers over rows: what each reads joined is joined again for the next, and for the result."""

from autosched import te

VERDICT = "accepted"
ROWS, WIDE, LAYERS = 16, 16, 3


def layer(x, w, deep, name):
    k = te.reduce_axis((0, deep), name=f"{name}_k")
    s = te.compute((ROWS, WIDE), lambda i, j: te.sum(x[i, k].astype("int32") * w[k, j].astype("int32"), axis=k), name=f"{name}_sum")
    return te.compute(s.shape, lambda i, j: te.max(te.min(s[i, j] >> 8, 127), 0).astype("int8"), name=name)


def joined(x, y, deep, name):
    return te.compute((ROWS, deep + WIDE), lambda i, j: te.if_then_else(j < deep, x[i, j], y[i, j - deep]), name=name)


def main():
    x = te.placeholder((ROWS, WIDE), "int8", name="x")
    weights = [te.placeholder(((n + 1) * WIDE, WIDE), "int8", name=f"w{n}") for n in range(LAYERS)]
    every = x
    for n, w in enumerate(weights):
        every = joined(every, layer(every, w, (n + 1) * WIDE, f"y{n}"), (n + 1) * WIDE, f"every{n}")
    return te.create_prim_func([x, *weights, every])
