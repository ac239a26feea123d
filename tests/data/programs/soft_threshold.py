"""What is left of an element less a threshold, on both sides of 0: two choices by data, of values computed in int8."""

from autosched import te

VERDICT = "accepted"


def main():
    x = te.placeholder((16, 64), "int8", name="x")
    zero = te.const(0, "int8")
    return te.create_prim_func([x, te.compute((16, 64), lambda i, j: te.Select(
        x[i, j] > 20, x[i, j] - 20, te.Select(x[i, j] < -20, x[i, j] + 20, zero)), name="out")])
