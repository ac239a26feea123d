"""A product over rows repeated twice, and a convolution along them."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 4,), "int8"), W: T.Buffer((16, 16,), "int8"), V: T.Buffer((16, 16, 3,), "int8"), out: T.Buffer((16, 6,), "int8")):
    C = T.alloc_buffer((16, 8,), "int32")
    D = T.alloc_buffer((16, 8,), "int8")
    E = T.alloc_buffer((16, 6,), "int32")
    for o, y, c in T.grid(16, 8, 16):
        with T.block("C"):
            vo, vy, vc = T.axis.remap("SSR", [o, y, c])
            with T.init():
                C[vo, vy] = 0
            C[vo, vy] += X[vc, vy // 2].astype('int32') * W[vo, vc].astype('int32')
    for o, y in T.grid(16, 8):
        with T.block("D"):
            vo, vy = T.axis.remap("SS", [o, y])
            D[vo, vy] = (C[vo, vy] >> 6).astype('int8')
    for o, y, c, p in T.grid(16, 6, 16, 3):
        with T.block("E"):
            vo, vy, vc, vp = T.axis.remap("SSRR", [o, y, c, p])
            with T.init():
                E[vo, vy] = 0
            E[vo, vy] += D[vc, vy + vp].astype('int32') * V[vo, vc, vp].astype('int32')
    for o, y in T.grid(16, 6):
        with T.block("out"):
            vo, vy = T.axis.remap("SS", [o, y])
            out[vo, vy] = (E[vo, vy] >> 6).astype('int8')
