"""A convolution whose tensors are flat, as in C."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16 * 8 * 8,), "int8"), W: T.Buffer((16 * 16 * 9,), "int8"), Y: T.Buffer((16 * 6 * 6,), "int8")):
    C = T.alloc_buffer((16, 6, 6), "int32")
    for o, y, x, c, p, q in T.grid(16, 6, 6, 16, 3, 3):
        with T.block("C"):
            vo, vy, vx, vc, vp, vq = T.axis.remap("SSSRRR", [o, y, x, c, p, q])
            with T.init():
                C[vo, vy, vx] = 0
            C[vo, vy, vx] += X[vc * 64 + (vy + vp) * 8 + vx + vq].astype("int32") * W[vo * 144 + vc * 9 + vp * 3 + vq].astype("int32")
    for o, y, x in T.grid(16, 6, 6):
        with T.block("Y"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            Y[vo * 36 + vy * 6 + vx] = (C[vo, vy, vx] >> 8).astype("int8")
