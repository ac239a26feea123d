"""The largest of the products over all places, and where it is, in one number: the maximum is of something computed of them."""

from autosched import te

VERDICT = "refused: make v a result, and the rest another program"


def main():
    x, w = te.placeholder((64, 32), "int8", name="x"), te.placeholder((16, 32), "int8", name="w")
    k, i = te.reduce_axis((0, 32), name="k"), te.reduce_axis((0, 64), name="i")
    a = te.compute((64, 16), lambda p, c: te.sum(x[p, k].astype("int32") * w[c, k].astype("int32"), axis=k), name="a")
    v = te.compute((64, 16), lambda p, c: te.max(te.min(a[p, c] >> 7, 127), -128).astype("int8"), name="v")
    return te.create_prim_func([x, w, te.compute((16,), lambda c: te.max((v[i, c].astype("int32") << 6) + i, axis=i), name="out")])
