"""A sum of int8 elements that is multiplied by a constant: the GEMM, which widens them, multiplies as well.

An average has a factor and a shift behind its sum. The ALU writes ``x * 57`` as shifts and sums of ten cycles a vector; a product
with 57 in place of 1 costs nothing.
"""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.ir.stmt import Block
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.scaling import common_factor
from autosched.target import Target
from space.normalise.blocks import device_blocks, loads_of, readers_of, store_of, written
from space.normalise.negation import sums_bytes
from space.normalise.widening import FACTORS


def apply(sch: Schedule, target: Target) -> None:
    """Multiplies the terms of every such sum instead, on a machine whose ALU does not multiply.

    Args:
        sch: of the program.
        target: the machine.
    """
    if target.multiplies:
        return
    able = {b.name: store_of(b).buffer for b in device_blocks(sch.func) if _is_able(sch, b)}
    made = written(sch.func) - {*able.values()}
    # A sum that is added to another one may go on from that; scaled alone it might not.
    chosen = [name for name, buffer in able.items()
              if not made & {x.buffer for r in readers_of(sch.func, buffer) for x in loads_of(r)}]
    for name in chosen:
        try:
            sch.scale_terms(sch.get_sblock(name))
        except ScheduleError:
            continue  # what is in the way of a schedule, analysis says


def _is_able(sch: Schedule, block: Block) -> bool:
    """Whether a block sums up elements of int8 as they are, for readers that multiply the sum by what an int8 holds."""
    return sums_bytes(block) and common_factor(sch.state, block, store_of(block).buffer) in FACTORS
