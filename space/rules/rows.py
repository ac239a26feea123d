"""Rows: of a strided operand only the rows that are used come to the on-chip memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autosched.errors import ProgramError, ScheduleError
from autosched.ir.host import split_host
from space.nest import analyse
from space.rule import StructuralRule

if TYPE_CHECKING:
    from autosched.schedule import Schedule
    from autosched.target import Target
    from space.operands import Operand


class Rows(StructuralRule):
    """A copy of the operand whose strided dimensions are split by the stride, so that a tile is one phase of it and dense.

    The innermost dimension stays as it is: a DMA moves runs of elements, and a run of one costs as much as a burst.
    """

    name = "rows"

    def apply(self, sch: Schedule, target: Target) -> Sequence[tuple[str, Schedule]]:
        """One alternative: every such operand of the product."""
        try:
            nests = analyse(split_host(sch.func).device, target)
        except ProgramError:
            return []
        other = sch.copy()
        done = False
        for axes, operand in [(n.axes, o) for n in nests for o in n.operands]:
            strides = _strides(operand, [axis.extent for axis in axes])
            if operand.producer is not None or operand.read_index < 0 or not any(s > 1 for s in strides):
                continue
            try:
                copy = other.cache_read(operand.consumer, operand.name, "global")
                other.transform_layout(copy, ("write", 0), _phases(strides), pad_value=None)
                other.transform_block_layout(copy, _phases(strides))
            except ScheduleError:
                return []
            done = True
        return [("rows in use", other)] if done else []


def _strides(operand: Operand, extents: list[int]) -> list[int]:
    """Per dimension, by how much one axis alone strides it; 1 for the innermost that moves, and where it cannot be split."""
    moves = [[c for c, extent in zip(coeffs, extents) if c and extent > 1] for coeffs, _ in operand.dims]
    moving = [d for d, steps in enumerate(moves) if steps]
    found = []
    for d, ((_, size), steps) in enumerate(zip(operand.dims, moves)):
        alone = len(steps) == 1 and steps[0] > 1 and size % steps[0] == 0
        found.append(steps[0] if alone and d != moving[-1] else 1)
    return found


def _phases(strides: list[int]) -> Any:
    """The map ``.., h, .. -> .., h // s, h % s, ..``."""

    def split(*indices: Any) -> list[Any]:
        out: list[Any] = []
        for n, index in enumerate(indices):
            stride = strides[n] if n < len(strides) else 1
            out += [index // stride, index % stride] if stride > 1 else [index]
        return out

    return split
