"""Differences of columns of one plane, and their absolute values."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 18, 18), "int8"), out: T.Buffer((1, 16, 16), "int8")):
    for n, y, x in T.grid(1, 16, 16):
        with T.block("sobel"):
            vn, vy, vx = T.axis.remap("SSS", [n, y, x])
            out[vn, vy, vx] = (
                T.abs(
                    X[vn, vy, vx + 2].astype("int32") + X[vn, vy + 1, vx + 2].astype("int32") * 2
                    + X[vn, vy + 2, vx + 2].astype("int32") - X[vn, vy, vx].astype("int32")
                    - X[vn, vy + 1, vx].astype("int32") * 2 - X[vn, vy + 2, vx].astype("int32")
                ) >> 3
            ).astype("int8")
