"""A filter of several channels, of which every fourth sample is kept."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((2, 16, 127), "int8"), h: T.Buffer((16, 16, 31), "int8"), y: T.Buffer((2, 16, 25), "int8")):
    acc = T.alloc_buffer((2, 16, 97), "int32")
    for b, o, t, c, k in T.grid(2, 16, 97, 16, 31):
        with T.block("acc"):
            vb, vo, vt, vc, vk = T.axis.remap("SSSRR", [b, o, t, c, k])
            with T.init():
                acc[vb, vo, vt] = 0
            acc[vb, vo, vt] += x[vb, vc, vt + vk].astype("int32") * h[vo, vc, vk].astype("int32")
    for b, o, t in T.grid(2, 16, 25):
        with T.block("y"):
            vb, vo, vt = T.axis.remap("SSS", [b, o, t])
            y[vb, vo, vt] = T.min(T.max(acc[vb, vo, vt * 4] >> 9, -128), 127).astype("int8")
