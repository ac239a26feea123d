"""Programs whose blocks are placed, and which of two programs are the same."""

from __future__ import annotations

from autosched.ir.printer import script
from autosched.ir.stmt import PrimFunc
from autosched.ir.structural import structural_equal
from autosched.script import T


def same(got: PrimFunc, want: PrimFunc) -> None:
    assert structural_equal(got, want, block_names=False), f"{script(got)}\n--- instead of ---\n{script(want)}"


@T.prim_func
def two(A: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
    B = T.sblock_alloc_buffer((16, 12))
    for i, j in T.grid(16, 12):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(16, 12):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def matmul(A: T.Buffer((8, 12), "int32"), B: T.Buffer((10, 12), "int32"), D: T.Buffer((8, 10), "int32")):
    C = T.sblock_alloc_buffer((8, 10), "int32")
    for i, j, k in T.grid(8, 10, 12):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk] * B[vj, vk]
    for i, j in T.grid(8, 10):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + 3
