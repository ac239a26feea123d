"""A convolution and a 2x2 maximum."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 8, 8), "int8"), W: T.Buffer((32, 32), "int8"), out: T.Buffer((1, 32, 4, 4), "int8")):
    C = T.alloc_buffer((1, 32, 8, 8), "int32")
    m = T.alloc_buffer((1, 32, 4, 4), "int32")
    for n, o, y, x, c in T.grid(1, 32, 8, 8, 32):
        with T.block("C"):
            vn, vo, vy, vx, vc = T.axis.remap("SSSSR", [n, o, y, x, c])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + T.Cast("int32", X[vn, vc, vy, vx]) * T.Cast("int32", W[vo, vc])
    for n, o, y, x, p, q in T.grid(1, 32, 4, 4, 2, 2):
        with T.block("m"):
            vn, vo, vy, vx, vp, vq = T.axis.remap("SSSSRR", [n, o, y, x, p, q])
            with T.init():
                m[vn, vo, vy, vx] = T.min_value("int32")
            m[vn, vo, vy, vx] = T.max(m[vn, vo, vy, vx], C[vn, vo, vy * 2 + vp, vx * 2 + vq])
    for n, o, y, x in T.grid(1, 32, 4, 4):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max(m[vn, vo, vy, vx] >> 8, 0), 127))
