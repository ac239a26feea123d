"""A depthwise 3x3 filter and a pointwise convolution: one block of a mobile network."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 10, 10), "int8"), F: T.Buffer((32, 3, 3), "int8"), W: T.Buffer((48, 32), "int8"), out: T.Buffer((1, 48, 8, 8), "int8")):
    C = T.alloc_buffer((1, 32, 8, 8), "int32")
    h = T.alloc_buffer((1, 32, 8, 8), "int8")
    D = T.alloc_buffer((1, 48, 8, 8), "int32")
    for n, c, y, x, p, q in T.grid(1, 32, 8, 8, 3, 3):
        with T.block("depthwise"):
            vn, vc, vy, vx, vp, vq = T.axis.remap("SSSSRR", [n, c, y, x, p, q])
            with T.init():
                C[vn, vc, vy, vx] = 0
            C[vn, vc, vy, vx] += X[vn, vc, vy + vp, vx + vq].astype("int32") * F[vc, vp, vq].astype("int32")
    for n, c, y, x in T.grid(1, 32, 8, 8):
        with T.block("h"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            h[vn, vc, vy, vx] = T.min(T.max(C[vn, vc, vy, vx] >> 5, 0), 127).astype("int8")
    for n, o, y, x, c in T.grid(1, 48, 8, 8, 32):
        with T.block("pointwise"):
            vn, vo, vy, vx, vc = T.axis.remap("SSSSR", [n, o, y, x, c])
            with T.init():
                D[vn, vo, vy, vx] = 0
            D[vn, vo, vy, vx] += h[vn, vc, vy, vx].astype("int32") * W[vo, vc].astype("int32")
    for n, o, y, x in T.grid(1, 48, 8, 8):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.min(T.max(D[vn, vo, vy, vx] >> 6, 0), 127).astype("int8")
