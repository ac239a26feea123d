"""Groups whose results are scaled, less a scaled addend, and summed up: an axis that none of the groups has to do with."""

from autosched import te

VERDICT = "accepted"


def main():
    x = te.placeholder((6, 3), "int8", name="x")
    w = te.placeholder((24, 2), "int8", name="w")
    b = te.placeholder((24, 3), "int32", name="b")
    c, t = te.reduce_axis((0, 2), name="c"), te.reduce_axis((0, 3), name="t")
    acc = te.compute((24, 3), lambda o, y: te.sum(
        x[te.indexdiv(o, 8) * 2 + c, y].astype("int32") * w[o, c].astype("int32"), axis=c), name="acc")
    s = te.compute((24, 3), lambda o, y: (acc[o, y] * 5 - b[o, y] * 5).astype("int8"), name="s")
    total = te.compute((24,), lambda o: te.sum(s[o, t].astype("int32"), axis=t), name="total")
    return te.create_prim_func([x, w, b, te.compute((24,), lambda o: total[o].astype("int8"), name="out")])
