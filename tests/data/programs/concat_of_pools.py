"""A pool over two tensors put together: the result comes in two parts."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((16, 8, 8), "int8"), W: T.Buffer((16, 16), "int8"), V: T.Buffer((16, 16), "int8"), out: T.Buffer((32, 4, 4),
    "int8")
):
    A = T.alloc_buffer((16, 8, 8), "int32")
    B = T.alloc_buffer((16, 8, 8), "int32")
    cat = T.alloc_buffer((32, 8, 8), "int8")
    for o, y, x, c in T.grid(16, 8, 8, 16):
        with T.block("A"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                A[vo, vy, vx] = 0
            A[vo, vy, vx] += X[vc, vy, vx].astype("int32") * W[vo, vc].astype("int32")
    for o, y, x, c in T.grid(16, 8, 8, 16):
        with T.block("B"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                B[vo, vy, vx] = 0
            B[vo, vy, vx] += X[vc, vy, vx].astype("int32") * V[vo, vc].astype("int32")
    for o, y, x in T.grid(16, 8, 8):
        with T.block("first"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            cat[vo, vy, vx] = T.min(T.max(A[vo, vy, vx] >> 7, 0), 127).astype("int8")
    for o, y, x in T.grid(16, 8, 8):
        with T.block("second"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            cat[vo + 16, vy, vx] = T.min(T.max(B[vo, vy, vx] >> 6, 0), 127).astype("int8")
    for o, y, x, p, q in T.grid(32, 4, 4, 2, 2):
        with T.block("pool"):
            vo, vy, vx, vp, vq = T.axis.remap("SSSRR", [o, y, x, p, q])
            with T.init():
                out[vo, vy, vx] = T.int8(-128)
            out[vo, vy, vx] = T.max(out[vo, vy, vx], cat[vo, vy * 2 + vp, vx * 2 + vq])
