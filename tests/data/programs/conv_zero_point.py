"""A convolution of data with a zero point."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 16, 8, 8), "int8"), W: T.Buffer((32, 16, 3, 3), "int8"), out: T.Buffer((1, 32, 6, 6), "int8")):
    C = T.alloc_buffer((1, 32, 6, 6), "int32")
    for n, o, y, x, c, p, q in T.grid(1, 32, 6, 6, 16, 3, 3):
        with T.block("C"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] += (X[vn, vc, vy + vp, vx + vq].astype("int32") - 11) * W[vo, vc, vp, vq].astype("int32")
    for n, o, y, x in T.grid(1, 32, 6, 6):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.max(C[vn, vo, vy, vx] >> 7, 0).astype("int8")
