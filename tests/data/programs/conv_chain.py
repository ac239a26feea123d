"""A 1x1 convolution, then a padded 3x3 one: the end of a bottleneck block."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((1, 32, 8, 8), "int8"),
    W1: T.Buffer((16, 32), "int8"),
    W2: T.Buffer((16, 16, 3, 3), "int8"),
    out: T.Buffer((1, 16, 8, 8), "int8"),
):
    A = T.alloc_buffer((1, 16, 8, 8), "int32")
    a = T.alloc_buffer((1, 16, 8, 8), "int8")
    P = T.alloc_buffer((1, 16, 10, 10), "int8")
    B = T.alloc_buffer((1, 16, 8, 8), "int32")
    for n, o, y, x, c in T.grid(1, 16, 8, 8, 32):
        with T.block("A"):
            vn, vo, vy, vx, vc = T.axis.remap("SSSSR", [n, o, y, x, c])
            with T.init():
                A[vn, vo, vy, vx] = 0
            A[vn, vo, vy, vx] += T.Cast("int32", X[vn, vc, vy, vx]) * T.Cast("int32", W1[vo, vc])
    for n, o, y, x in T.grid(1, 16, 8, 8):
        with T.block("a"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            a[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max(A[vn, vo, vy, vx] >> 7, 0), 127))
    for n, c, y, x in T.grid(1, 16, 10, 10):
        with T.block("pad"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(1 <= vy and vy < 9 and 1 <= vx and vx < 9, a[vn, vc, vy - 1, vx - 1], T.int8(0))
    for n, o, y, x, c, p, q in T.grid(1, 16, 8, 8, 16, 3, 3):
        with T.block("B"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                B[vn, vo, vy, vx] = 0
            B[vn, vo, vy, vx] += T.Cast("int32", P[vn, vc, vy + vp, vx + vq]) * T.Cast("int32", W2[vo, vc, vp, vq])
    for n, o, y, x in T.grid(1, 16, 8, 8):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max(B[vn, vo, vy, vx] >> 7, 0), 127))
