"""A transposed convolution: gaps, then a convolution."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 4, 4), "int8"), W: T.Buffer((32, 32, 4, 4), "int8"), out: T.Buffer((1, 32, 8, 8), "int8")):
    G = T.alloc_buffer((1, 32, 11, 11), "int8")
    C = T.alloc_buffer((1, 32, 8, 8), "int32")
    for n, c, y, x in T.grid(1, 32, 11, 11):
        with T.block("gaps"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            G[vn, vc, vy, vx] = T.if_then_else(
                vy >= 2 and vy < 10 and vx >= 2 and vx < 10 and vy % 2 == 0 and vx % 2 == 0,
                X[vn, vc, (vy - 2) // 2, (vx - 2) // 2], T.int8(0),
            )
    for n, o, y, x, c, p, q in T.grid(1, 32, 8, 8, 32, 4, 4):
        with T.block("C"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + T.Cast("int32", G[vn, vc, vy + vp, vx + vq]) * T.Cast("int32", W[vo, vc, vp, vq])
    for n, o, y, x in T.grid(1, 32, 8, 8):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max(C[vn, vo, vy, vx] >> 8, 0), 127))
