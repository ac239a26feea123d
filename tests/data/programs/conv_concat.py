"""A pointwise convolution of two images, put together along the channels."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((32, 6, 6), "int8"), Y: T.Buffer((16, 6, 6), "int8"), W: T.Buffer((16, 48), "int8"), out: T.Buffer((16, 6, 6), "int8")):
    D = T.alloc_buffer((48, 6, 6), "int8")
    C = T.alloc_buffer((16, 6, 6), "int32")
    for c, y, x in T.grid(48, 6, 6):
        with T.block("concat"):
            vc, vy, vx = T.axis.remap("SSS", [c, y, x])
            D[vc, vy, vx] = T.if_then_else(vc < 32, X[vc, vy, vx], Y[vc - 32, vy, vx])
    for o, y, x, c in T.grid(16, 6, 6, 48):
        with T.block("C"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                C[vo, vy, vx] = 0
            C[vo, vy, vx] += D[vc, vy, vx].astype("int32") * W[vo, vc].astype("int32")
    for o, y, x in T.grid(16, 6, 6):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = (C[vo, vy, vx] >> 6).astype("int8")
