"""Rows: of what windows stride over only what they use comes to the on-chip memory, window by window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autosched.errors import ProgramError, ScheduleError
from autosched.ir.host import split_host
from autosched.ir.scopes import INP
from sim import timing
from space.nest import analyse
from space.rule import StructuralRule

if TYPE_CHECKING:
    from autosched.schedule import Schedule
    from autosched.schedule.kit.base import BlockRV
    from autosched.target import Target
    from space.operands import Operand


class Rows(StructuralRule):
    """A copy of the operand whose strided dimensions are split by the stride, so that a tile is dense: one phase of what it
    strides over, or of windows that do not overlap the part that a reduction's tile reads. What is left over at the ends of a
    dimension, where no window is, is no part of it.

    Where a window is one element wide the innermost dimension is split if an element of the input memory takes the bus longer
    than a load takes from one request to its next. Else it stays as it is: a DMA moves runs, and while others read, a request
    for one element takes as long as for a longer run.
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
            extents = [axis.extent for axis in axes]
            strides = _strides(operand, extents, operand.scope == INP and _may_be_single(target))
            if operand.producer is not None or operand.read_index < 0 or not any(s > 1 for s in strides):
                continue
            try:
                copy = _used(other, other.cache_read(operand.consumer, operand.name, "global"), operand, strides, extents)
                other.transform_layout(copy, ("write", 0), _phases(strides), pad_value=None)
                other.transform_block_layout(copy, _phases(strides))
            except ScheduleError:
                return []
            done = True
        return [("rows in use", other)] if done else []


def _may_be_single(target: Target) -> bool:
    """Whether elements of the input memory come as soon one by one as in long runs, with time to spare for other units' reads."""
    return target.config.inp_elem_bytes > timing.REQUEST_CYCLES * target.config.bus_bytes


def _strides(operand: Operand, extents: list[int], single: bool) -> list[int]:
    """Per dimension, by how much an axis strides, where all the others together stay below that; 1 where it is not split.

    Args:
        operand: what is read.
        extents: of the nest's axes.
        single: whether runs may be of one element.
    """
    moves = [[(c, extent) for c, extent in zip(coeffs, extents) if c and extent > 1] for coeffs, _ in operand.dims]
    moving = [d for d, steps in enumerate(moves) if steps]
    found = []
    for d, steps in enumerate(moves):
        stride = max((c for c, _ in steps), default=1)
        rest = [(c, extent) for c, extent in steps if c != stride]
        apart = len(rest) == len(steps) - 1 and sum(c * (extent - 1) for c, extent in rest) < stride
        found.append(stride if apart and stride > 1 and (rest or single or d != moving[-1]) else 1)
    return [s if s == 1 or _box(operand, d, s, extents) is not None else 1 for d, s in enumerate(found)]


def _box(operand: Operand, dim: int, stride: int, extents: list[int]) -> tuple[int, int] | None:
    """The indices of a dimension that are split by a stride, from the first to behind the last: whole steps of it.

    All of them, where they are whole steps and a window lies in one of these; else what the steps go over, from the first index
    that is read. None where the last step reaches beyond the end: what it does not read there is nowhere.
    """
    coeffs, size = operand.dims[dim]
    first = operand.first[dim] if operand.first else 0
    window = sum(c * (extent - 1) for c, extent in zip(coeffs, extents) if c != stride)
    if size % stride == 0 and first % stride + window < stride:
        return 0, size
    end = first + stride * max(extent for c, extent in zip(coeffs, extents) if c == stride)
    return (first, end) if end <= size else None


def _used(sch: Schedule, copy: BlockRV, operand: Operand, strides: list[int], extents: list[int]) -> BlockRV:
    """The copy of an operand without what is in front of the indices that are split, and behind them."""
    for dim, ((_, size), stride) in enumerate(zip(operand.dims, strides)):
        first, end = (_box(operand, dim, stride, extents) if stride > 1 else None) or (0, size)
        lengths = [n for n in (first, end - first, size - end) if n]
        if len(lengths) > 1:
            parts = sch.partition_buffer(copy, dim, lengths)
            copy = parts.pop(int(first > 0))
            for part in parts:
                sch.compute_inline(part)
    return copy


def _phases(strides: list[int]) -> Any:
    """The map ``.., h, .. -> .., h // s, h % s, ..``."""

    def split(*indices: Any) -> list[Any]:
        out: list[Any] = []
        for n, index in enumerate(indices):
            stride = strides[n] if n < len(strides) else 1
            out += [index // stride, index % stride] if stride > 1 else [index]
        return out

    return split
