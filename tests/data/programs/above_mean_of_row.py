"""1 where an element is more than the mean of its row, else -1: a shifted sum is near enough to be compared with an element."""

from autosched import te

VERDICT = "accepted"


def main():
    x, k = te.placeholder((16, 32), "int8", name="x"), te.reduce_axis((0, 32), name="k")
    s = te.compute((16,), lambda i: te.sum(x[i, k].astype("int32"), axis=k), name="s")
    return te.create_prim_func([x, te.compute((16, 32), lambda i, j: te.Select(
        x[i, j].astype("int32") > s[i] >> 5, te.const(1, "int8"), te.const(-1, "int8")), name="y")])
