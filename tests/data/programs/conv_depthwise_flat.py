"""Four filters for each channel, as a group convolution has them: flat, with one channel in a group."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 5, 8, 8), "int8"), W: T.Buffer((20, 1, 3, 3), "int8"), out: T.Buffer((1, 20, 6, 6), "int8")):
    C = T.alloc_buffer((1, 20, 6, 6), "int32")
    for n, o, y, x, p, q in T.grid(1, 20, 6, 6, 3, 3):
        with T.block("C"):
            vn, vo, vy, vx, vp, vq = T.axis.remap("SSSSRR", [n, o, y, x, p, q])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] += X[vn, vo // 4, vy + vp, vx + vq].astype("int32") * W[vo, 0, vp, vq].astype("int32")
    for n, o, y, x in T.grid(1, 20, 6, 6):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = (C[vn, vo, vy, vx] >> 6).astype("int8")
