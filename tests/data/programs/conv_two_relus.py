"""A 3x3 and a 1x1 convolution of one image, each with a relu, added."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 12, 12), "int8"), W: T.Buffer((32, 32, 3, 3), "int8"), V: T.Buffer((32, 32), "int8"), out: T.Buffer((1, 32, 10, 10), "int8")):
    C = T.alloc_buffer((1, 32, 10, 10), "int32")
    D = T.alloc_buffer((1, 32, 10, 10), "int32")
    for n, o, y, x, c, p, q in T.grid(1, 32, 10, 10, 32, 3, 3):
        with T.block("C"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] += X[vn, vc, vy + vp, vx + vq].astype("int32") * W[vo, vc, vp, vq].astype("int32")
    for n, o, y, x, c in T.grid(1, 32, 10, 10, 32):
        with T.block("D"):
            vn, vo, vy, vx, vc = T.axis.remap("SSSSR", [n, o, y, x, c])
            with T.init():
                D[vn, vo, vy, vx] = 0
            D[vn, vo, vy, vx] += X[vn, vc, vy + 1, vx + 1].astype("int32") * V[vo, vc].astype("int32")
    for n, o, y, x in T.grid(1, 32, 10, 10):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.min(T.max(T.max(C[vn, vo, vy, vx] >> 8, 0) + T.max(D[vn, vo, vy, vx] >> 6, 0), -128), 127).astype("int8")
