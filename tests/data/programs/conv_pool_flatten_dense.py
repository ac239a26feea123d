"""A convolution, a pool, and a classifier that reads the pool's image by the digits of one index."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((1, 1, 12, 12), "int8"), W: T.Buffer((6, 1, 5, 5), "int8"), V: T.Buffer((10, 96), "int8"), out: T.Buffer((1,
    10), "int8")
):
    C = T.alloc_buffer((1, 6, 8, 8), "int32")
    R = T.alloc_buffer((1, 6, 8, 8), "int8")
    M = T.alloc_buffer((1, 6, 4, 4), "int8")
    D = T.alloc_buffer((1, 10), "int32")
    for n, o, y, x, c, p, q in T.grid(1, 6, 8, 8, 1, 5, 5):
        with T.block("conv"):
            vn, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, o, y, x, c, p, q])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] += X[vn, vc, vy + vp, vx + vq].astype("int32") * W[vo, vc, vp, vq].astype("int32")
    for n, o, y, x in T.grid(1, 6, 8, 8):
        with T.block("relu"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            R[vn, vo, vy, vx] = T.min(T.max(C[vn, vo, vy, vx] >> 7, 0), 127).astype("int8")
    for n, o, y, x, p, q in T.grid(1, 6, 4, 4, 2, 2):
        with T.block("pool"):
            vn, vo, vy, vx, vp, vq = T.axis.remap("SSSSRR", [n, o, y, x, p, q])
            with T.init():
                M[vn, vo, vy, vx] = T.int8(-128)
            M[vn, vo, vy, vx] = T.max(M[vn, vo, vy, vx], R[vn, vo, vy * 2 + vp, vx * 2 + vq])
    for n, o, k in T.grid(1, 10, 96):
        with T.block("fc"):
            vn, vo, vk = T.axis.remap("SSR", [n, o, k])
            with T.init():
                D[vn, vo] = 0
            D[vn, vo] += M[vn, vk // 16, vk // 4 % 4, vk % 4].astype("int32") * V[vo, vk].astype("int32")
    for n, o in T.grid(1, 10):
        with T.block("out"):
            vn, vo = T.axis.remap("SS", [n, o])
            out[vn, vo] = T.min(T.max(D[vn, vo] >> 7, -128), 127).astype("int8")
