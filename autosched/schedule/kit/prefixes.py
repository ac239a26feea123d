"""What replays of traces share: the programs after common first instructions, which are immutable and need be made once.

A search replays one trace per candidate on the same program, and most traces begin alike. What an instruction makes of a state is
decided by the state and its arguments, so the state after a known prefix is taken as it is. What an argument only names (a tensor
intrinsic) counts as it is defined now, by its stamp. Instructions that draw (a decision) are never kept.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from autosched.ir.index_map import IndexMap
from autosched.schedule.kit.base import RV, BlockRV, ExprRV, LoopRV, ScheduleBase
from autosched.schedule.kit.state import State

if TYPE_CHECKING:
    from autosched.schedule.kit.trace import Instruction

LIMIT = 4096  # steps kept, the least recently used go; each holds what its instruction made anew, some 10 KB

Key = tuple[object, ...]
Handles = Mapping[RV, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Step:
    """A schedule after an instruction.

    Args:
        number: of this step.
        held: what the key of the first step names by address.
        instruction: as it was traced then.
        sources: where each of its handles was made: which instruction, which output.
        values: what its handles stand for.
        fields: the parts of the schedule.
    """

    number: int
    held: object
    instruction: Instruction
    sources: Handles
    values: tuple[Any, ...]
    fields: tuple[Any, ...]


_STEPS: OrderedDict[Key, Step] = OrderedDict()
_NUMBERS = itertools.count()
_LOCK = Lock()


def forget() -> None:
    """Drops all that was kept."""
    with _LOCK:
        _STEPS.clear()


class Prefixes:
    """One replay's way along the prefixes that are known.

    Args:
        sch: a schedule.
        stamp: of what the arguments of an instruction name, empty where they name nothing; None where it depends on more.
    """

    def __init__(self, sch: ScheduleBase, stamp: Callable[[Instruction], str | None]) -> None:
        self.sch = sch
        self.stamp = stamp
        self.handles: dict[RV, tuple[int, int]] = {}  # where each handle of the trace was made
        self.made: dict[RV, tuple[int, int]] = {}  # and each of the schedule
        self.held = tuple(s.func for s in sch._states.values())
        self.at: Key | None = None
        if not sch.trace.insts and not sch._symbols and not sch._depth:
            # What was taken on trust is nothing that a replay with all checks may begin with.
            trusted = tuple(s.trusted for s in sch._states.values())
            self.at = (*map(id, self.held), *trusted, *sch._states, sch._working_on)

    def skip(self, insts: Sequence[Instruction], rv_map: dict[RV, RV]) -> int:
        """Takes over as many first instructions as are known, and returns how many.

        Args:
            insts: the trace.
            rv_map: gains the handles of this schedule for those of the trace.
        """
        last: Step | None = None
        mine: list[tuple[RV | None, ...]] = []
        count = 0
        with _LOCK:
            for inst in insts:
                key = self._key(inst, count)
                step = None if key is None else _STEPS.get(key)
                if step is None or key is None:
                    break
                _STEPS.move_to_end(key)
                outputs = tuple(self._handle(rv, value) for rv, value in zip(inst.outputs, step.values))
                self._enter(inst, outputs, count, step)
                rv_map.update((old, new) for old, new in zip(inst.outputs, outputs) if old is not None and new is not None)
                made = step.instruction
                taken = {rv: mine[i][k] for rv, (i, k) in step.sources.items()}
                args = {k: moved(v, taken) for k, v in made.args.items()}
                mine.append(outputs)
                self.sch.trace.append(type(made)(made.op, args, outputs, made.decision, made.stamp))
                last, count = step, count + 1
        if last is not None:
            sch = self.sch
            states, affine, lineage = last.fields
            sch._states, sch._affine, sch._lineage = dict(states), set(affine), lineage.copy()
        return count

    def keep(self, inst: Instruction, position: int, outputs: Sequence[RV | None]) -> None:
        """Keeps the schedule as it is now, after an instruction of the trace.

        Args:
            inst: the instruction.
            position: its place in the trace.
            outputs: the handles that it gave.
        """
        key = self._key(inst, position)
        sch = self.sch
        insts = sch.trace.insts
        if key is None or len(insts) != position + 1 or insts[-1].op != inst.op:
            self.at = None
            return
        values = tuple(None if rv is None else sch._symbols[rv] for rv in outputs)
        # Without their tables: most of what is kept is never continued.
        states = {name: State(state.func, state.trusted) for name, state in sch._states.items()}
        fields = (states, set(sch._affine), sch._lineage.copy())
        sources = {rv: self.made[rv] for rv in insts[-1].inputs}
        step = Step(next(_NUMBERS), self.held, insts[-1], sources, values, fields)
        with _LOCK:
            _STEPS[key] = step
            while len(_STEPS) > LIMIT:
                _STEPS.popitem(last=False)
        self._enter(inst, outputs, position, step)

    def _enter(self, inst: Instruction, outputs: Sequence[RV | None], position: int, step: Step) -> None:
        self.at = (step.number,)
        for k, (rv, own) in enumerate(zip(inst.outputs, outputs)):
            if rv is not None:
                self.handles[rv] = position, k
            if own is not None:
                self.made[own] = position, k

    def _key(self, inst: Instruction, position: int) -> Key | None:
        if self.at is None or inst.decision is not None:
            return None
        stamp = self.stamp(inst)
        if stamp is None or inst.stamp not in (None, stamp):
            return None
        args = frozen(inst.args, self.handles)
        return None if args is None else (*self.at, inst.op, len(inst.outputs), stamp, args)

    def _handle(self, rv: RV | None, value: Any) -> RV | None:
        make = {BlockRV: self.sch.block_rv, LoopRV: self.sch.loop_rv, ExprRV: self.sch.expr_rv}
        return None if rv is None else make[type(rv)](value)  # type: ignore[operator]


def moved(value: Any, handles: Mapping[RV, Any]) -> Any:
    """An argument with other handles for some."""
    if isinstance(value, RV):
        return handles.get(value, value)
    if isinstance(value, list):
        return [moved(v, handles) for v in value]
    if isinstance(value, tuple):
        return tuple(moved(v, handles) for v in value)
    if isinstance(value, dict):
        return {k: moved(v, handles) for k, v in value.items()}
    return value


def frozen(value: Any, handles: Handles) -> object:
    """An argument as a key, the same for all traces that say the same; None for one that is not plain data.

    Args:
        value: the argument.
        handles: where each handle was made.
    """
    kind = type(value)
    if kind is int or kind is str or kind is bool or kind is float:
        return kind.__name__, value
    if value is None:
        return ("none",)
    if isinstance(value, RV):
        return handles.get(value)
    if isinstance(value, Mapping):
        parts = [frozen(k, handles) for k in value] + [frozen(v, handles) for v in value.values()]
    elif isinstance(value, list | tuple):
        parts = [frozen(v, handles) for v in value]
    elif isinstance(value, IndexMap):
        return "map", str(value.to_data())
    else:
        return None
    return None if any(p is None for p in parts) else (kind.__name__, *parts)
