"""The mean of each channel of what a product makes gates that channel: both factors are computed."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def main():
    x = te.placeholder((24, 6, 5), "int8", name="x")
    w = te.placeholder((24, 24), "int8", name="w")
    w1, w2 = te.placeholder((8, 24), "int8", name="w1"), te.placeholder((24, 8), "int8", name="w2")

    def mixed(data, weight, r):
        return lambda o, *i: te.sum(data[(r, *i)].astype("int32") * weight[o, r].astype("int32"), axis=r)

    def over(n, name):
        return te.reduce_axis((0, n), name=name)

    f = narrowed(te.compute((24, 6, 5), mixed(x, w, over(24, "r")), name="fs"), 7, "f", 0)
    p, q = over(6, "p"), over(5, "q")
    total = te.compute((24,), lambda c: te.sum(f[c, p, q].astype("int32"), axis=[p, q]), name="total")
    mean = te.compute((24,), lambda c: (total[c] >> 5).astype("int8"), name="mean")
    h = narrowed(te.compute((8,), mixed(mean, w1, over(24, "r1")), name="hs"), 7, "h", 0)
    g = te.compute((24,), mixed(h, w2, over(8, "r2")), name="gs")
    gate = te.compute((24,), lambda c: te.min(te.max((g[c] >> 6) + 64, 0), 127).astype("int8"), name="gate")
    y = te.compute((24, 6, 5), lambda c, i, j: (
        (f[c, i, j].astype("int32") * gate[c].astype("int32")) >> 7).astype("int8"), name="y")
    return te.create_prim_func([x, w, w1, w2, y])
