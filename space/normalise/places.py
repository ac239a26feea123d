"""Sums that a stage or a small window reads at other places than it stores: each place has a sum of its own.

The accumulator is addressed element by element, in the order in which a stage stores. A window of a reduction is written out, and
what it reads at each of its places is computed for just that: of windows that do not overlap nothing is computed twice.
"""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Var, int_value
from autosched.ir.patterns import update_of
from autosched.ir.stmt import Block
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, loads_of, product_of, steps_of, store_of

MOST = 16  # places; a longer window would need too many accumulators


def apart(sch: Schedule, target: Target) -> Schedule:
    """A schedule in which every place of a sum that a stage reads elsewhere than it stores has a sum of its own.

    The schedule itself where there is nothing of the kind, or where a primitive refuses: then that is what is in the way.
    """
    for name in [b.name for b in device_blocks(sch.func)]:
        if not _wanted(sch, device_block(sch, name)):
            continue
        trial = sch.copy()
        try:
            if device_block(trial, name).init is not None:
                trial.expand_reduction(trial.get_sblock(name))
            for _ in range(MOST):
                made = _elsewhere(trial, device_block(trial, name))
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


def _wanted(sch: Schedule, block: Block) -> bool:
    """Whether a stage, or a small window on the ALU, reads sums of products, or stages behind them, elsewhere than it stores."""
    steps = steps_of(block)
    if product_of(block) is not None or (block.init is not None and (update_of(store_of(block)) is None or steps > MOST)):
        return False
    made = _elsewhere(sch, block)
    while made is not None and made.init is None:
        made = next(iter(_makers(sch, made)), None)
    product = None if made is None else product_of(made)
    # What an identity only widens is made again for every window anyway.
    return product is not None and not {f.buffer for f in product.factors} & {c.buffer for c in sch.func.constants}


def _makers(sch: Schedule, block: Block) -> list[Block]:
    """The blocks that make what a block reads in int32."""
    read = {x.buffer for x in loads_of(block) if x.dtype == "int32"} - set(sch.func.buffers)
    return [b for b in device_blocks(sch.func) if store_of(b).buffer in read and b.name != block.name]


def _elsewhere(sch: Schedule, block: Block) -> Block | None:
    """The block that makes what a block reads at computed places, or step by step of a reduction; None where there is none.

    What is read at plain iterators in another order, and in that alone, is a matter of layout.
    """
    steps = {iv.var for iv in block.iter_vars if iv.kind == "reduce"}

    def plain(load: BufferLoad) -> bool:
        return all((isinstance(i, Var) and i not in steps) or int_value(s) == 1 for i, s in zip(load.indices, load.buffer.shape))

    loads = list(loads_of(block))
    read = {x.buffer for x in loads if not plain(x) or any(x.buffer is y.buffer and x.indices != y.indices for y in loads)}
    return next((b for b in _makers(sch, block) if store_of(b).buffer in read), None)
