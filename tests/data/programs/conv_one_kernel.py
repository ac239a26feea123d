"""One kernel over all planes, and the absolute value."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(img: T.Buffer((32, 34, 34), "int8"), gx: T.Buffer((3, 3), "int8"), out: T.Buffer((32, 32, 32), "int8")):
    g = T.alloc_buffer((32, 32, 32), "int32")
    for n, y, x, p, q in T.grid(32, 32, 32, 3, 3):
        with T.block("g"):
            vn, vy, vx, vp, vq = T.axis.remap("SSSRR", [n, y, x, p, q])
            with T.init():
                g[vn, vy, vx] = 0
            g[vn, vy, vx] += img[vn, vy + vp, vx + vq].astype("int32") * gx[vp, vq].astype("int32")
    for n, y, x in T.grid(32, 32, 32):
        with T.block("out"):
            vn, vy, vx = T.axis.remap("SSS", [n, y, x])
            out[vn, vy, vx] = T.min(T.max(g[vn, vy, vx], 0 - g[vn, vy, vx]) >> 2, 127).astype("int8")
