"""A depthwise convolution over an image padded with 4."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((32, 14, 14), "int8"), W: T.Buffer((32, 3, 3), "int8"), out: T.Buffer((32, 14, 14), "int8")):
    P = T.alloc_buffer((32, 16, 16), "int8")
    C = T.alloc_buffer((32, 14, 14), "int32")
    for c, y, x in T.grid(32, 16, 16):
        with T.block("P"):
            vc, vy, vx = T.axis.remap("SSS", [c, y, x])
            P[vc, vy, vx] = T.if_then_else(vy >= 1 and vy < 15 and vx >= 1 and vx < 15, X[vc, vy - 1, vx - 1], T.int8(4))
    for c, y, x, p, q in T.grid(32, 14, 14, 3, 3):
        with T.block("C"):
            vc, vy, vx, vp, vq = T.axis.remap("SSSRR", [c, y, x, p, q])
            with T.init():
                C[vc, vy, vx] = 0
            C[vc, vy, vx] += P[vc, vy + vp, vx + vq].astype("int32") * W[vc, vp, vq].astype("int32")
    for c, y, x in T.grid(32, 14, 14):
        with T.block("out"):
            vc, vy, vx = T.axis.remap("SSS", [c, y, x])
            out[vc, vy, vx] = T.Cast("int8", T.min(T.max(C[vc, vy, vx] >> 4, -128), 127))
