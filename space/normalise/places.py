"""Sums that a stage or a small window reads at other places than it stores: each place has a sum of its own.

A sum of which a stage reads only what stands first is made for that alone, too, where nothing else leads to a schedule.

The accumulator is addressed element by element, in the order in which a stage stores. A window of a reduction is written out, and
what it reads at each of its places is computed for just that: of windows that do not overlap nothing is computed twice.
"""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, int_value
from autosched.ir.patterns import update_of
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, extents, loads_of, product_of, steps_of, store_of

MOST = 16  # places; a longer window would need too many accumulators


def apart(sch: Schedule, target: Target, cropped: bool = False) -> Schedule:
    """A schedule in which every place of a sum that a stage reads elsewhere than it stores has a sum of its own.

    The schedule itself where there is nothing of the kind, or where a primitive refuses: then that is what is in the way.

    Args:
        sch: of the program.
        target: the machine.
        cropped: whether what is read from the first place on, and not to the last, is read elsewhere as well.
    """
    lanes = target.config.block_out
    for name in [b.name for b in device_blocks(sch.func)]:
        if not _wanted(sch, device_block(sch, name), cropped, lanes):
            continue
        trial = sch.copy()
        try:
            if device_block(trial, name).init is not None:
                trial.expand_reduction(trial.get_sblock(name))
            for _ in range(MOST):
                made = _elsewhere(trial, device_block(trial, name), cropped, lanes)
                if made is None:
                    break
                handle = trial.get_sblock(made.name)
                if len(trial.get_consumers(handle)) > 1:
                    trial.recompute_at_consumers(handle)
                elif made.init is None:
                    trial.compute_inline(handle)
                else:
                    trial.recompute_at_reads(handle)
        except ScheduleError:
            continue  # analysis says it
        sch = trial
    return sch


def crops(func: PrimFunc) -> bool:
    """Whether something reads only what stands first of what a program makes, and seems to read it where it is stored.

    Args:
        func: a program of plain blocks.
    """
    for block in device_blocks(func):
        size = extents(block)
        for load in loads_of(block):
            read = [(size[i], int_value(s)) for i, s in zip(load.indices, load.buffer.shape) if isinstance(i, Var) and i in size]
            if load.buffer not in func.buffers and any(extent != whole for extent, whole in read):
                return True
    return False


def _wanted(sch: Schedule, block: Block, cropped: bool, lanes: int) -> bool:
    """Whether a stage, or a small window on the ALU, reads sums of products, or stages behind them, elsewhere than it stores."""
    steps = steps_of(block)
    if product_of(block) is not None or (block.init is not None and (update_of(store_of(block)) is None or steps > MOST)):
        return False
    made = _elsewhere(sch, block, cropped, lanes)
    while made is not None and made.init is None:
        made = next(iter(_makers(sch, made)), None)
    product = None if made is None else product_of(made)
    # What an identity only widens is made again for every window anyway.
    return product is not None and not {f.buffer for f in product.factors} & {c.buffer for c in sch.func.constants}


def _makers(sch: Schedule, block: Block) -> list[Block]:
    """The blocks that make what a block reads in int32."""
    read = {x.buffer for x in loads_of(block) if x.dtype == "int32"} - set(sch.func.buffers)
    return [b for b in device_blocks(sch.func) if store_of(b).buffer in read and b.name != block.name]


def _elsewhere(sch: Schedule, block: Block, cropped: bool, lanes: int) -> Block | None:
    """The block that makes what a block reads at computed places, or step by step of a reduction; None where there is none.

    What is read at plain iterators in another order, and in that alone, is a matter of layout. Where ``cropped``, it is read
    elsewhere as well if an iterator ends before its dimension does: what is stored then has other places. What is the same for
    all elements along an iterator is read in its lanes.
    """
    steps = {iv.var for iv in block.iter_vars if iv.kind == "reduce"}
    size = extents(block)

    def whole(index: Expr, extent: int | None) -> bool:
        if isinstance(index, BinOp) and index.op == "%" and isinstance(index.a, Var) and index.a not in steps:
            return int_value(index.b) == extent == lanes
        return extent == 1 or (isinstance(index, Var) and index not in steps and (not cropped or size[index] == extent))

    def plain(load: BufferLoad) -> bool:
        return all(whole(i, int_value(s)) for i, s in zip(load.indices, load.buffer.shape))

    loads = list(loads_of(block))
    read = {x.buffer for x in loads if not plain(x) or any(x.buffer is y.buffer and x.indices != y.indices for y in loads)}
    return next((b for b in _makers(sch, block) if store_of(b).buffer in read), None)
