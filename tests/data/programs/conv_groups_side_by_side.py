"""A loop over groups; the data, the weight and the sum have flat channels, ``group * 16 + channel``."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((7, 7, 32), "int8"), w: T.Buffer((32, 3, 3, 16), "int8"), y: T.Buffer((5, 5, 32), "int8")):
    s = T.alloc_buffer((5, 5, 32), "int32")
    for i, j, g, o, p, q, c in T.grid(5, 5, 2, 16, 3, 3, 16):
        with T.block("s"):
            vi, vj, vg, vo, vp, vq, vc = T.axis.remap("SSSSRRR", [i, j, g, o, p, q, c])
            with T.init():
                s[vi, vj, vg * 16 + vo] = 0
            s[vi, vj, vg * 16 + vo] += T.Cast("int32", x[vi + vp, vj + vq, vg * 16 + vc]) * T.Cast("int32", w[vg * 16 + vo, vp, vq, vc])
    for i, j, o in T.grid(5, 5, 32):
        with T.block("y"):
            vi, vj, vo = T.axis.remap("SSS", [i, j, o])
            y[vi, vj, vo] = T.Cast("int8", s[vi, vj, vo] >> 7)
