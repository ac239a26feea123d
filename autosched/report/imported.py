"""Schedules that AutoTVM found, as points of our space: what theirs takes on this machine, what ours takes, and the bound.

The knobs of VTA's templates are tiles of the output and of the input channels, and virtual threads. Tiles are the same decision
here; a thread is a second bank of every buffer. What the templates fix is fixed likewise: rows outside of channels outside of
columns, every operand loaded once per tile of input channels, products with padding, the sum started by zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import AutoschedError, NotSupportedError, RecordError
from autosched.measure import Candidate, gap, measure
from autosched.records import Known, Log
from autosched.records.autotvm import Hardware, Tuned, read, spec_of
from autosched.records.reading import Fault
from autosched.search.journal import Journal
from autosched.target import Target
from autosched.workloads import Workload, names, workload
from space import VERSION, Space
from space.model import Model
from space.rule import Points

# What a template's knobs tile, by the names that workloads give axes, and the order of its loops over tiles, outermost first.
AXES = {
    "conv2d": {"tile_b": "n", "tile_h": "y", "tile_co": "co", "tile_w": "x", "tile_ci": "ci"},
    "dense": {"tile_b": "m", "tile_co": "n", "tile_ci": "k"},
}
THREADS = ("oc_nthread", "h_nthread")
NONE = "-"  # in place of a workload, where a line is no record


@dataclass(frozen=True)
class Imported:
    """What became of one record.

    Args:
        line: its number in the file.
        workload: what it is a schedule of; its template where there is no such workload.
        mine: whether it is for a machine like the target.
        theirs: cycles of its schedule on the target, or None.
        ours: cycles of the best schedule known otherwise, or None.
        bound: the machine's lower bound, or None.
        seconds: what AutoTVM measured on its board, or None.
        explain: the schedule in our words; or why there is none.
        point: its decisions; empty where there is none.
    """

    line: int
    workload: str
    mine: bool
    theirs: int | None
    ours: int | None
    bound: int | None
    seconds: float | None
    explain: str
    point: tuple[int, ...] = ()

    @property
    def gap(self) -> float | None:
        """How far their schedule is from the bound, relatively."""
        return gap(self.theirs, self.bound or 0)

    @property
    def our_gap(self) -> float | None:
        """How far ours is."""
        return gap(self.ours, self.bound or 0)


def bring_in(
    path: str | Path, target: Target, log: Log, known: Known, search: Callable[[Workload], int | None] | None = None
) -> Iterator[Imported]:
    """The records of a file, which is read at once, one by one; schedules of the target's machine are simulated and logged.

    Args:
        path: an AutoTVM log of version 0.2.
        target: the machine on which they are simulated.
        log: where they are written.
        known: where the best schedules otherwise are looked up; as it was before this file.
        search: finds a schedule of what is not known, and says its cycles.

    Raises:
        RecordError: the file cannot be read or holds no record, or the log cannot be written.
    """
    records = read(path)
    if not any(isinstance(record, Tuned) for record in records):
        why = f"; {records[0]}" if records else ""
        raise RecordError(f"{path} holds no record of AutoTVM, version 0.2{why}")
    return _each(records, Path(path).name, target, log, known, search)


def _each(
    records: list[Tuned | Fault], source: str, target: Target, log: Log, known: Known,
    search: Callable[[Workload], int | None] | None,
) -> Iterator[Imported]:
    mine = hardware_of(target)
    spelled = {workload(n, mine.batch, mine.block).spec: n for n in names()}
    ours: dict[str, int | None] = {}
    for record in records:
        if isinstance(record, Fault):
            yield Imported(record.line, NONE, False, None, None, None, None, record.reason)
            continue
        said = _elsewhere(record, mine)
        if said:
            yield _none(record, said, False)
            continue
        try:
            task = workload(spec_of(record), mine.batch, mine.block)
            task = workload(spelled.get(task.spec, task.name), mine.batch, mine.block)
        except AutoschedError as error:
            yield _none(record, str(error), True)
            continue
        if task.key not in ours:
            best = known.best(task.key, target.key())
            ours[task.key] = best.cycles if best is not None else search(task) if search is not None else None
        yield _brought(record, task, target, log, ours[task.key], source)


def hardware_of(target: Target) -> Hardware:
    """A target in the terms of AutoTVM's target strings."""
    c = target.config
    bits = 1 << c.LOG_INP_WIDTH, 1 << c.LOG_WGT_WIDTH, 1 << c.LOG_ACC_WIDTH
    buffers = c.LOG_UOP_BUFF_SIZE, c.LOG_INP_BUFF_SIZE, c.LOG_WGT_BUFF_SIZE, c.LOG_ACC_BUFF_SIZE
    return Hardware(c.batch, c.block_in, bits, buffers)


def _elsewhere(record: Tuned, mine: Hardware) -> str:
    """Why a record is none of this machine's, or nothing."""
    if record.hardware is None:
        return f"for another kind of machine: {record.target[:60]}"
    return "" if record.hardware == mine else f"for a VTA of {record.hardware}; this one is {mine}"


def _none(record: Tuned, why: str, mine: bool, name: str = "", bound: int | None = None, ours: int | None = None) -> Imported:
    return Imported(record.line, name or record.template, mine, None, ours, bound, record.seconds, why)


