"""As border_kept, of what a block before has padded."""

from autosched import te

VERDICT = "accepted"


def main():
    x = te.placeholder((12, 12, 16), "int8", name="x")
    p = te.compute((14, 14, 16), lambda i, j, c: te.if_then_else(
        te.all(i > 0, i < 13, j > 0, j < 13), x[i - 1, j - 1, c], te.const(0, "int8")), name="p")

    def at(i, j, c):
        return p[i + 1, j + 1, c].astype("int32")

    return te.create_prim_func([x, te.compute(x.shape, lambda i, j, c: te.if_then_else(
        te.all(i > 0, i < 11, j > 0, j < 11),
        ((at(i - 1, j, c) + at(i + 1, j, c) + at(i, j - 1, c) + at(i, j + 1, c)) >> 2).astype("int8"), p[i + 1, j + 1, c]), name="out")])
