"""A 1x1 convolution over 4x4 pixels and a classifier over the flattened result, in NCHW order."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((16, 4, 4), "int8"), W: T.Buffer((16, 16), "int8"), V: T.Buffer((10, 16, 4, 4), "int8"), out: T.Buffer((10,), "int8")
):
    C = T.alloc_buffer((16, 4, 4), "int32")
    h = T.alloc_buffer((16, 4, 4), "int8")
    D = T.alloc_buffer((10,), "int32")
    for o, y, x, c in T.grid(16, 4, 4, 16):
        with T.block("C"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                C[vo, vy, vx] = 0
            C[vo, vy, vx] = C[vo, vy, vx] + T.Cast("int32", X[vc, vy, vx]) * T.Cast("int32", W[vo, vc])
    for o, y, x in T.grid(16, 4, 4):
        with T.block("h"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            h[vo, vy, vx] = T.Cast("int8", T.max(T.min(C[vo, vy, vx] >> 6, 127), 0))
    for o, c, y, x in T.grid(10, 16, 4, 4):
        with T.block("D"):
            vo, vc, vy, vx = T.axis.remap("SRRR", [o, c, y, x])
            with T.init():
                D[vo] = 0
            D[vo] = D[vo] + T.Cast("int32", h[vc, vy, vx]) * T.Cast("int32", V[vo, vc, vy, vx])
    for o in range(10):
        with T.block("out"):
            vo = T.axis.spatial(10, o)
            out[vo] = T.Cast("int8", D[vo] >> 8)
