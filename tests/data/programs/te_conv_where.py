"""A convolution whose padding is the sum's own condition, in te."""

from autosched import te
from autosched.script import T

VERDICT = "accepted"


def main():
    X, W = te.placeholder((1, 16, 10, 10), "int8", "X"), te.placeholder((24, 16, 3, 3), "int8", "W")
    pad = te.compute(
        (1, 16, 12, 12),
        lambda n, c, y, x: te.if_then_else(te.all(y >= 1, y < 11, x >= 1, x < 11), X[n, c, y - 1, x - 1], T.int8(0)), name="pad",
    )
    c, p, q = te.reduce_axis((0, 16), "c"), te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
    conv = te.compute(
        (1, 24, 5, 5),
        lambda n, o, y, x: te.sum(
            pad[n, c, y * 2 + p, x * 2 + q].astype("int32") * W[o, c, p, q].astype("int32"), axis=[c, p, q]), name="conv",
    )
    out = te.compute((1, 24, 5, 5), lambda n, o, y, x: te.max(te.min(conv[n, o, y, x] >> 7, 127), -128).astype("int8"), name="out")
    return te.create_prim_func([X, W, out])
