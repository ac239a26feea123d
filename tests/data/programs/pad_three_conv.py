"""A convolution over an image padded with 3; the DMA pads with 0 only, and the host sums up what 3 contributes."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 16, 6, 6), "int8"), W: T.Buffer((16, 16, 3, 3), "int8"), out: T.Buffer((1, 16, 6, 6), "int8")):
    P = T.alloc_buffer((1, 16, 8, 8), "int8")
    C = T.alloc_buffer((1, 16, 6, 6), "int32")
    for n, c, y, x in T.grid(1, 16, 8, 8):
        with T.block("pad"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(vy >= 1 and vy < 7 and vx >= 1 and vx < 7, X[vn, vc, vy - 1, vx - 1], T.int8(3))
    for n, o, y, x, c, p, q in T.grid(1, 16, 6, 6, 16, 3, 3):
        with T.block("C"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + T.Cast("int32", P[vn, vc, vy + vp, vx + vq]) * T.Cast("int32", W[vo, vc, vp, vq])
    for n, o, y, x in T.grid(1, 16, 6, 6):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", C[vn, vo, vy, vx])
