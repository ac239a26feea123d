"""A filter that is computed from features, on what a stage makes of an image."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def main():
    x = te.placeholder((16, 9, 7), "int8", name="x")
    z = te.placeholder((32,), "int8", name="z")
    w = te.placeholder((32, 16, 16), "int8", name="w")
    r, c = te.reduce_axis((0, 32), name="r"), te.reduce_axis((0, 16), name="c")
    f = narrowed(te.compute((16, 16), lambda o, c: te.sum(
        z[r].astype("int32") * w[r, o, c].astype("int32"), axis=r), name="fs"), 7, "f")
    a = te.compute((16, 9, 7), lambda c, i, j: te.max(x[c, i, j], te.const(0, "int8")), name="a")
    s = te.compute((16, 9, 7), lambda o, i, j: te.sum(a[c, i, j].astype("int32") * f[o, c].astype("int32"), axis=c), name="s")
    return te.create_prim_func([x, z, w, narrowed(s, 7, "y")])
