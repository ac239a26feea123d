"""One filter over what another one has made of an image."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(img: T.Buffer((20, 20), "int8"), gx: T.Buffer((3, 3), "int8"), gy: T.Buffer((3, 3), "int8"),
         out: T.Buffer((16, 16), "int8")):
    a = T.alloc_buffer((18, 18), "int32")
    a8 = T.alloc_buffer((18, 18), "int8")
    b = T.alloc_buffer((16, 16), "int32")
    for y, x, p, q in T.grid(18, 18, 3, 3):
        with T.block("a"):
            vy, vx, vp, vq = T.axis.remap("SSRR", [y, x, p, q])
            with T.init():
                a[vy, vx] = 0
            a[vy, vx] += img[vy + vp, vx + vq].astype("int32") * gx[vp, vq].astype("int32")
    for y, x in T.grid(18, 18):
        with T.block("a8"):
            vy, vx = T.axis.remap("SS", [y, x])
            a8[vy, vx] = (a[vy, vx] >> 4).astype("int8")
    for y, x, p, q in T.grid(16, 16, 3, 3):
        with T.block("b"):
            vy, vx, vp, vq = T.axis.remap("SSRR", [y, x, p, q])
            with T.init():
                b[vy, vx] = 0
            b[vy, vx] += a8[vy + vp, vx + vq].astype("int32") * gy[vp, vq].astype("int32")
    for y, x in T.grid(16, 16):
        with T.block("out"):
            vy, vx = T.axis.remap("SS", [y, x])
            out[vy, vx] = (b[vy, vx] >> 4).astype("int8")
