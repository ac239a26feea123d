"""A 3x3 convolution of an image that is doubled first."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 6, 6), "int8"), W: T.Buffer((16, 16, 3, 3), "int8"), out: T.Buffer((16, 10, 10), "int8")):
    U = T.alloc_buffer((16, 12, 12), "int8")
    C = T.alloc_buffer((16, 10, 10), "int32")
    for c, y, x in T.grid(16, 12, 12):
        with T.block("up"):
            vc, vy, vx = T.axis.remap("SSS", [c, y, x])
            U[vc, vy, vx] = X[vc, vy // 2, vx // 2]
    for o, y, x, c, p, q in T.grid(16, 10, 10, 16, 3, 3):
        with T.block("C"):
            vo, vy, vx, vc, vp, vq = T.axis.remap("SSSRRR", [o, y, x, c, p, q])
            with T.init():
                C[vo, vy, vx] = 0
            C[vo, vy, vx] += U[vc, vy + vp, vx + vq].astype("int32") * W[vo, vc, vp, vq].astype("int32")
    for o, y, x in T.grid(16, 10, 10):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = (C[vo, vy, vx] >> 7).astype("int8")
