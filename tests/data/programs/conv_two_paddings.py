"""A 3x3 and a 1x1 convolution of one padded image."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 16, 8, 8), "int8"), W: T.Buffer((32, 16, 3, 3), "int8"), V: T.Buffer((32, 16), "int8"), out: T.Buffer((1, 32, 8, 8), "int8")):
    P = T.alloc_buffer((1, 16, 10, 10), "int8")
    c = T.alloc_buffer((1, 32, 8, 8), "int32")
    d = T.alloc_buffer((1, 32, 8, 8), "int32")
    for n, i, y, x in T.grid(1, 16, 10, 10):
        with T.block("P"):
            vn, vi, vy, vx = T.axis.remap("SSSS", [n, i, y, x])
            P[vn, vi, vy, vx] = T.if_then_else(vy >= 1 and vy < 9 and vx >= 1 and vx < 9, X[vn, vi, vy - 1, vx - 1], T.int8(0))
    for n, o, y, x, i, p, q in T.grid(1, 32, 8, 8, 16, 3, 3):
        with T.block("c"):
            vn, vo, vy, vx, vi, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, i, p, q])
            with T.init():
                c[vn, vo, vy, vx] = 0
            c[vn, vo, vy, vx] = c[vn, vo, vy, vx] + T.Cast("int32", P[vn, vi, vy + vp, vx + vq]) * T.Cast("int32", W[vo, vi, vp, vq])
    for n, o, y, x, i in T.grid(1, 32, 8, 8, 16):
        with T.block("d"):
            vn, vo, vy, vx, vi = T.axis.remap("SSSSR", [n, o, y, x, i])
            with T.init():
                d[vn, vo, vy, vx] = 0
            d[vn, vo, vy, vx] = d[vn, vo, vy, vx] + T.Cast("int32", P[vn, vi, vy + 1, vx + 1]) * T.Cast("int32", V[vo, vi])
    for n, o, y, x in T.grid(1, 32, 8, 8):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", T.max(c[vn, vo, vy, vx] + d[vn, vo, vy, vx] >> 7, 0))
