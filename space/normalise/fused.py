"""Windows that take the largest or smallest of what a sum of products becomes: the sum stays in the accumulator for them.

A layer and the pool behind it are two nests otherwise, and what is between them is narrowed, stored and read again, by a product
with an identity for every vector. A shift, a clip and what a channel adds never fall, so the window may compare the sums
themselves, and the stages behind it have a vector for each window instead of one for each element. Every tile of windows makes
the sums that they read (``space/halos.py``): with a border twice where windows overlap.
"""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import operands, update_of
from autosched.ir.stmt import Block, Buffer, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.windows import EXTREMA
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, loads_of, product_of, readers_of, steps_of, store_of, writer_of

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
        trial = (found or sch).copy()
        between = _between(trial.func, device_block(trial, name))
        if between is None:
            continue
        try:
            if device_block(trial, name).init is not None:
                trial.expand_reduction(trial.get_sblock(name))
            for stage in between if target.semantics == "chisel" else ():
                with suppress(ScheduleError):  # nothing is added there, or not in front of a shift
                    trial.fold_epilogue(trial.get_sblock(stage.name))
            for stage in between:
                trial.compute_inline(trial.get_sblock(stage.name))
            if between:
                trial.hoist_extremum(trial.get_sblock(name))
        except ScheduleError:
            continue  # what is done there may fall, or nothing proves that it does not
        if _compares(device_block(trial, name)):
            found = trial
    return found


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
