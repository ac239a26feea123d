"""Windows that take the largest or smallest of what a sum of products becomes: the sum stays in the accumulator for them.

A layer and the pool behind it are two nests otherwise, and what is between them is narrowed, stored and read again, by a product
with an identity for every vector. A shift, a clip and what a channel adds never fall, so the window may compare the sums
themselves, and the stages behind it have a vector for each window instead of one for each element. Every tile of windows makes
the sums that they read (``space/halos.py``): with a border twice where windows overlap.

Where a comparison may stand in the place of a sum (``chisel``) none is moved: of every window it does at a sum that no other one
reads, such as the middle one of three that move on by two, and windows that move on by one slide. What a row contributes is made
once for all windows that share the row. What is done to the result behind that begins with a constant, and moves it for nothing.
"""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, int_value
from autosched.ir.functor import expr_children, walk_expr
from autosched.ir.patterns import operands, update_of
from autosched.ir.stmt import Block, Buffer, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.windows import EXTREMA
from autosched.target import Target
from space.normalise.blocks import (
    device_block,
    device_blocks,
    loads_of,
    named,
    product_of,
    readers_of,
    steps_of,
    store_of,
    writer_of,
)
from space.normalise.copies import path_of
from space.normalise.windows import halved, row_path, shared_steps, steps_over

MOST = 64  # elements of a window


def applies(func: PrimFunc) -> bool:
    """Whether a block takes the largest or smallest of what a sum of products becomes, which this rule could change."""
    return any(_between(func, block) is not None for block in device_blocks(func))


def apply(sch: Schedule, target: Target) -> Schedule | None:
    """A schedule in which every such window compares the sums themselves, with what was done to each behind it; or None.

    Args:
        sch: the program.
        target: the machine; where an immediate operation moves what it reads, sums start with what is added to them.
    """
    found: Schedule | None = None
    for name in [b.name for b in device_blocks(sch.func)]:
        between = _between((found or sch).func, device_block(found or sch, name))
        if between is None:
            continue
        # In place first, where that is a way.
        for placed in (True, False) if target.semantics == "chisel" else (False,):
            trial = (found or sch).copy()
            try:
                if not _compared(trial, name, between, target, placed):
                    continue
            except ScheduleError:
                continue  # what is done there may fall, or nothing proves that it does not
            found = trial
            break
    return found


def _compared(sch: Schedule, name: str, between: tuple[Block, ...], target: Target, placed: bool) -> bool:
    """Lets a window compare sums; whether it does.

    Args:
        sch: the program.
        name: of the window's block.
        between: the stages between the sum and the window, the last first.
        target: the machine.
        placed: whether results stand where sums did.
    """
    block, rows = device_block(sch, name), ""
    over = steps_over(block, MOST) if block.init is not None else []
    if placed and not (over and len(over) < 3 and all(_has_place(block, *step) for step in over)):
        return False
    if block.init is not None:
        sch.expand_reduction(sch.get_sblock(name))
    if placed and len(over) > 1 and any(_shared(block, *step) for step in over):
        paths = [row_path(sch, name, over[0][1], k) for k in range(over[0][1])]
        rows = named(sch, sch.share_value(sch.get_sblock(name), paths))
    for stage in between if target.semantics == "chisel" else ():
        with suppress(ScheduleError):  # nothing is added there, or not in front of a shift
            sch.fold_epilogue(sch.get_sblock(stage.name))
    for stage in between:
        sch.compute_inline(sch.get_sblock(stage.name))
    for each in (rows, name) if rows else (name,):
        with suppress(ScheduleError):  # nothing is done there, or nothing proves that it never falls
            sch.hoist_extremum(sch.get_sblock(each))
        if not _compares(device_block(sch, each)):
            return False
        if placed and not _apart(sch, each, each == rows, _shared(block, *(over[-1] if each == rows else over[0]))):
            return False
    return True


def _shared(block: Block, over: Var, count: int) -> list[list[int]]:
    """The steps along an iterator that several windows have in common, as ``windows.shared_steps``."""
    return shared_steps(block, loads_of(block)[0], over, count)


