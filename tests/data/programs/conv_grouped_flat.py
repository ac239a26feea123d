"""Two groups of channels, the channels flat."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 14, 14), "int8"), W: T.Buffer((32, 16, 3, 3), "int8"), out: T.Buffer((1, 32, 14, 14), "int8")):
    C = T.alloc_buffer((1, 32, 14, 14), "int32")
    P = T.alloc_buffer((1, 32, 16, 16), "int8")
    for n, c, y, x in T.grid(1, 32, 16, 16):
        with T.block("pad"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(
                vy >= 1 and vy < 15 and vx >= 1 and vx < 15, X[vn, vc, vy - 1, vx - 1], T.int8(0)
            )
    for n, o, y, x, c, p, q in T.grid(1, 32, 14, 14, 16, 3, 3):
        with T.block("C"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + T.Cast("int32", P[vn, vo // 16 * 16 + vc, vy + vp, vx + vq]) * T.Cast("int32", W[vo, vc, vp, vq])
    for n, o, y, x in T.grid(1, 32, 14, 14):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max(C[vn, vo, vy, vx] >> 8, 0), 127))
