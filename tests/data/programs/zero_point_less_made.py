"""What a layer makes is taken away from a zero point that is no constant: the negative is the weights'."""

from autosched import te

VERDICT = "accepted"
ROWS, DEEP, MID, WIDE = 9, 32, 16, 24


def main():
    x, w, v, z = (te.placeholder(s, d, name=n) for s, d, n in (
        ((ROWS, DEEP), "int8", "x"), ((MID, DEEP), "int8", "w"), ((WIDE, MID), "int8", "v"), ((1,), "int32", "z")))
    k, r = te.reduce_axis((0, DEEP), name="k"), te.reduce_axis((0, MID), name="r")
    p = te.compute((ROWS, MID), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="p")
    h = te.compute(p.shape, lambda *i: te.max(te.min(p(*i) >> 7, 127), -128).astype("int8"), name="h")
    s = te.compute((ROWS, WIDE), lambda i, j: te.sum(
        (z[0] - h[i, r].astype("int32")) * v[j, r].astype("int32"), axis=r), name="s")
    y = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 7, 127), -128).astype("int8"), name="y")
    return te.create_prim_func([x, w, v, z, y])
