"""A filter that the program computes: what it is made in has no lanes."""

from autosched.script import T

VERDICT = "refused: has no index that can be the lanes of an element"


@T.prim_func
def main(img: T.Buffer((18, 18), "int8"), h: T.Buffer((3, 3), "int32"), out: T.Buffer((16, 16), "int8")):
    k = T.alloc_buffer((3, 3), "int8")
    b = T.alloc_buffer((16, 16), "int32")
    for y, x in T.grid(3, 3):
        with T.block("k"):
            vy, vx = T.axis.remap("SS", [y, x])
            k[vy, vx] = (h[vy, vx] >> 4).astype("int8")
    for y, x, p, q in T.grid(16, 16, 3, 3):
        with T.block("b"):
            vy, vx, vp, vq = T.axis.remap("SSRR", [y, x, p, q])
            with T.init():
                b[vy, vx] = 0
            b[vy, vx] += img[vy + vp, vx + vq].astype("int32") * k[vp, vq].astype("int32")
    for y, x in T.grid(16, 16):
        with T.block("out"):
            vy, vx = T.axis.remap("SS", [y, x])
            out[vy, vx] = (b[vy, vx] >> 4).astype("int8")
