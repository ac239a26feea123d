"""Groups of four channels, each read at a place of its own, and mixed: a load brings no element whose lanes lie in several."""

from autosched import te

VERDICT = "accepted"


def main():
    x, w = te.placeholder((16, 12, 12), "int8", name="x"), te.placeholder((16, 16), "int8", name="w")
    r = te.reduce_axis((0, 16), name="r")
    z = te.compute((16, 10, 10), lambda c, i, j: x[c, i + c // 8, j + (c // 4) % 2], name="z")
    s = te.compute((16, 10, 10), lambda o, i, j: te.sum(z[r, i, j].astype("int32") * w[o, r].astype("int32"), axis=r), name="s")
    y = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 7, 127), -128).astype("int8"), name="y")
    return te.create_prim_func([x, w, y])
