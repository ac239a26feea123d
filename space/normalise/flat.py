"""Tensors in between that are flat, or are so in a dimension: each gets the dimensions that it is stored in, or read in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations, pairwise

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, Expr, Var, int_value
from autosched.ir.functor import expr_children, free_vars, substitute
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import loops
from space.normalise.blocks import device_block, device_blocks, has_digits, loads_of, readers_of, store_of

MOST = 6  # steps of different length in one index


def apart(begun: Schedule, target: Target) -> Schedule | None:
    """A program of which no tensor in between is flat, as far as it can be; None where nothing could be changed.

    Args:
        begun: stays as it is.
        target: the machine.
    """
    sch, changed = begun.copy(), False
    with suppress(ScheduleError):
        loops.apart(sch, target)
        loops.apply(sch, target)
    kept: set[str] = set()
    while True:
        found = next((b for b in _between(sch) if b.name not in kept and any(_chains(sch, b))), None)
        if found is None:
            return sch if changed else None
        other = next(filter(None, (_with(sch, found, d, steps) for d, steps in _chains(sch, found))), None)
        if other is None:
            kept.add(found.name)
        else:
            sch, changed = other, True


def _between(sch: Schedule) -> list[Buffer]:
    """The tensors in between, in the order in which they are stored."""
    made = dict.fromkeys(store_of(b).buffer for b in device_blocks(sch.func))
    return [b for b in made if b not in sch.func.buffers]


def _chains(sch: Schedule, buffer: Buffer) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(dimension, steps) by which a tensor may be taken apart, as it is stored first; then as it is read, where it is flat."""
    blocks = device_blocks(sch.func)
    stored = [store_of(b).indices for b in blocks if store_of(b).buffer is buffer]
    read = [x.indices for b in readers_of(sch.func, buffer) for x in loads_of(b) if x.buffer is buffer]
    for indices in (*stored, *(read if buffer.ndim == 1 else [])):
        for d, index in enumerate(indices):
            steps = _steps(index)
            for count in range(len(steps), 1, -1):
                # The last step is 1; the others may be those of what moves along with them.
                yield from ((d, (*some, 1)) for some in combinations(steps[:-1], count - 1))


def _steps(index: Expr) -> tuple[int, ...]:
    """The lengths of the steps of an index, the longest first, where it counts in digits; else nothing."""
    form = linear_form(index)
    if form is None or int_value(form[1]) is None:
        return ()
    steps = sorted({int_value(n) or 0 for n in form[0].values()}, reverse=True)
    whole = steps and steps[-1] == 1 and all(a % b == 0 for a, b in pairwise(steps))
    return tuple(steps) if whole and 1 < len(steps) <= MOST else ()


def _with(sch: Schedule, buffer: Buffer, dim: int, steps: Sequence[int]) -> Schedule | None:
    """A copy in which a dimension of a tensor is as many as there are steps; None where others take digits of sums then."""
    other = sch.copy()
    sizes = [None, *[a // b for a, b in pairwise(steps)]]

    def digits(*i: Expr) -> tuple[Expr, ...]:
        made = [i[dim] // s if n is None else i[dim] // s % n for s, n in zip(steps, sizes)]
        return (*i[:dim], *made, *i[dim + 1 :])

    writer = next(b.name for b in device_blocks(other.func) if store_of(b).buffer is buffer)
    try:
        other.transform_layout(other.get_sblock(writer), ("write", 0), digits)
        made = store_of(device_block(other, writer)).buffer
        for name in [b.name for b in device_blocks(other.func) if _accesses(b, made)]:
            _over_digits(other, name, made)
    except ScheduleError:
        return None
    # A tensor keeps its name; that its dimensions are used one by one is what it was taken apart for.
    used = [i for b in device_blocks(other.func) for i in _accesses(b, made)]
    return None if any(has_digits(*i) for i in used) else other


def _accesses(block: Block, buffer: Buffer) -> list[tuple[Expr, ...]]:
    """Where a block stores and loads elements of a tensor."""
    store = store_of(block)
    stored = [store.indices] if store.buffer is buffer else []
    return stored + [x.indices for x in loads_of(block) if x.buffer is buffer]


def _digits(index: Expr) -> Iterator[Expr]:
    """The divisions and remainders in an index, the outermost ones."""
    if isinstance(index, BinOp) and index.op in ("//", "%"):
        yield index
        return
    for child in expr_children(index):
        yield from _digits(child)


def _over_digits(sch: Schedule, name: str, buffer: Buffer) -> None:
    """Lets a block that takes digits of an iterator run over the digits instead."""
    block = device_block(sch, name)
    taken = dict.fromkeys(e for indices in _accesses(block, buffer) for i in indices for e in _digits(i))
    own = [iv.var for iv in block.iter_vars]
    table: dict[Var, list[Expr]] = {}
    for digit in taken:
        for var in free_vars(digit):
            table.setdefault(var, []).append(digit)
    if not taken or any(len(list(free_vars(e))) != 1 for e in taken):
        return

    def apart(*i: Expr) -> tuple[Expr, ...]:
        at = dict(zip(own, i))
        return tuple([substitute(e, at) for v in own for e in table.get(v, [v])])

    sch.transform_block_layout(sch.get_sblock(name), apart)
