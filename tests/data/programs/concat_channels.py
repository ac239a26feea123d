"""Two int8 images, one behind the other along the channels."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 7, 7), "int8"), Y: T.Buffer((1, 16, 7, 7), "int8"), out: T.Buffer((1, 48, 7, 7), "int8")):
    for n, c, y, x in T.grid(1, 48, 7, 7):
        with T.block("out"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            out[vn, vc, vy, vx] = T.if_then_else(vc < 32, X[vn, vc, vy, vx], Y[vn, vc - 32, vy, vx])
