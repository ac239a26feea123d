"""Two convolutions; what is between them has a zero point and is padded with it."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 10, 10), "int8"), V: T.Buffer((16, 16), "int8"), W: T.Buffer((16, 16, 3, 3), "int8"), out: T.Buffer((16, 10, 10), "int8")):
    D = T.alloc_buffer((16, 10, 10), "int32")
    E = T.alloc_buffer((16, 10, 10), "int8")
    P = T.alloc_buffer((16, 12, 12), "int8")
    C = T.alloc_buffer((16, 10, 10), "int32")
    for o, y, x, c in T.grid(16, 10, 10, 16):
        with T.block("D"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                D[vo, vy, vx] = 0
            D[vo, vy, vx] += X[vc, vy, vx].astype("int32") * V[vo, vc].astype("int32")
    for o, y, x in T.grid(16, 10, 10):
        with T.block("E"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            E[vo, vy, vx] = T.Cast("int8", T.min(T.max((D[vo, vy, vx] >> 6) + 9, -128), 127))
    for c, y, x in T.grid(16, 12, 12):
        with T.block("P"):
            vc, vy, vx = T.axis.remap("SSS", [c, y, x])
            P[vc, vy, vx] = T.if_then_else(vy >= 1 and vy < 11 and vx >= 1 and vx < 11, E[vc, vy - 1, vx - 1], T.int8(9))
    for o, y, x, c, p, q in T.grid(16, 10, 10, 16, 3, 3):
        with T.block("C"):
            vo, vy, vx, vc, vp, vq = T.axis.remap("SSSRRR", [o, y, x, c, p, q])
            with T.init():
                C[vo, vy, vx] = 0
            C[vo, vy, vx] += (P[vc, vy + vp, vx + vq].astype("int32") - 9) * W[vo, vc, vp, vq].astype("int32")
    for o, y, x in T.grid(16, 10, 10):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = T.Cast("int8", T.min(T.max(C[vo, vy, vx] >> 8, -128), 127))
