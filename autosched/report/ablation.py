"""What every decision of a schedule is worth: each is changed alone, and simulated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from autosched.errors import ProgramError
from autosched.measure import Candidate, measure
from autosched.records import BestRecord
from autosched.schedule import Trace
from autosched.target import Target
from autosched.workloads import Workload
from space import VERSION, Space

ALTERNATIVES = 4  # per decision, by estimate


@dataclass(frozen=True)
class Change:
    """One decision, changed alone.

    Args:
        decision: name of its column.
        others: what had to change with it.
        value: what the schedule has.
        other: the best alternative that was tried.
        cycles: of the schedule with it, or None where no alternative is a schedule.
        difference: cycles that the change costs; negative where the alternative is better.
        tried: alternatives simulated.
    """

    decision: str
    others: tuple[str, ...]
    value: int
    other: int | None
    cycles: int | None
    difference: int | None
    tried: int


def decided(space: Space, record: BestRecord) -> tuple[tuple[int, ...], str]:
    """The decisions of a logged schedule in this version of the space, and why there are none.

    The numbers of another version mean something else; its trace may still be that of a point of this one.

    Args:
        space: of the record's workload on its target.
        record: the schedule.

    Returns:
        The point and nothing, or no point and the reason in a sentence.
    """
    if record.space == VERSION and record.point:
        return tuple(record.point), ""
    try:
        return tuple(space.point_of(Trace.from_json(list(record.trace))).tolist()), ""
    except ProgramError as error:
        old = f"the schedule is of version {record.space} of the space"
        return (), f"{old}, and in version {VERSION} no point has its trace ({error})"


def ablate(task: Workload, target: Target, point: Iterable[int], cycles: int, most: int = ALTERNATIVES) -> list[Change]:
    """Changes every decision of a point alone.

    Args:
        task: the workload.
        target: the machine.
        point: the decisions, in this version of the space.
        cycles: of the point.
        most: alternatives of a decision that are simulated, those with the lowest estimates.

    Returns:
        The decisions that have alternatives, the dearest to change first.
    """
    space = Space(task.func, target)
    here = np.array(list(point), dtype=np.int32)
    near = space.neighbours(here)
    drafts = space.draft(near) if len(near) else np.zeros(0)
    known: dict[int, int | None] = {}
    changes = []
    for column, name in enumerate(space.names):
        with_it = [n for n, row in enumerate(near) if row[column] != here[column]]
        if not with_it:
            continue
        # Alone where the space allows it, else with as few others as possible.
        fewest = min(int((near[n] != here).sum()) for n in with_it)
        rows = sorted((n for n in with_it if int((near[n] != here).sum()) == fewest), key=lambda n: (float(drafts[n]), n))[:most]
        for n in rows:
            if n not in known:
                known[n] = _cycles(space, task, target, near[n])
        measured = [(c, n) for n in rows if (c := known[n]) is not None]
        if not measured:
            changes.append(Change(name, (), int(here[column]), None, None, None, len(rows)))
            continue
        best, n = min(measured)
        others = tuple(space.names[c] for c in np.flatnonzero(near[n] != here) if c != column)
        changes.append(Change(name, others, int(here[column]), int(near[n][column]), best, best - cycles, len(rows)))
    return sorted(changes, key=lambda c: (c.difference is None, -(c.difference or 0), c.decision))


def _cycles(space: Space, task: Workload, target: Target, point: np.ndarray[tuple[int], np.dtype[np.int32]]) -> int | None:
    return measure(Candidate(task, target, tuple(space.trace(point).as_json()))).cycles
