"""A result of some of the channels that a sum has."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((5, 8, 8,), "int8"), W: T.Buffer((10, 3, 3,), "int8"), out: T.Buffer((6, 6, 6,), "int8")):
    C = T.alloc_buffer((10, 6, 6,), "int32")
    for o, y, x, p, q in T.grid(10, 6, 6, 3, 3):
        with T.block("C"):
            vo, vy, vx, vp, vq = T.axis.remap("SSSRR", [o, y, x, p, q])
            with T.init():
                C[vo, vy, vx] = 0
            C[vo, vy, vx] += X[vo // 2, vy + vp, vx + vq].astype('int32') * W[vo, vp, vq].astype('int32')
    for o, y, x in T.grid(6, 6, 6):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = (C[vo + 3, vy, vx] >> 4).astype('int8')
