"""A zero point taken away inside of the padding, at stride 2, with a bias."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 14, 14), "int8"), W: T.Buffer((32, 32, 3, 3), "int8"), b: T.Buffer((32,), "int32"), out: T.Buffer((1, 32, 7, 7), "int8")):
    C = T.alloc_buffer((1, 32, 7, 7), "int32")
    for n, o, y, x, c, p, q in T.grid(1, 32, 7, 7, 32, 3, 3):
        with T.block("C"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                C[vn, vo, vy, vx] = b[vo]
            C[vn, vo, vy, vx] += T.if_then_else(vy * 2 + vp >= 1 and vy * 2 + vp < 15 and vx * 2 + vq >= 1 and vx * 2 + vq < 15, X[vn, vc, vy * 2 + vp - 1, vx * 2 + vq - 1].astype("int32") - 19, 0) * W[vo, vc, vp, vq].astype("int32")
    for n, o, y, x in T.grid(1, 32, 7, 7):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max(C[vn, vo, vy, vx] >> 8, -128), 127))
