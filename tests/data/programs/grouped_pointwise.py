"""Groups of 8 channels, and a product over all of them: an element holds half as many."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((32, 8, 8), "int8"), W: T.Buffer((32, 8, 3, 3), "int8"), V: T.Buffer((16, 32), "int8"), out: T.Buffer((16, 6,
    6), "int8")
):
    C = T.alloc_buffer((32, 6, 6), "int32")
    R = T.alloc_buffer((32, 6, 6), "int8")
    D = T.alloc_buffer((16, 6, 6), "int32")
    for o, y, x, c, p, q in T.grid(32, 6, 6, 8, 3, 3):
        with T.block("grouped"):
            vo, vy, vx, vc, vp, vq = T.axis.remap("SSSRRR", [o, y, x, c, p, q])
            with T.init():
                C[vo, vy, vx] = 0
            C[vo, vy, vx] += X[vo // 8 * 8 + vc, vy + vp, vx + vq].astype("int32") * W[vo, vc, vp, vq].astype("int32")
    for o, y, x in T.grid(32, 6, 6):
        with T.block("relu"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            R[vo, vy, vx] = T.min(T.max(C[vo, vy, vx] >> 7, 0), 127).astype("int8")
    for o, y, x, c in T.grid(16, 6, 6, 32):
        with T.block("pointwise"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                D[vo, vy, vx] = 0
            D[vo, vy, vx] += R[vc, vy, vx].astype("int32") * V[vo, vc].astype("int32")
    for o, y, x in T.grid(16, 6, 6):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = T.min(T.max(D[vo, vy, vx] >> 7, 0), 127).astype("int8")
