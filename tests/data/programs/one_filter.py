"""One filter over one image: no index is the filter's and the result's alone."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(img: T.Buffer((18, 18), "int8"), k: T.Buffer((3, 3), "int8"), out: T.Buffer((16, 16), "int8")):
    s = T.alloc_buffer((16, 16), "int32")
    for y, x, p, q in T.grid(16, 16, 3, 3):
        with T.block("s"):
            vy, vx, vp, vq = T.axis.remap("SSRR", [y, x, p, q])
            with T.init():
                s[vy, vx] = 0
            s[vy, vx] += img[vy + vp, vx + vq].astype("int32") * k[vp, vq].astype("int32")
    for y, x in T.grid(16, 16):
        with T.block("out"):
            vy, vx = T.axis.remap("SS", [y, x])
            out[vy, vx] = (s[vy, vx] >> 4).astype("int8")
