"""Two filters for each of 8 channels, and a product over the 16 that they make."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((8, 8, 8,), "int8"), W: T.Buffer((16, 3, 3,), "int8"), V: T.Buffer((20, 16,), "int8"), out: T.Buffer((20, 6,
    6,), "int8")
):
    C = T.alloc_buffer((16, 6, 6,), "int32")
    D = T.alloc_buffer((16, 6, 6,), "int8")
    E = T.alloc_buffer((20, 6, 6,), "int32")
    for o, y, x, p, q in T.grid(16, 6, 6, 3, 3):
        with T.block("C"):
            vo, vy, vx, vp, vq = T.axis.remap("SSSRR", [o, y, x, p, q])
            with T.init():
                C[vo, vy, vx] = 0
            C[vo, vy, vx] += X[vo // 2, vy + vp, vx + vq].astype('int32') * W[vo, vp, vq].astype('int32')
    for o, y, x in T.grid(16, 6, 6):
        with T.block("D"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            D[vo, vy, vx] = (C[vo, vy, vx] >> 6).astype('int8')
    for o, y, x, c in T.grid(20, 6, 6, 16):
        with T.block("E"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                E[vo, vy, vx] = 0
            E[vo, vy, vx] += D[vc, vy, vx].astype('int32') * V[vo, vc].astype('int32')
    for o, y, x in T.grid(20, 6, 6):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = (E[vo, vy, vx] >> 6).astype('int8')
