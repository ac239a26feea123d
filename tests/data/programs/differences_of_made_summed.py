"""As differences_summed, of what the program makes: no host makes the negatives of that."""

from autosched import te

VERDICT = "refused: takes elements away at each of its 64 steps"


def main():
    x, y = te.placeholder((16, 64), "int8", name="x"), te.placeholder((16, 64), "int8", name="y")
    k = te.reduce_axis((0, 64), name="k")
    made = te.compute((16, 64), lambda i, j: te.max(x[i, j], y[i, j]), name="made")
    return te.create_prim_func([x, y, te.compute((16,), lambda i: te.sum(
        te.abs(x[i, k].astype("int32") - made[i, k].astype("int32")), axis=k), name="out")])
