"""What single differences are worth: between two schedules decision by decision, between two machines field by field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autosched.errors import AutoschedError
from autosched.measure import Candidate, measure
from autosched.target import Target
from autosched.workloads import Workload
from sim.config import VTAConfig
from sim.errors import SimError
from space import Space

COSMETIC = ("TARGET", "HW_VER")  # fields that decide nothing


@dataclass(frozen=True)
class Step:
    """One difference between two things A and B.

    Args:
        what: the decision or the field.
        first: its value in A.
        second: its value in B.
        cycles: of A with this value of B, or None where there is no such schedule or machine.
        difference: cycles that this makes more; None likewise.
        others: what had to change with it.
        why: why there are no cycles, or empty.
    """

    what: str
    first: Any
    second: Any
    cycles: int | None
    difference: int | None
    others: tuple[str, ...] = ()
    why: str = ""


def decisions(task: Workload, target: Target, first: Sequence[int], second: Sequence[int], cycles: int) -> list[Step]:
    """Every decision in which two schedules differ, taken over into the first alone.

    Args:
        task: the workload of both.
        target: the machine of the first.
        first: the decisions of A, in this version of the space.
        second: those of B.
        cycles: of A.

    Returns:
        The differences, what saves most first.
    """
    space = Space(task.func, target)
    here, there = np.array(first, dtype=np.int32), np.array(second, dtype=np.int32)
    steps = []
    for column in np.flatnonzero(here != there):
        one = here.copy()
        one[column] = there[column]
        name, values = space.names[column], (int(here[column]), int(there[column]))
        rows, inside = space.repair(one[None])
        if not inside[0] or rows[0, column] != there[column]:
            steps.append(Step(name, *values, None, None, (), "not possible alone"))
            continue
        others = tuple(space.names[c] for c in np.flatnonzero(rows[0] != here) if c != column)
        result = measure(Candidate(task, target, tuple(space.trace(rows[0]).as_json())))
        difference = None if result.cycles is None else result.cycles - cycles
        steps.append(Step(name, *values, result.cycles, difference, others, result.reason))
    return _sorted(steps)


def machines(first: Target, second: Target, tasks: Iterable[tuple[Workload, tuple[dict[str, Any], ...], int]]) -> list[Step]:
    """Every field in which two machines differ, changed alone in the first: what its schedules then need together.

    Args:
        first: the machine A.
        second: the machine B.
        tasks: workloads, with a trace each and its cycles on A.

    Returns:
        The differences, what saves most first. A field that an instruction's program does not show is worth 0; where there is no
        workload, nothing is known to be.
    """
    known = list(tasks)
    total = sum(cycles for *_, cycles in known)
    one, two = first.config.to_json(), second.config.to_json()
    steps = []
    for name in one:
        if one[name] == two[name] or name in COSMETIC:
            continue
        try:
            config = VTAConfig.from_json({**one, name: two[name]})
            changed = replace(first, name=f"{first.name} with {name}", config=config)
            steps.append(_on(changed, name, (one[name], two[name]), known, total))
        except (AutoschedError, SimError) as error:
            steps.append(Step(name, one[name], two[name], None, None, (), str(error).split("\n")[0]))
    if first.semantics != second.semantics:
        changed = replace(first, name=f"{first.name} with semantics", semantics=second.semantics)
        steps.append(_on(changed, "semantics", (first.semantics, second.semantics), known, total))
    return _sorted(steps)


def _on(target: Target, name: str, values: tuple[Any, Any], tasks: list[tuple[Workload, Any, int]], total: int) -> Step:
    if not tasks:
        return Step(name, *values, None, None, (), "nothing is logged")
    cycles = 0
    for task, trace, _ in tasks:
        result = measure(Candidate(task, target, trace))
        if result.cycles is None:
            return Step(name, *values, None, None, (), f"{task.name}: {result.status}: {result.reason}")
        cycles += result.cycles
    return Step(name, *values, cycles, cycles - total)


def _sorted(steps: list[Step]) -> list[Step]:
    return sorted(steps, key=lambda s: (s.difference is None, s.difference or 0, s.what))
