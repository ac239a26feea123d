"""What the first step sets and the border leaves out, as statements under conditions."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((20, 7, 9), "int8"), W: T.Buffer((17, 20, 3, 3), "int8"), bias: T.Buffer((17,), "int32"),
         out: T.Buffer((17, 7, 9), "int8")):
    C = T.alloc_buffer((17, 7, 9), "int32")
    for o, y, x, c, p, q in T.grid(17, 7, 9, 20, 3, 3):
        with T.block("C"):
            vo, vy, vx, vc, vp, vq = T.axis.remap("SSSRRR", [o, y, x, c, p, q])
            if vc == 0 and vp == 0 and vq == 0:
                C[vo, vy, vx] = bias[vo]
            if vy + vp >= 1 and vy + vp < 8 and vx + vq >= 1 and vx + vq < 10:
                C[vo, vy, vx] += T.Cast("int32", X[vc, vy + vp - 1, vx + vq - 1]) * T.Cast("int32", W[vo, vc, vp, vq])
    for o, y, x in T.grid(17, 7, 9):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = T.Cast("int8", T.clip(C[vo, vy, vx] >> 7, -128, 127))
