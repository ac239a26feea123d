"""A depthwise convolution in int8 arithmetic."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 10, 10), "int8"), W: T.Buffer((32, 3, 3), "int8"), out: T.Buffer((1, 32, 8, 8), "int8")):
    for n, c, y, x, p, q in T.grid(1, 32, 8, 8, 3, 3):
        with T.block("out"):
            vn, vc, vy, vx, vp, vq = T.axis.remap("SSSSRR", [n, c, y, x, p, q])
            with T.init():
                out[vn, vc, vy, vx] = T.int8(0)
            out[vn, vc, vy, vx] = out[vn, vc, vy, vx] + X[vn, vc, vy + vp, vx + vq] * W[vc, vp, vq]
