"""An int8 image of twice the size, each element four times."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 16, 6, 6), "int8"), out: T.Buffer((1, 16, 12, 12), "int8")):
    for n, c, y, x in T.grid(1, 16, 12, 12):
        with T.block("up"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            out[vn, vc, vy, vx] = X[vn, vc, vy // 2, vx // 2]
