"""Programs that many tests schedule: a matrix product and a chain of two stages, in the sizes, types and names asked for."""

from __future__ import annotations

import functools

from autosched.ir import PrimFunc
from autosched.script import parse


@functools.cache
def matmul(
    m: int, n: int, k: int, dtype: str = "int32", sums: str = "", transposed: bool = False, axes: str = "ijk", block: str = "C"
) -> PrimFunc:
    """``C = A @ B`` in one block over a grid of three loops.

    Args:
        m: rows of ``A``, of shape (m, k).
        n: columns of ``B``, of shape (k, n).
        k: what is summed over.
        dtype: of ``A`` and ``B``.
        sums: dtype of ``C``; default that of ``A``. Where it is another, the operands are cast.
        transposed: ``B`` has shape (n, k).
        axes: names of the loops over m, n and k.
        block: its name.
    """
    i, j, r = axes
    sums = sums or dtype
    operands = [f"A[v{i}, v{r}]", f"B[v{j}, v{r}]" if transposed else f"B[v{r}, v{j}]"]
    if sums != dtype:
        operands = [f'T.Cast("{sums}", {operand})' for operand in operands]
    func = parse(f'''
from tvm.script import tir as T
@T.prim_func
def matmul(
    A: T.Buffer(({m}, {k}), "{dtype}"), B: T.Buffer(({f"{n}, {k}" if transposed else f"{k}, {n}"}), "{dtype}"),
    C: T.Buffer(({m}, {n}), "{sums}"),
):
    for {i}, {j}, {r} in T.grid({m}, {n}, {k}):
        with T.sblock("{block}"):
            v{i}, v{j}, v{r} = T.axis.remap("SSR", [{i}, {j}, {r}])
            with T.init():
                C[v{i}, v{j}] = T.{sums}(0)
            C[v{i}, v{j}] = C[v{i}, v{j}] + {operands[0]} * {operands[1]}
''')
    assert isinstance(func, PrimFunc)
    return func


@functools.cache
def chain(m: int, n: int, dtype: str = "int32") -> PrimFunc:
    """``B = A * 2``, then ``C = B + 1``, over one shape.

    Args:
        m: rows.
        n: columns.
        dtype: of all three.
    """
    func = parse(f'''
from tvm.script import tir as T
@T.prim_func
def chain(A: T.Buffer(({m}, {n}), "{dtype}"), C: T.Buffer(({m}, {n}), "{dtype}")):
    B = T.sblock_alloc_buffer(({m}, {n}), "{dtype}")
    for i, j in T.grid({m}, {n}):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.{dtype}(2)
    for i, j in T.grid({m}, {n}):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.{dtype}(1)
''')
    assert isinstance(func, PrimFunc)
    return func
