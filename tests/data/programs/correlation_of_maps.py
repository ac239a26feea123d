"""Every place of one feature map against every place of another one, both computed."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def main():
    x, z = te.placeholder((32, 4, 5), "int8", name="x"), te.placeholder((32, 5, 4), "int8", name="z")
    w = te.placeholder((32, 32), "int8", name="w")
    maps = []

    def mixed(data, r):
        return lambda o, i, j: te.sum(data[r, i, j].astype("int32") * w[o, r].astype("int32"), axis=r)

    for name, data, shape in (("a", x, (32, 4, 5)), ("b", z, (32, 5, 4))):
        maps.append(narrowed(te.compute(shape, mixed(data, te.reduce_axis((0, 32), name="r_" + name)), name=name + "s"), 7, name))
    a, b = maps
    c = te.reduce_axis((0, 32), name="c")
    s = te.compute((4, 5, 5, 4), lambda i, j, k, l: te.sum(
        a[c, i, j].astype("int32") * b[c, k, l].astype("int32"), axis=c), name="s")
    return te.create_prim_func([x, z, w, narrowed(s, 7, "y")])
