"""How many values of each column lie between the bounds of each bin: terms of a sum that are chosen by data."""

from autosched import te

VERDICT = "accepted"


def main():
    x = te.placeholder((64, 16), "int8", name="x")
    k = te.reduce_axis((0, 64), name="k")
    counts = te.compute((16, 16), lambda b, j: te.sum(te.if_then_else(te.all(
        x[k, j].astype("int32") >= b * 16 - 128, x[k, j].astype("int32") < b * 16 - 112), 1, 0), axis=k), name="counts")
    return te.create_prim_func([x, te.compute((16, 16), lambda b, j: counts[b, j].astype("int8"), name="out")])
