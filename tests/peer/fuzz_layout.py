"""Where the elements of a parameter stand after the layout changes of a case, so that the program can be run all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import schedule_steps

from autosched.ir.expr import IntImm
from autosched.ir.index_map import IndexMap, _evaluate
from autosched.schedule import Schedule

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
UNUSED = 55  # what padding holds where nothing says what it holds


@dataclass(frozen=True)
class Change:
    """One layout change of a parameter.

    Args:
        param: its position among the function's buffers.
        mapping: from old indices to new ones.
        pad: what padding holds, or None: anything.
        shape: the buffer's shape before.
    """

    param: int
    mapping: IndexMap
    pad: int | None
    shape: Shape

    def indices(self, old: Sequence[Array]) -> list[Array]:
        """New indices for old ones."""
        env = dict(zip(self.mapping.initial, old))
        return [np.broadcast_to(_evaluate(e, env), old[0].shape) for e in self.mapping.final]


class _Recorder:
    """Stands for a schedule; notes what a step asks for."""

    def get_sblock(self, name: str, func_name: str) -> str:
        return name

    def transform_layout(self, **asked: Any) -> None:
        self.asked = asked


def change_of(sch: Schedule, step: schedule_steps.Step) -> Change | None:
    """What a step does to a parameter's layout; None where it does nothing to one, or cannot be taken at all.

    Args:
        sch: the schedule before the step.
        step: the step.
    """
    if step.op != "transform_layout":
        return None
    recorder = _Recorder()
    schedule_steps.apply(recorder, step)  # type: ignore[arg-type]
    side, at = recorder.asked["buffer"]
    named = [r.block for r in sch.state.realizes.values() if r.block.name == recorder.asked["block"]]
    for block in named[:1]:
        regions = block.reads if side == "read" else block.writes
        for k, buffer in enumerate(sch.func.buffers):
            if at < len(regions) and regions[at].buffer is buffer:
                mapping = IndexMap.from_func(recorder.asked["index_map"], buffer.ndim)
                return Change(k, mapping, recorder.asked.get("pad_value"), shape_of(buffer))
    return None


def shape_of(buffer: Any) -> Shape:
    """The shape of a buffer of constant shape."""
    assert all(isinstance(e, IntImm) for e in buffer.shape), buffer
    return tuple(e.value for e in buffer.shape)


def laid_out(array: Array, changes: Sequence[Change], shape: Shape) -> tuple[Array, Array] | bool | None:
    """An array in its new layout, and where that has elements whose value is known.

    Args:
        array: in the first layout.
        changes: of this parameter, in order.
        shape: of the buffer in the end.

    Returns:
        (array, mask), False where the shape has no room for what the maps say, None where a map gives two elements
        the same place.
    """
    known: Array = np.ones(array.shape, bool)
    for k, change in enumerate(changes):
        new = changes[k + 1].shape if k + 1 < len(changes) else shape
        index = change.indices(list(np.indices(array.shape)))
        if len(index) != len(new) or any(i.size and (i.min() < 0 or i.max() >= n) for i, n in zip(index, new)):
            return False
        used = np.zeros(new, bool)
        used[tuple(index)] = True
        if int(used.sum()) != array.size:
            return None
        fresh: Array = np.full(new, UNUSED if change.pad is None else change.pad, array.dtype)
        mask: Array = np.full(new, change.pad is not None)
        fresh[tuple(index)], mask[tuple(index)] = array, known
        array, known = fresh, mask
    return (array, known) if array.shape == shape else False
