"""A batch normalisation that is left on its own: a factor and a bias for each channel."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((1, 32, 8, 8), "int8"), s: T.Buffer((32,), "int8"), b: T.Buffer((32,), "int32"), out: T.Buffer((1, 32, 8, 8), "int8")):
    v = T.alloc_buffer((1, 32, 8, 8), "int32")
    for n, c, y, w in T.grid(1, 32, 8, 8):
        with T.block("v"):
            vn, vc, vy, vw = T.axis.remap("SSSS", [n, c, y, w])
            v[vn, vc, vy, vw] = x[vn, vc, vy, vw].astype("int32") * s[vc].astype("int32") + b[vc]
    for n, c, y, w in T.grid(1, 32, 8, 8):
        with T.block("out"):
            vn, vc, vy, vw = T.axis.remap("SSSS", [n, c, y, w])
            out[vn, vc, vy, vw] = T.min(T.max(v[vn, vc, vy, vw] >> 6, -128), 127).astype("int8")
