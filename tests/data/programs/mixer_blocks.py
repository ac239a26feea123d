"""Three blocks, one behind the other, which mix tokens and then channels: what one makes the next one wants in two layouts."""

from autosched import te

VERDICT = "accepted"
BLOCKS, TOKENS, CHANNELS, HIDDEN = 3, 16, 24, 32


def product(a, b, name):
    k = te.reduce_axis((0, a.shape[1]), name="k_" + name)
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(
        a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k), name=name)


def relu(s, name):
    return te.compute(s.shape, lambda i, j: te.max(te.min(s[i, j] >> 7, 127), 0).astype("int8"), name=name)


def skip(s, y, name):
    return te.compute(s.shape, lambda i, j: te.max(te.min(
        (s[i, j] >> 7) + y[i, j].astype("int32"), 127), -128).astype("int8"), name=name)


def main():
    x = te.placeholder((TOKENS, CHANNELS), "int8", name="x")
    shapes = {"w1": (HIDDEN, TOKENS), "w2": (TOKENS, HIDDEN), "v1": (CHANNELS, HIDDEN), "v2": (HIDDEN, CHANNELS)}
    params, h = [x], x
    for n in range(BLOCKS):
        w1, w2, v1, v2 = (te.placeholder(shape, "int8", name=f"{name}_{n}") for name, shape in shapes.items())
        params += [w1, w2, v1, v2]
        b = skip(product(w2, relu(product(w1, h, f"s{n}"), f"a{n}"), f"t{n}"), h, f"b{n}")
        h = skip(product(relu(product(b, v1, f"u{n}"), f"c{n}"), v2, f"m{n}"), b, f"y{n}")
    return te.create_prim_func([*params, h])
