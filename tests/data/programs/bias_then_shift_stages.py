"""Every operation in a block of its own, the loops in the order of columns, names of another habit."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((9, 48), "int8"), w: T.Buffer((48, 24), "int8"), b: T.Buffer((1, 24), "int32"), y: T.Buffer((9, 24), "int8")):
    acc = T.alloc_buffer((9, 24), "int32")
    biased = T.alloc_buffer((9, 24), "int32")
    shifted = T.alloc_buffer((9, 24), "int32")
    relu = T.alloc_buffer((9, 24), "int32")
    for col in range(24):
        for row in range(9):
            for k in range(48):
                with T.block("matmul"):
                    r, c, kk = T.axis.remap("SSR", [row, col, k])
                    with T.init():
                        acc[r, c] = 0
                    acc[r, c] += T.Cast("int32", w[kk, c]) * T.Cast("int32", x[r, kk])
    for col, row in T.grid(24, 9):
        with T.block("bias_add"):
            r, c = T.axis.remap("SS", [row, col])
            biased[r, c] = b[0, c] + acc[r, c]
    for row, col in T.grid(9, 24):
        with T.block("shift"):
            r, c = T.axis.remap("SS", [row, col])
            shifted[r, c] = (biased[r, c] + 64) >> 7
    for row, col in T.grid(9, 24):
        with T.block("relu"):
            r, c = T.axis.remap("SS", [row, col])
            relu[r, c] = T.max(0, shifted[r, c])
    for row, col in T.grid(9, 24):
        with T.block("narrow"):
            r, c = T.axis.remap("SS", [row, col])
            y[r, c] = T.Cast("int8", T.min(127, relu[r, c]))
