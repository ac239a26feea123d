"""How far two int8 elements are apart, by a choice which to take away, in int8, which wraps around."""

from autosched import te

VERDICT = "accepted"


def main():
    x, y = te.placeholder((16, 32), "int8", name="x"), te.placeholder((16, 32), "int8", name="y")
    return te.create_prim_func([x, y, te.compute((16, 32), lambda i, j: te.Select(
        x[i, j] > y[i, j], x[i, j] - y[i, j], y[i, j] - x[i, j]), name="out")])
