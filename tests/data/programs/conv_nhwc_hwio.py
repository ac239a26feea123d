"""NHWC data, HWIO weights, stride 2, nine output channels more than two vectors."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((1, 13, 13, 20), "int8"), w: T.Buffer((3, 3, 20, 41), "int8"), b: T.Buffer((41,), "int32"), y: T.Buffer((1, 6, 6, 41), "int8")):
    acc = T.alloc_buffer((1, 6, 6, 41), "int32")
    for n, i, j, kh, kw, c, o in T.grid(1, 6, 6, 3, 3, 20, 41):
        with T.block("conv"):
            vn, vi, vj, vkh, vkw, vc, vo = T.axis.remap("SSSRRRS", [n, i, j, kh, kw, c, o])
            with T.init():
                acc[vn, vi, vj, vo] = b[vo]
            acc[vn, vi, vj, vo] += x[vn, vi * 2 + vkh, vj * 2 + vkw, vc].astype("int32") * w[vkh, vkw, vc, vo].astype("int32")
    for n, i, j, o in T.grid(1, 6, 6, 41):
        with T.block("requant"):
            vn, vi, vj, vo = T.axis.remap("SSSS", [n, i, j, o])
            y[vn, vi, vj, vo] = T.max(T.min((acc[vn, vi, vj, vo] + 128) >> 8, 127), 0).astype("int8")
