"""Data with a zero point, padded with it, which is taken away from all of it."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 14, 14), "int8"), W: T.Buffer((32, 32, 3, 3), "int8"), out: T.Buffer((1, 32, 14, 14), "int8")):
    P = T.alloc_buffer((1, 32, 16, 16), "int8")
    C = T.alloc_buffer((1, 32, 14, 14), "int32")
    for n, c, y, x in T.grid(1, 32, 16, 16):
        with T.block("P"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(vy >= 1 and vy < 15 and vx >= 1 and vx < 15, X[vn, vc, vy - 1, vx - 1], T.int8(-7))
    for n, o, y, x, c, p, q in T.grid(1, 32, 14, 14, 32, 3, 3):
        with T.block("C"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] += (P[vn, vc, vy + vp, vx + vq].astype("int32") - -7) * W[vo, vc, vp, vq].astype("int32")
    for n, o, y, x in T.grid(1, 32, 14, 14):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max(C[vn, vo, vy, vx] >> 8, -128), 127))
