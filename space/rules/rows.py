"""Rows: of what windows stride over only what they use comes to the on-chip memory, window by window."""

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
    """A copy of the operand whose strided dimensions are split by the stride, so that a tile is dense: one phase of what it
    strides over, or of windows that do not overlap the part that a reduction's tile reads.

    Where a window is one element wide the innermost dimension stays as it is: a DMA moves runs, and a run of one costs as much as
    a burst.
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
    """Per dimension, by how much an axis strides, where all the others together stay below that; 1 where it is not split."""
    moves = [[(c, extent) for c, extent in zip(coeffs, extents) if c and extent > 1] for coeffs, _ in operand.dims]
    moving = [d for d, steps in enumerate(moves) if steps]
    found = []
    for d, ((_, size), steps) in enumerate(zip(operand.dims, moves)):
        stride = max((c for c, _ in steps), default=1)
        rest = [(c, extent) for c, extent in steps if c != stride]
        apart = len(rest) == len(steps) - 1 and sum(c * (extent - 1) for c, extent in rest) < stride
        found.append(stride if apart and stride > 1 and size % stride == 0 and (rest or d != moving[-1]) else 1)
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
