"""Tiled by hand in three loops, each of which advances by a tile; the last one runs backwards."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((48, 64), "int8"), B: T.Buffer((64, 64), "int8"), C: T.Buffer((48, 64), "int8")):
    acc = T.alloc_buffer((48, 64), "int32")
    for i0 in range(0, 48, 16):
        for j0 in T.serial(0, 64, step=32):
            for k0 in range(0, 64, 16):
                for i, j, k in T.grid(16, 32, 16):
                    with T.block("acc"):
                        vi = T.axis.spatial(48, i0 + i)
                        vj = T.axis.spatial(64, j0 + j)
                        vk = T.axis.reduce(64, k0 + k)
                        with T.init():
                            acc[vi, vj] = 0
                        acc[vi, vj] += T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk, vj])
    for i in range(47, -1, -1):
        for j in range(64):
            with T.block("C"):
                vi = T.axis.spatial(48, i)
                vj = T.axis.spatial(64, j)
                C[vi, vj] = T.Cast("int8", T.max(T.min(acc[vi, vj] >> 6, 127), -128))
