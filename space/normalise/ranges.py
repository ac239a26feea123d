"""Tensors in between of which each reader reads one range, as queries, keys and values of one product: each range is a tensor.

What is made as one is made range by range then: a product by its columns, of which the host lays out the weight. Where readers
take an axis by turns (``h * 3 + 1``), the turns are ranges of an axis of their own first.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Expr, int_value
from autosched.ir.functor import substitute
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer, PrimFunc
from autosched.schedule import Schedule
from space.normalise import joined
from space.normalise.axes import Place
from space.normalise.blocks import device_blocks, loads_of, readers_of, store_of
from space.normalise.handed import copies_result


def apply(sch: Schedule) -> bool:
    """Gives each such range a tensor of its own; whether there are any.

    Args:
        sch: of a program of plain blocks.
    """
    kept: set[str] = set()
    before = len(sch.trace.insts)
    while (found := _in_ranges(sch.func, kept)) is not None:
        buffer, dim, points = found
        try:
            with sch.all_or_none():
                for name in joined.cut(sch, buffer.name, dim, points):
                    _without(sch, name, dim)
        except ScheduleError:
            kept.add(buffer.name)  # what is in the way of a schedule, analysis says
    return len(sch.trace.insts) > before


def by_turns(func: PrimFunc) -> Iterator[tuple[Place, int]]:
    """Where readers of a tensor in between take its elements by turns, each at one digit, and how many digits there are.

    Args:
        func: of plain blocks.
    """
    for buffer, read in _read(func):
        for d, extent in enumerate(buffer.shape):
            turns = {_turn(b, x.indices[d], int_value(extent) or 0) for b, x in read}
            each = {size for size, _ in turns}
            if len(turns) > 1 and len(each) == 1 and not each & {1, int_value(extent)}:
                yield (buffer, d), min(each)


def _read(func: PrimFunc) -> Iterator[tuple[Buffer, list[tuple[Block, BufferLoad]]]]:
    """The tensors in between, the last one first, with all loads of each and where these are."""
    for buffer in dict.fromkeys(store_of(b).buffer for b in reversed(device_blocks(func))):
        if buffer not in func.buffers:
            yield buffer, [(b, x) for b in readers_of(func, buffer) for x in loads_of(b) if x.buffer is buffer]


def _in_ranges(func: PrimFunc, kept: set[str]) -> tuple[Buffer, int, list[int]] | None:
    """A tensor of which readers read ranges that lie end to end along a dimension and fill it: it, that, where they meet.

    What nobody reads in between would be made for nothing. What is copied into a result is copied range by range then.
    """
    for buffer, read in _read(func):
        for d, extent in enumerate(buffer.shape if buffer.name not in kept else ()):
            spans = sorted({joined.span(b, x.indices[d]) for b, x in read if not copies_result(func, b)})
            ends = [0, *[end for _, end in spans]]
            filled = ends[-1] == int_value(extent) and all(begin == end for (begin, _), end in zip(spans, ends))
            if 1 < len(spans) <= joined.MOST and filled:
                return buffer, d, ends[1:-1]
    return None


def _turn(block: Block, index: Expr, extent: int) -> tuple[int, int]:
    """(n, digit) of an index that is multiples of n and a constant, n being the most that divides an extent, too; else (1, 0)."""
    form = linear_form(substitute(index, {iv.var: iv.dom.min for iv in block.iter_vars if int_value(iv.dom.extent) == 1}))
    steps = [int_value(n) for n in (form[1], *form[0].values())] if form is not None else []
    known = [n for n in steps if n is not None]
    if not steps or len(known) < len(steps):
        return 1, 0
    each = gcd(extent, *known[1:])
    return each, known[0] % each


def _without(sch: Schedule, name: str, dim: int) -> None:
    """Leaves out a dimension along which only one index is left of what a block makes, and the block's iterator of it.

    Raises:
        ScheduleError: a primitive refuses.
    """
    block = next((b for b in device_blocks(sch.func) if b.name == name), None)
    if block is None or int_value(store_of(block).buffer.shape[dim]) != 1 or store_of(block).buffer.ndim == 1:
        return
    index = store_of(block).indices[dim]
    at = [k for k, iv in enumerate(block.iter_vars) if iv.var is index]
    sch.transform_layout(sch.get_sblock(name), ("write", 0), lambda *i: (*i[:dim], *i[dim + 1 :]))
    if at:
        sch.transform_block_layout(sch.get_sblock(name), lambda *i: (*i[: at[0]], *i[at[0] + 1 :]))
