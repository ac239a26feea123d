"""A rotary embedding in one expression: which half of a row an element is in says which sign the other half has."""

from autosched import te

VERDICT = "accepted"
ROWS, HALF = 7, 16


def main():
    x, cos, sin = (te.placeholder((ROWS, 2 * HALF), "int8", name=name) for name in ("x", "cos", "sin"))

    def wide(x, *at):
        return x[at].astype("int32")

    y = te.compute(x.shape, lambda i, j: ((wide(x, i, j) * wide(cos, i, j) + te.if_then_else(
        j < HALF, 0 - wide(x, i, j + HALF), wide(x, i, j - HALF)) * wide(sin, i, j)) >> 8).astype("int8"), name="y")
    return te.create_prim_func([x, cos, sin, y])
