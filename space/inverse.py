"""From a schedule back to the point that makes it.

A trace says what was decided, step by step, but not by which columns. So points are changed one decision at a time, or two, for
as long as their traces agree with the given one further; what is found has that very trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autosched.errors import ProgramError
from autosched.schedule.kit.trace import Trace
from space.plan import Mask
from space.rule import Points

if TYPE_CHECKING:
    from space.space import Space

Point = npt.NDArray[np.int32]
Steps = Sequence[Mapping[str, Any]]
FEW = 12  # choices of a column that is tried with any other
MOST = 4096  # combinations of decisions that are tried together


def point_of(space: Space, trace: Trace) -> Point:
    """The point of a space with a trace.

    Args:
        space: of the program that the trace is of.
        trace: of a schedule.

    Raises:
        ProgramError: no form of the program begins like the trace, or no point was found that agrees with it to the end: the
            first step that is in the way, and the nearest point.
    """
    wanted = _steps(trace)
    forms = []
    for k, sketch in enumerate(space.sketches):
        agreed = _agree(_steps(sketch.prefix), wanted)
        if agreed == len(sketch.prefix.insts):
            forms.append((agreed, k))
    if not forms:
        raise ProgramError(f"{space.func.name} is brought into another form than any of the space's: {_step(wanted, 0)}")
    best: tuple[int, Point] | None = None
    for _, k in sorted(forms, reverse=True):
        found = _climb(space, k, wanted)
        if found[0] > len(wanted):
            # Columns that change nothing may still hold what other points need.
            tidy, inside = space.repair(found[1][None])
            return np.asarray(tidy[0] if inside[0] and _steps(space.trace(tidy[0])) == wanted else found[1], dtype=np.int32)
        best = found if best is None or found[0] > best[0] else best
    assert best is not None
    reached, point = best
    raise ProgramError(
        f"no point of the space is known to have step {reached} of {len(wanted)}: {_step(wanted, reached)}; nearest is "
        f"{space.explain(point)}"
    )


def _climb(space: Space, sketch: int, wanted: Steps) -> tuple[int, Point]:
    """The row of a sketch that agrees furthest, and how far: one more than the steps where nothing else follows."""
    known: dict[bytes, int] = {}

    def reach(row: Point) -> int:
        key = row.tobytes()
        if key not in known:
            made = _steps(space.trace(row))
            agreed = _agree(made, wanted)
            known[key] = agreed + (agreed == len(wanted) == len(made))
        return known[key]

    row = space.repair(_default(space, sketch)[None])[0][0]
    far = reach(row)
    while far <= len(wanted):
        for trial in _changed(space, sketch, row):
            now = reach(trial)
            if now > far:
                row, far = trial, now
                break
        else:
            break
    return far, row


def _default(space: Space, sketch: int) -> Point:
    row = np.zeros(space.width, dtype=np.int32)
    row[0] = sketch
    row[space.places(sketch)] = space.sketches[sketch].default
    return row


def _changed(space: Space, sketch: int, row: Point) -> Iterator[Point]:
    """The row with one decision changed, then with several that go together."""
    columns = list(zip(space.places(sketch).tolist(), space.sketches[sketch].columns))
    for at, column in columns:
        yield from _distinct(space, row, [{at: value} for value in column.choices if value != row[at]])
    for group in _together(space, sketch):
        values = [space.sketches[sketch].columns[n].choices for n in group]
        while prod(map(len, values)) > MOST:
            # Of the longest list of choices every other one.
            longest = max(values, key=len)
            values = [v[::2] if v is longest else v for v in values]
        yield from _distinct(space, row, [dict(zip((columns[n][0] for n in group), v)) for v in product(*values)])


def _together(space: Space, sketch: int) -> Iterator[list[int]]:
    """Columns that show in a trace only together, by their positions in the sketch.

    Such are a load inside a reduction's loops and how that is tiled, and the order of loops that there are.
    """
    start = 0
    for model in space.sketches[sketch].models:
        at = {name: start + n for name, n in model.index.items()}
        reduce = [model.nest.axes[a].name for a in model.nest.reduce if model.nest.axes[a].extent > 1]
        tiles = [f"tile_{model.nest.axes[a].name}" for a in model.nest.spatial if model.nest.axes[a].extent > 1]
        sums = [[name for name in at if name.endswith(f"_{r}")] for r in reduce]
        for tile in tiles:
            for more in ((), ("tail",), ("tail", "tail_last")):
                yield [at[n] for n in (tile, "order", *more) if n in at]
        for operand in model.nest.operands:
            own = [f"load_{operand.label}", f"keep_{operand.label}"]
            yield [at[n] for n in own if n in at]
            for r in range(len(reduce)):
                yield [at[n] for n in (*own, *sums[r]) if n in at]
            yield [at[n] for n in (*own, *(f"tile_{r}" for r in reduce)) if n in at]
            yield [at[n] for n in (own[0], *(n for one in sums for n in one if not n.startswith("tile_"))) if n in at]
        yield from ([one, other] for one, other in combinations([n for name, n in at.items() if len(
            model.columns[model.index[name]].choices) <= FEW], 2))
        yield [at[n] for n in (*tiles, "order") if n in at]
        yield [at[n] for n in ("cut", "cut_again") if n in at]
        start += len(model.columns)


def _distinct(space: Space, row: Point, changes: Sequence[Mapping[int, int]]) -> Iterator[Point]:
    if not changes:
        return
    rows = np.repeat(row[None], len(changes), axis=0)
    for n, change in enumerate(changes):
        for at, value in change.items():
            rows[n, at] = value
    seen = {row.tobytes()}
    raw = _loose(space, int(row[0]))
    tidy = space.repair(rows)[0]
    tidy[:, raw] = rows[:, raw]
    rows = tidy
    for trial in rows[_buildable(space, rows)]:
        if trial.tobytes() not in seen:
            seen.add(trial.tobytes())
            yield trial


def _loose(space: Space, sketch: int) -> list[int]:
    """Columns that only another one makes sense of, and that are set before it: how reductions are tiled for their loads."""
    found = []
    places = iter(space.places(sketch).tolist())
    for model in space.sketches[sketch].models:
        ends = tuple(f"_{model.nest.axes[a].name}" for a in model.nest.reduce)
        found += [at for column, at in zip(model.columns, places) if column.name.endswith(ends)]
    return found


def _buildable(space: Space, rows: Points) -> Mask:
    """Rows that rules allow, whether they fit the memories or not: a trace can be written of those."""
    ok = np.ones(len(rows), dtype=np.bool_)
    sketch = int(rows[0, 0])
    for model, own in space.sketches[sketch].split(np.ascontiguousarray(rows[:, space.places(sketch)])):
        plan = model.plan(own)
        for rule in model.rules:
            ok &= rule.allows(model, own, plan)
    return ok


def _steps(trace: Trace) -> Steps:
    """The steps of a trace, without what applying them has filled in."""
    return [{"op": step["op"], "in": step["in"], "out": step["out"],
             "args": {k: v for k, v in step["args"].items() if v is not None and k != "func_name"}}
            for step in trace.as_json(remove_postproc=True)]


def _agree(made: Steps, wanted: Steps) -> int:
    """How many steps two traces have in common from the beginning."""
    for n, (a, b) in enumerate(zip(made, wanted)):
        if a != b:
            return n
    return min(len(made), len(wanted))


def _step(wanted: Steps, at: int) -> str:
    """A step in words."""
    if at >= len(wanted):
        return "its end"
    step = wanted[at]
    given = {**step.get("in", {}), **step.get("args", {})}
    return f"{step['op']}({', '.join(f'{k}={v}' for k, v in given.items() if v is not None)})"
