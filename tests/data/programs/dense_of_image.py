"""A classifier over an image, its flat index taken apart in the sum."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 4, 4), "int8"), W: T.Buffer((10, 256), "int8"), y: T.Buffer((10,), "int8")):
    acc = T.alloc_buffer((10,), "int32")
    for j, k in T.grid(10, 256):
        with T.block("acc"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                acc[vj] = 0
            acc[vj] += X[vk // 16, vk % 16 // 4, vk % 4].astype("int32") * W[vj, vk].astype("int32")
    for j in range(10):
        with T.block("y"):
            vj = T.axis.spatial(10, j)
            y[vj] = (acc[vj] >> 8).astype("int8")
