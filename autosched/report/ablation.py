"""What every decision of a schedule is worth: each is changed alone, and simulated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.errors import LoweringError, ProgramError, ScheduleError
from autosched.kernel import build
from autosched.measure import Candidate, measure
from autosched.records import BestRecord
from autosched.schedule import Trace
from autosched.search.pool import MeasurePool
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
        tried: alternatives with known cycles, or none after a simulation.
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

    The numbers of another version mean something else; its trace may still be that of a point of this one, or give its program.

    Args:
        space: of the record's workload on its target.
        record: the schedule.

    Returns:
        The point and nothing, or no point and the reason in a sentence.
    """
    # What another version meant by the numbers is not known, but this one may mean the very schedule by them, or by them and
    # what rules have got to decide since.
    for point in members(space, [record.point, space.grown(record.point, record.space)]):
        meant = record.space == VERSION
        if point and (meant or tuple(space.trace(np.array(point, dtype=np.int32)).as_json()) == tuple(record.trace)):
            return point, ""
    found, why = placed(space, list(record.trace), record.program)
    if why:
        if record.space == VERSION:
            return (), f"what it says is no point of the space, and no point has its trace ({why})"
        old = f"the schedule is of version {record.space} of the space"
        return (), f"{old}, and in version {VERSION} no point has its trace ({why})"
    return found, ""


def members(space: Space, points: Sequence[tuple[int, ...]]) -> list[tuple[int, ...] | None]:
    """Logged points as the space has them now; None for numbers that are no point of it.

    Args:
        space: of the workload that they are logged for.
        points: as logged.
    """
    # Forms that a program has got since stand behind the others, and so do their columns.
    filled = [(*point, *[0] * (space.width - len(point))) if point else () for point in points]
    usable = [n for n, point in enumerate(filled) if len(point) == space.width]
    found: list[tuple[int, ...] | None] = [None] * len(filled)
    if usable:
        rows = np.array([filled[n] for n in usable], dtype=np.int32)
        for n, valid in zip(usable, space.valid(rows).tolist()):
            found[n] = filled[n] if valid else None
    return found


def placed(space: Space, trace: list[Any], program: str | None) -> tuple[tuple[int, ...], str]:
    """The decisions of a schedule, wherever it comes from, and why there are none.

    Args:
        space: of its workload on a target.
        trace: its steps, as JSON objects.
        program: the hash of its program.

    Returns:
        The point and nothing, or no point and the steps that are in the way.
    """
    try:
        point = space.point_of(Trace.from_json(trace), anyhow=True)
        made = build(space.func, space.target, space.trace(point)).hash
    except (ProgramError, ScheduleError, LoweringError) as error:
        # Steps of another machine's schedule can be followed to decisions that do not fit this one.
        return (), str(error)
    if program != made:
        return (), "the nearest point has another program"
    return tuple(point.tolist()), ""


def ablate(
    task: Workload, target: Target, point: Iterable[int], cycles: int, most: int = ALTERNATIVES,
    logged: Mapping[tuple[int, ...], int] | None = None, pool: MeasurePool | None = None,
) -> list[Change]:
    """Changes every decision of a point alone.

    Args:
        task: the workload.
        target: the machine.
        point: the decisions, in this version of the space.
        cycles: of the point.
        most: alternatives of a decision that are simulated, those with the lowest estimates; what is logged comes on top.
        logged: cycles of points that need no simulation.
        pool: where candidates are simulated; this process where there is none.

    Returns:
        The decisions that have alternatives, the dearest to change first.
    """
    space = Space(task.func, target)
    here = np.array(list(point), dtype=np.int32)
    near = space.neighbours(here)
    drafts = space.draft(near) if len(near) else np.zeros(0)
    changed = near != here
    sizes = changed.sum(axis=1)
    known: dict[int, int | None] = {n: c for n, row in enumerate(near) if (c := (logged or {}).get(tuple(row.tolist())))}
    tried: dict[int, list[int]] = {}
    for column in np.flatnonzero(changed.any(axis=0)).tolist():
        # Alone where the space allows it, else with as few others as possible.
        with_it = np.flatnonzero(changed[:, column])
        rows = sorted(with_it[sizes[with_it] == sizes[with_it].min()].tolist(), key=lambda n: (float(drafts[n]), n))
        tried[column] = rows[:most] + [n for n in rows[most:] if n in known]
    missing = sorted({n for rows in tried.values() for n in rows} - known.keys())
    candidates = [Candidate(task, target, tuple(space.trace(near[n]).as_json())) for n in missing]
    results = map(measure, candidates) if pool is None else pool.run(candidates)
    known.update((n, result.cycles) for n, result in zip(missing, results, strict=True))
    changes = []
    for column, rows in tried.items():
        measured = [(c, n) for n in rows if (c := known[n]) is not None]
        best, n = min(measured, default=(None, -1))
        others = tuple(space.names[c] for c in np.flatnonzero(changed[n]) if c != column) if measured else ()
        changes.append(Change(
            space.names[column], others, int(here[column]), None if best is None else int(near[n][column]), best,
            None if best is None else best - cycles, len(rows)))
    return sorted(changes, key=lambda c: (c.difference is None, -(c.difference or 0), c.decision))
