"""A convolution, narrowed, and a 2x2 maximum."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 8, 8), "int8"), W: T.Buffer((32, 32), "int8"), out: T.Buffer((1, 32, 4, 4), "int8")):
    c = T.alloc_buffer((1, 32, 8, 8), "int32")
    h = T.alloc_buffer((1, 32, 8, 8), "int8")
    m = T.alloc_buffer((1, 32, 4, 4), "int32")
    for n, o, y, x, i in T.grid(1, 32, 8, 8, 32):
        with T.block("c"):
            vn, vo, vy, vx, vi = T.axis.remap("SSSSR", [n, o, y, x, i])
            with T.init():
                c[vn, vo, vy, vx] = 0
            c[vn, vo, vy, vx] = c[vn, vo, vy, vx] + T.Cast("int32", X[vn, vi, vy, vx]) * T.Cast("int32", W[vo, vi])
    for n, o, y, x in T.grid(1, 32, 8, 8):
        with T.block("h"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            h[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max(c[vn, vo, vy, vx] >> 7, 0), 127))
    for n, o, y, x, p, q in T.grid(1, 32, 4, 4, 2, 2):
        with T.block("m"):
            vn, vo, vy, vx, vp, vq = T.axis.remap("SSSSRR", [n, o, y, x, p, q])
            with T.init():
                m[vn, vo, vy, vx] = -128
            m[vn, vo, vy, vx] = T.max(m[vn, vo, vy, vx], T.Cast("int32", h[vn, vo, vy * 2 + vp, vx * 2 + vq]))
    for n, o, y, x in T.grid(1, 32, 4, 4):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", m[vn, vo, vy, vx])
