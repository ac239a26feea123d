"""A 5x5 convolution with dilation of a one-channel image."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(img: T.Buffer((18, 18), "int8"), k: T.Buffer((20, 5, 5), "int8"), out: T.Buffer((10, 10, 20), "int8")):
    s = T.alloc_buffer((10, 10, 20), "int32")
    for y, x, o, p, q in T.grid(10, 10, 20, 5, 5):
        with T.block("s"):
            vy, vx, vo, vp, vq = T.axis.remap("SSSRR", [y, x, o, p, q])
            with T.init():
                s[vy, vx, vo] = 0
            s[vy, vx, vo] += img[vy + vp * 2, vx + vq * 2].astype("int32") * k[vo, vp, vq].astype("int32")
    for y, x, o in T.grid(10, 10, 20):
        with T.block("out"):
            vy, vx, vo = T.axis.remap("SSS", [y, x, o])
            out[vy, vx, vo] = T.max(s[vy, vx, vo] >> 7, 0).astype("int8")