def _brought(record: Tuned, task: Workload, target: Target, log: Log, ours: int | None, source: str) -> Imported:
    try:
        space = Space(task.func, target)
        point, remarks = to_point(space, record)
    except AutoschedError as error:
        return _none(record, str(error), True, task.name, ours=ours)
    bound = space.machine_bound()
    if point is None:
        return _none(record, "; ".join(remarks), True, task.name, bound, ours)
    trace = tuple(space.trace(point).as_json())
    result = measure(Candidate(task, target, trace))
    decisions = tuple(int(n) for n in point)
    row = point[None]
    with Journal(log, task, target, VERSION, 0, 0, bound, {"import": source, "line": record.line}) as journal:
        journal.trial(0, decisions, result, int(space.bound(row)[0]), int(space.draft(row)[0]))
        if result.cycles is not None and result.program is not None:
            # Checked when it is used first, as every schedule that no run came to check.
            journal.incumbent(0, decisions, result.program, result.cycles, 0, trace)
    if result.cycles is None:
        return _none(record, f"{result.status}: {result.reason}", True, task.name, bound, ours)
    said = " | ".join([space.explain(point), *remarks])
    return Imported(record.line, task.name, True, result.cycles, ours, bound, record.seconds, said, decisions)


def to_point(space: Space, record: Tuned) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]] | None, list[str]]:
    """The point whose decisions are a record's, and what differs; None where the space has none that is near.

    Args:
        space: of the record's workload.
        record: the record.

    Raises:
        NotSupportedError: a knob that the templates do not have, or a value that does not divide its axis.
    """
    axes_of = AXES["dense" if record.template.startswith("dense") else "conv2d"]
    sketch = min(range(len(space.sketches)), key=lambda k: len(space.sketches[k].done))
    model = space.sketches[sketch].model
    axes = {axis.name: a for a, axis in enumerate(model.nest.axes)}
    wanted = {f"load_{o.name}": max(model.columns[model.index[f"load_{o.name}"]].choices) for o in model.nest.operands}
    if "g" in axes:
        wanted["tile_g"] = 1  # a tile of the templates stays inside a group
    for knob, value in record.knobs.items():
        if knob not in axes_of and knob not in THREADS:
            raise NotSupportedError(f"knob {knob} is none of {', '.join((*axes_of, *THREADS))}")
        axis = axes_of.get(knob)
        phases = {"y": "r", "x": "s"}.get(axis or "")
        if phases in axes:
            # Rows of a transposed convolution are an axis of whole strides and one inside, which the templates keep whole.
            value, left = divmod(value, model.nest.axes[axes[phases]].extent)
            if left or not value:
                raise NotSupportedError(f"{knob} holds no whole number of strides")
        if axis in axes:
            wanted[f"tile_{axis}"] = value
    threads = [knob for knob in THREADS if record.knobs.get(knob, 1) > 1]
    wanted |= {name: 1 + bool(threads) for name in model.index if name.startswith("banks_")}
    sequence = [axes[name] for axis in axes_of.values() for name in (("g", axis) if axis == "co" else (axis,)) if name in axes]
    wanted["order"] = _order(model, [a for a in sequence if a in model.nest.spatial])
    row: dict[str, int] = {c.name: c.default for c in model.columns}
    for name, value in wanted.items():
        choices = model.columns[model.index[name]].choices
        if value not in choices:
            raise NotSupportedError(f"{name.replace('_', ' ', 1)} of {value} is none of {', '.join(map(str, choices))}")
        row[name] = value
    remarks = ["two virtual threads along two axes, one pair of banks here"] if len(threads) > 1 else []
    for less in _fewer_banks(row):
        wide = np.zeros((1, space.width), dtype=np.int32)
        wide[0, 0] = sketch
        for name, value in less.items():
            wide[0, space.names.index(name)] = value
        repaired, inside = _repaired(space, wide)
        if inside:
            fewer = [name.removeprefix("banks_") for name in row if row[name] != less[name]]
            remarks += [f"one bank of {', '.join(fewer)}, two do not fit"] if fewer else []
            tiles = [name for name in row if name.startswith("tile_") and repaired[space.names.index(name)] != row[name]]
            remarks += [f"{', '.join(tiles)} not as recorded"] if tiles else []
            return repaired, remarks
    return None, ["its tiles do not fit the memories, or make a program that is too long"]


def _order(model: Model, sequence: list[int]) -> int:
    """The permutation that has some axes in a sequence; axes of extent 1 stand anywhere."""
    long = [a for a in sequence if model.nest.axes[a].extent > 1]
    return next(k for k, order in enumerate(model.orders) if [a for a in order if a in long] == long)


def _repaired(space: Space, wide: Points) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], bool]:
    rows, inside = space.repair(wide)
    return np.asarray(rows[0], dtype=np.int32), bool(inside[0])


def _fewer_banks(row: dict[str, int]) -> Iterator[dict[str, int]]:
    """A row, then the same with fewer second banks: an addend's first, the accumulator's, then all."""
    banks = [name for name in row if name.startswith("banks_") and row[name] > 1]
    yield row
    least: list[str] = [*(n for n in banks if n not in ("banks_acc", "banks_data", "banks_kernel", "banks_weight")), "banks_acc"]
    for n in range(1, len(least) + 1):
        yield {**row, **dict.fromkeys(least[:n], 1)}
    yield {**row, **dict.fromkeys(banks, 1)}


def as_json(found: Iterable[Imported]) -> list[dict[str, Any]]:
    """Rows as plain JSON values."""
    return [{"line": i.line, "workload": i.workload, "theirs": i.theirs, "ours": i.ours, "bound": i.bound, "gap": i.gap,
             "our_gap": i.our_gap,
             "seconds": i.seconds, "schedule" if i.theirs is not None else "reason": i.explain, "point": list(i.point)}
            for i in found]
