"""A 5-tap filter along x and one along y of the same padded image, added before the shift, and a third sum."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((16, 12, 12), "int8"), A: T.Buffer((16, 16, 5), "int8"), B: T.Buffer((16, 16, 5), "int8"), Z: T.Buffer((16, 16), "int8"),
    out: T.Buffer((16, 8, 8), "int8"),
):
    across = T.alloc_buffer((16, 8, 8), "int32")
    down = T.alloc_buffer((16, 8, 8), "int32")
    point = T.alloc_buffer((16, 8, 8), "int32")
    for o, y, x, c, k in T.grid(16, 8, 8, 16, 5):
        with T.block("across"):
            vo, vy, vx, vc, vk = T.axis.remap("SSSRR", [o, y, x, c, k])
            with T.init():
                across[vo, vy, vx] = 0
            across[vo, vy, vx] += T.Cast("int32", X[vc, vy + 2, vx + vk]) * T.Cast("int32", A[vo, vc, vk])
    for o, y, x, c, k in T.grid(16, 8, 8, 16, 5):
        with T.block("down"):
            vo, vy, vx, vc, vk = T.axis.remap("SSSRR", [o, y, x, c, k])
            with T.init():
                down[vo, vy, vx] = 0
            down[vo, vy, vx] += T.Cast("int32", X[vc, vy + vk, vx + 2]) * T.Cast("int32", B[vo, vc, vk])
    for o, y, x, c in T.grid(16, 8, 8, 16):
        with T.block("point"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                point[vo, vy, vx] = 0
            point[vo, vy, vx] += T.Cast("int32", X[vc, vy + 2, vx + 2]) * T.Cast("int32", Z[vo, vc])
    for o, y, x in T.grid(16, 8, 8):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = T.Cast("int8", (across[vo, vy, vx] + down[vo, vy, vx] + point[vo, vy, vx]) >> 7)
