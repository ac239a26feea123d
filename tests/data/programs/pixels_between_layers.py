"""Channels become pixels between two pointwise layers, and the last one is added to what is given at twice the size."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((24, 6, 7), "int8"), W: T.Buffer((64, 24), "int8"), V: T.Buffer((20, 16), "int8"),
    skip: T.Buffer((20, 12, 14), "int8"), out: T.Buffer((20, 12, 14), "int8")
):
    C = T.alloc_buffer((64, 6, 7), "int32")
    made = T.alloc_buffer((64, 6, 7), "int8")
    pixels = T.alloc_buffer((16, 12, 14), "int8")
    D = T.alloc_buffer((20, 12, 14), "int32")
    for o, y, x, c in T.grid(64, 6, 7, 24):
        with T.block("C"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                C[vo, vy, vx] = 0
            C[vo, vy, vx] += X[vc, vy, vx].astype("int32") * W[vo, vc].astype("int32")
    for o, y, x in T.grid(64, 6, 7):
        with T.block("made"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            made[vo, vy, vx] = T.min(T.max(C[vo, vy, vx] >> 8, 0), 127).astype("int8")
    for o, y, x in T.grid(64, 6, 7):
        with T.block("pixels"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            pixels[vo // 4, vy * 2 + vo % 4 // 2, vx * 2 + vo % 2] = made[vo, vy, vx]
    for o, y, x, c in T.grid(20, 12, 14, 16):
        with T.block("D"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                D[vo, vy, vx] = 0
            D[vo, vy, vx] += pixels[vc, vy, vx].astype("int32") * V[vo, vc].astype("int32")
    for o, y, x in T.grid(20, 12, 14):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = T.min(T.max((D[vo, vy, vx] >> 8) + (skip[vo, vy, vx] >> T.int8(1)).astype("int32"), -128), 127).astype("int8")
