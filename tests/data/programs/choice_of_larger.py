"""The larger of two int8 elements, written as a choice."""

from autosched import te

VERDICT = "accepted"


def main():
    x, y = te.placeholder((16, 32), "int8", name="x"), te.placeholder((16, 32), "int8", name="y")
    return te.create_prim_func([x, y, te.compute((16, 32), lambda i, j: te.Select(x[i, j] > y[i, j], x[i, j], y[i, j]), name="out")])
