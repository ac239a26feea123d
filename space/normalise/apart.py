"""What several stored tensors need and no nest makes together is computed for each of them."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.errors import ProgramError, ScheduleError
from autosched.ir.host import split_host
from autosched.schedule import Schedule
from autosched.schedule.kit.base import BlockRV
from autosched.target import Target
from space.nest import Nest, analyse, shared
from space.normalise.blocks import device_block, product_of

MOST = 16  # copies of blocks; a program of more results than that is beyond a space


def apply(sch: Schedule, target: Target) -> None:
    """Gives every stored tensor a copy of its own of a block that several of them need, from the last such block on."""
    for _ in range(MOST):
        try:
            found = shared(split_host(sch.func).device, target)
        except ProgramError:
            return  # analysis says it better
        if found is None:
            break
        name, groups = found
        if all(len(group) == 1 for group in groups):
            sch.recompute_at_consumers(sch.get_sblock(name))
            continue
        for group in groups[1:]:
            sch.recompute_at_consumers(sch.get_sblock(name), [sch.get_sblock(reader) for reader in group])
    for _ in range(MOST):
        try:
            again = next((x for nest in analyse(split_host(sch.func).device, target) if (x := _padded_twice(nest))), None)
            if again is None:
                return
            name, readers = again
            copy = sch.recompute_at_consumers(sch.get_sblock(name), [sch.get_sblock(reader) for reader in readers])[1]
            trial = sch.copy()
            _inlined(trial, copy, readers)
            if all(product_of(device_block(trial, reader)) for reader in readers):
                sch.adopt(trial)  # they read no padding
        except (ProgramError, ScheduleError):
            return  # analysis says it better


def _inlined(sch: Schedule, copy: BlockRV, readers: Sequence[str]) -> None:
    sch.compute_inline(copy)
    for reader in readers:
        sch.simplify_value(sch.get_sblock(reader))


def _padded_twice(nest: Nest) -> tuple[str, tuple[str, ...]] | None:
    """A block that pads for several loads of a nest, and the readers of one that is not the first."""
    seen = set()
    for operand in nest.operands:
        if operand.producer in seen and operand.producer is not None:
            return operand.producer, operand.readers
        seen.add(operand.producer)
    return None
