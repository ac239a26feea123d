"""Programs that multiply what is masked, in the words of ``te``, and the same on blocks of rows that leave out what is masked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched import te
from autosched.ir.stmt import PrimFunc
from autosched.kernel import resolve
from autosched.lower import lower_table
from autosched.script import parse
from autosched.target import Target
from space import Space

Place = Callable[[Any, Any], Any]


def wide(e: Any) -> Any:
    return e.astype("int32")


def number(value: int, dtype: str = "int8") -> Any:
    return te.const(value, dtype)


def clipped(v: Any, shift: int = 7, low: int = -128, high: int = 127) -> Any:
    return te.max(te.min(v >> shift, number(high, "int32")), number(low, "int32")).astype("int8")


def summed(a: Any, b: Any, shape: tuple[int, ...], depth: int, name: str, across: bool = False) -> Any:
    k = te.reduce_axis((0, depth), name=f"{name}_k")
    return te.compute(shape, lambda i, j: te.sum(wide(a[i, k]) * wide(b[j, k] if across else b[k, j]), axis=k), name=name)


def masked(x: Any, holds: Place, name: str, elsewhere: int = 0) -> Any:
    return te.compute(x.shape, lambda i, j: te.if_then_else(holds(i, j), x[i, j], number(elsewhere)), name=name)


ROWS = """from autosched.script import T

@T.prim_func
def main(P: T.Buffer(({n}, {n}), "int8"), V: T.Buffer(({n}, {d}), "int8"){more}):
"""
BLOCK = """    M{r} = T.alloc_buffer(({b}, {d}), "int32")
    for i, j, k in T.grid({b}, {d}, {k}):
        with T.block("values{r}"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                M{r}[vi, vj] = 0
            M{r}[vi, vj] += {factor}.astype("int32") * V[vk, vj].astype("int32")
    for i, j in T.grid({b}, {d}):
        with T.block("out{r}"):
            vi, vj = T.axis.remap("SS", [i, j])
            o{r}[vi, vj] = T.min(T.max({sum} >> 7, -128), 127).astype("int8")
"""


def by_rows(n: int, d: int, b: int, causal: bool = False, added: bool = False) -> PrimFunc:
    """A product on blocks of rows, each with the columns of P up to its own.

    Args:
        n: rows and columns of P, which is int8.
        d: columns of V, of n rows.
        b: rows of a block.
        causal: also within the blocks nothing is taken from above the diagonal.
        added: to each block's rows one of a further tensor is added, of int32.
    """
    more = "".join(f', o{r}: T.Buffer(({b}, {d}), "int8")' for r in range(n // b))
    text = ROWS.format(n=n, d=d, more=(f', B: T.Buffer(({n // b}, {d}), "int32")' if added else "") + more)
    for r in range(n // b):
        element = f"P[vi + {b * r}, vk]"
        factor = f"T.if_then_else(vk <= vi + {b * r}, {element}, T.int8(0))" if causal else element
        total = f"M{r}[vi, vj]"
        text += BLOCK.format(r=r, b=b, d=d, k=b * (r + 1), factor=factor, sum=f"({total} + B[{r}, vj])" if added else total)
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def best(func: PrimFunc, target: Target, tries: int = 6, sampled: int = 400) -> int:
    """Cycles of the fastest of some schedules, of those drawn that are estimated to be.

    Args:
        func: the program.
        target: the machine.
        tries: how many are lowered.
        sampled: how many are drawn.
    """
    space = Space(func, target)
    points = space.sample(np.random.default_rng(0), sampled)
    chosen = points[np.argsort(space.draft(points))[:tries]]
    return min(lower_table(space.schedule(p).func, target).cycles(None) for p in chosen)


def results(func: PrimFunc, target: Target, inputs: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """All that a program makes of its inputs, one result behind the other.

    Args:
        func: the program.
        target: the machine.
        inputs: arrays, in the order of its parameters.
    """
    return np.concatenate([x.ravel() for x in resolve(func, target).results(*inputs).values()])
