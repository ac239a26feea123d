"""The convolution sums in NCHW, the result is stored in NHWC without a batch dimension."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 24, 9, 7), "int8"), W: T.Buffer((40, 24, 3, 3), "int8"), b: T.Buffer((40,), "int32"), out: T.Buffer((7, 5, 40), "int8")):
    C = T.alloc_buffer((1, 40, 7, 5), "int32")
    for n, o, y, x, c, p, q in T.grid(1, 40, 7, 5, 24, 3, 3):
        with T.block("C"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + T.Cast("int32", X[vn, vc, vy + vp, vx + vq]) * T.Cast("int32", W[vo, vc, vp, vq])
    for y, x, o in T.grid(7, 5, 40):
        with T.block("out"):
            vy, vx, vo = T.axis.remap("SSS", [y, x, o])
            out[vy, vx, vo] = T.Cast("int8", T.max((C[0, vo, vy, vx] + b[vo]) >> 6, 0))