def _has_place(block: Block, over: Var, count: int) -> bool:
    """Whether windows may stand, along an iterator, where one of their elements was: no other one reads it, or they slide on."""
    shared = _shared(block, over, count)
    return sum(map(len, shared)) < count or [*range(count)] in shared


def _apart(sch: Schedule, name: str, inner: bool, shared: list[list[int]]) -> bool:
    """Takes what is done to the result of a comparison out of its block; whether the comparison may stand where a sum did.

    Args:
        sch: the program.
        name: of the block.
        inner: whether it is one of rows: what is done to these is done to windows instead. What is done to windows begins with a
            constant, else their results would have to be moved to where they are stored.
        shared: the steps that several windows have in common. Where that is all of them they slide on, two compared at a time;
            else the comparison begins with one that is this window's.
    """
    value = store_of(device_block(sch, name)).value
    window = next(e for e in walk_expr(value) if isinstance(e, BinOp) and e.op in EXTREMA and len(_elements(e)) > 1)
    path = path_of(value, window) or []
    if path:
        *ahead, _ = path
        first: Expr = value
        for k in ahead:
            first = expr_children(first)[k]
        if not inner and not any(int_value(e) is not None for e in expr_children(first)):
            return False
        part = named(sch, sch.decompose_value(sch.get_sblock(name), path))
        if inner:
            sch.compute_inline(sch.get_sblock(name))
    elif not inner:
        return False
    else:
        part = name
    count = len(_elements(window))
    own = min((k for k in range(count) if all(k not in group for group in shared)), default=count)
    if own == count:
        halved(sch, part, _elements(window)[0].buffer)
    elif own > 1:  # as the second it is as good
        sch.reorder_addends(sch.get_sblock(part), [own, *(k for k in range(count) if k != own)])
    return True


def _elements(value: BinOp) -> list[BufferLoad]:
    """The operands of a comparison, where all of them are loaded."""
    found = operands(value, value.op)
    return [e for e in found if isinstance(e, BufferLoad)] if all(isinstance(e, BufferLoad) for e in found) else []


def _between(func: PrimFunc, block: Block) -> tuple[Block, ...] | None:
    """The stages between a sum of products and the window over it that a block takes, the last first; None without such a sum."""
    read = {x.buffer for x in loads_of(block)}
    if len(read) != 1 or not _extremum(block):
        return None
    made: Buffer = read.pop()
    found: list[Block] = []
    while True:
        maker = writer_of(func, made)
        if maker is None or made in func.buffers or len(readers_of(func, made)) != 1:
            return None
        product = product_of(maker)
        if product is not None:
            # What an identity only widens is made again for every window anyway.
            constant = {f.buffer for f in product.factors} & {c.buffer for c in func.constants}
            return None if constant else tuple(found)
        between = {x.buffer for x in loads_of(maker) if writer_of(func, x.buffer) is not None}
        if maker.init is not None or len(between) != 1:
            return None
        found.append(maker)
        made = between.pop()


def _extremum(block: Block) -> bool:
    """Whether a block takes the largest or smallest of several elements of a tensor."""
    if block.init is not None:
        update = update_of(store_of(block))
        return update is not None and update[0] in EXTREMA and 1 < steps_of(block) <= MOST
    places = {x.indices for x in loads_of(block)}
    return 1 < len(places) <= MOST and any(isinstance(e, BinOp) and e.op in EXTREMA for e in walk_expr(store_of(block).value))


def _compares(block: Block) -> bool:
    """Whether all that a block loads at several places are the operands of one minimum or maximum."""
    loads = loads_of(block)
    several = [x for x in loads if any(y.buffer is x.buffer and y.indices != x.indices for y in loads)]
    compared = (operands(e, e.op) for e in walk_expr(store_of(block).value) if isinstance(e, BinOp) and e.op in EXTREMA)
    return any(len(several) == sum(isinstance(x, BufferLoad) for x in e) == len(several) > 1 for e in compared)
