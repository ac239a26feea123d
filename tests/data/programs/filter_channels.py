"""One output channel: the sum over all channels of an image."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(img: T.Buffer((16, 18, 18), "int8"), k: T.Buffer((16, 3, 3), "int8"), r: T.Buffer((16, 16), "int8"),
         out: T.Buffer((16, 16), "int8")):
    s = T.alloc_buffer((16, 16), "int32")
    for y, x, c, p, q in T.grid(16, 16, 16, 3, 3):
        with T.block("s"):
            vy, vx, vc, vp, vq = T.axis.remap("SSRRR", [y, x, c, p, q])
            with T.init():
                s[vy, vx] = 0
            s[vy, vx] += img[vc, vy + vp, vx + vq].astype("int32") * k[vc, vp, vq].astype("int32")
    for y, x in T.grid(16, 16):
        with T.block("out"):
            vy, vx = T.axis.remap("SS", [y, x])
            out[vy, vx] = ((s[vy, vx] >> 6) + r[vy, vx].astype("int32")).astype("int8")
