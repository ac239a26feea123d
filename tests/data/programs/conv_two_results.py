"""A convolution with its cropped input added, and the raw sum as a second result."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((1, 32, 10, 10), "int8"), w: T.Buffer((32, 32, 3, 3), "int8"), b: T.Buffer((32,), "int32"), out: T.Buffer((1, 32, 8, 8), "int8"), raw: T.Buffer((1, 32, 8, 8), "int8")):
    acc = T.alloc_buffer((1, 32, 8, 8), "int32")
    for n, o, y, q, c, ky, kx in T.grid(1, 32, 8, 8, 32, 3, 3):
        with T.block("acc"):
            vn, vo, vy, vq, vc, vky, vkx = T.axis.remap("SSSSRRR", [n, o, y, q, c, ky, kx])
            with T.init():
                acc[vn, vo, vy, vq] = 0
            acc[vn, vo, vy, vq] += x[vn, vc, vy + vky, vq + vkx].astype("int32") * w[vo, vc, vky, vkx].astype("int32")
    for n, o, y, q in T.grid(1, 32, 8, 8):
        with T.block("out"):
            vn, vo, vy, vq = T.axis.remap("SSSS", [n, o, y, q])
            out[vn, vo, vy, vq] = T.min(T.max(((acc[vn, vo, vy, vq] + b[vo]) >> 8) + x[vn, vo, vy + 1, vq + 1].astype("int32"), -64), 63).astype("int8")
    for n, o, y, q in T.grid(1, 32, 8, 8):
        with T.block("raw"):
            vn, vo, vy, vq = T.axis.remap("SSSS", [n, o, y, q])
            raw[vn, vo, vy, vq] = ((acc[vn, vo, vy, vq] + b[vo]) >> 8).astype("int8")
