"""Programs of one's own, to be tuned from the command line: ``autosched tune examples/kernels.py:matmul``."""

from autosched import te
from autosched.script import T


def matmul():
    """An int8 matrix product, 16 x 512 by 512 x 256 in packed layout, shifted right by 6 and narrowed, as tensor expressions."""
    m, n, k = 16, 256 // 16, 512 // 16
    a = te.placeholder((m, k, 1, 16), "int8", name="A")
    b = te.placeholder((n, k, 16, 16), "int8", name="B")
    ko, ki = te.reduce_axis((0, k), name="ko"), te.reduce_axis((0, 16), name="ki")
    c = te.compute(
        (m, n, 1, 16),
        lambda i, j, bi, bj: te.sum(
            a[i, ko, bi, ki].astype("int32") * b[j, ko, bj, ki].astype("int32"), axis=[ko, ki]
        ),
        name="C",
    )
    d = te.compute((m, n, 1, 16), lambda i, j, bi, bj: c[i, j, bi, bj] >> 6, name="D")
    out = te.compute((m, n, 1, 16), lambda i, j, bi, bj: d[i, j, bi, bj].astype("int8"), name="out")
    return te.create_prim_func([a, b, out])


@T.prim_func
def relu_add(
    A: T.Buffer((1, 256, 1, 16), "int32"), B: T.Buffer((1, 256, 1, 16), "int32"), out: T.Buffer((1, 256, 1, 16), "int8")
):
    """max(A + B, 0), at most 127, as int8: element-wise, on the ALU alone."""
    total = T.alloc_buffer((1, 256, 1, 16), "int32")
    for i, j, bi, bj in T.grid(1, 256, 1, 16):
        with T.block("total"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, bi, bj])
            total[vi, vj, vk, vl] = T.min(T.max(A[vi, vj, vk, vl] + B[vi, vj, vk, vl], 0), 127)
    for i, j, bi, bj in T.grid(1, 256, 1, 16):
        with T.block("out"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, bi, bj])
            out[vi, vj, vk, vl] = T.Cast("int8", total[vi, vj, vk, vl])
