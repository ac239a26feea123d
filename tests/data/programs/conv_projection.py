"""The end of a residual block: a padded 3x3 convolution plus a 1x1 projection of the block's input with stride 2."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    H: T.Buffer((1, 32, 7, 7), "int8"),
    X: T.Buffer((1, 16, 14, 14), "int8"),
    W: T.Buffer((32, 32, 3, 3), "int8"),
    V: T.Buffer((32, 16, 1, 1), "int8"),
    bias: T.Buffer((32,), "int32"),
    out: T.Buffer((1, 32, 7, 7), "int8"),
):
    P = T.alloc_buffer((1, 32, 9, 9), "int8")
    C = T.alloc_buffer((1, 32, 7, 7), "int32")
    D = T.alloc_buffer((1, 32, 7, 7), "int32")
    for n, c, y, x in T.grid(1, 32, 9, 9):
        with T.block("pad"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(vy >= 1 and vy < 8 and vx >= 1 and vx < 8, H[vn, vc, vy - 1, vx - 1], T.int8(0))
    for n, o, y, x, c, p, q in T.grid(1, 32, 7, 7, 32, 3, 3):
        with T.block("C"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + T.Cast("int32", P[vn, vc, vy + vp, vx + vq]) * T.Cast("int32", W[vo, vc, vp, vq])
    for n, o, y, x, c, p, q in T.grid(1, 32, 7, 7, 16, 1, 1):
        with T.block("D"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                D[vn, vo, vy, vx] = 0
            D[vn, vo, vy, vx] = D[vn, vo, vy, vx] + T.Cast("int32", X[vn, vc, vy * 2 + vp, vx * 2 + vq]) * T.Cast("int32", V[vo, vc, vp, vq])
    for n, o, y, x in T.grid(1, 32, 7, 7):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max((D[vn, vo, vy, vx] + C[vn, vo, vy, vx] + bias[vo]) >> 8, 0), 127))
