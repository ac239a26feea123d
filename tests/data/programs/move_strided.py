"""Every second row and column of an int8 image."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 16, 8, 8), "int8"), out: T.Buffer((1, 16, 4, 4), "int8")):
    for n, c, y, x in T.grid(1, 16, 4, 4):
        with T.block("out"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            out[vn, vc, vy, vx] = X[vn, vc, vy * 2, vx * 2 + 1]
