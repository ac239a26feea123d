"""Three layers, each with padding written into its sum."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 6, 6), "int8"), W1: T.Buffer((16, 16, 3, 3), "int8"), W2: T.Buffer((8, 16, 3, 3), "int8"), out: T.Buffer((8, 6, 6), "int8")):
    C = T.alloc_buffer((16, 6, 6), "int32")
    h = T.alloc_buffer((16, 6, 6), "int8")
    D = T.alloc_buffer((8, 6, 6), "int32")
    for o, y, x, c, p, q in T.grid(16, 6, 6, 16, 3, 3):
        with T.block("C"):
            vo, vy, vx, vc, vp, vq = T.axis.remap("SSSRRR", [o, y, x, c, p, q])
            with T.init():
                C[vo, vy, vx] = 0
            C[vo, vy, vx] += T.if_then_else(1 <= vy + vp and vy + vp < 7 and 1 <= vx + vq and vx + vq < 7, X[vc, vy + vp - 1, vx + vq - 1], T.int8(0)).astype("int32") * W1[vo, vc, vp, vq].astype("int32")
    for o, y, x in T.grid(16, 6, 6):
        with T.block("h"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            h[vo, vy, vx] = T.min(T.max(C[vo, vy, vx] >> 6, 0), 127).astype("int8")
    for o, y, x, c, p, q in T.grid(8, 6, 6, 16, 3, 3):
        with T.block("D"):
            vo, vy, vx, vc, vp, vq = T.axis.remap("SSSRRR", [o, y, x, c, p, q])
            with T.init():
                D[vo, vy, vx] = 0
            D[vo, vy, vx] += T.if_then_else(1 <= vy + vp and vy + vp < 7 and 1 <= vx + vq and vx + vq < 7, h[vc, vy + vp - 1, vx + vq - 1], T.int8(0)).astype("int32") * W2[vo, vc, vp, vq].astype("int32")
    for o, y, x in T.grid(8, 6, 6):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = T.min(T.max(D[vo, vy, vx] >> 6, 0), 127).astype("int8")
