"""Points of a space by their decisions, and what holds for points of any rule: for tests of a rule's columns."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import numpy as np

from autosched.ir.stmt import PrimFunc
from autosched.measure import Candidate, Result, measure
from autosched.workloads import workload
from space import Space
from space.rules.cuts import values


def run(space: Space, name: str | PrimFunc, point: np.ndarray, execute: bool = False) -> Result:
    """A point's schedule of a workload or a program, measured."""
    return measure(Candidate(name, space.target, tuple(space.trace(point).as_json())), execute=execute)


def cut(space: Space, axis: str, size: int) -> int:
    """The value of a column that cuts, or that tiles the first part."""
    nest = space.sketches[0].models[0].nest
    return values(space.sketches[0].models[0])[[a.name for a in nest.axes].index(axis), size]


def settled(space: Space, **given: int) -> np.ndarray:
    """The point of the first sketch with some decisions, as far as they make sense together."""
    row = np.zeros((1, space.width), dtype=np.int32)
    row[:, space.places(0)] = space.sketches[0].default
    for column, value in given.items():
        row[:, space.names.index(column)] = value
    (point,), inside = space.repair(row)
    assert inside.all(), space.explain(point)
    return np.asarray(point, dtype=np.int32)


def deciding(space: Space, points: np.ndarray, columns: Collection[str]) -> np.ndarray:
    """Which points have another value than 0 in one of some columns."""
    return np.asarray((points[:, [n for n, c in enumerate(space.names) if c in columns]] > 0).any(axis=1))


@cache
def drawn(name: str, target: str, columns: tuple[str, ...], seed: int, count: int) -> tuple[Space, np.ndarray]:
    """A space, and those of so many points of it that have another value than 0 in one of some columns."""
    space = Space(workload(name).func, target)
    points = space.sample(np.random.default_rng(seed), count)
    return space, points[deciding(space, points, columns)]


def within_bounds(space: Space, name: str | PrimFunc, points: np.ndarray, count: int) -> None:
    """Some of the points compute what the program says, in no fewer cycles than their bounds."""
    some = points[:: max(1, len(points) // count)][:count]
    assert len(some) == count
    for point in some:
        found = run(space, name, point, execute=True)
        assert found.ok and found.cycles is not None, (space.explain(point), found)
        assert max(space.machine_bound(), int(space.bound(point[None])[0])) <= found.cycles, space.explain(point)


def off(space: Space, name: str | PrimFunc, points: np.ndarray) -> np.ndarray:
    """By how much the estimate is too high, as a share of the cycles."""
    cycles = [run(space, name, p).cycles for p in points]
    return np.asarray(space.draft(points) / np.array(cycles, dtype=np.float64) - 1)


def error_of_lowest(space: Space, name: str, points: np.ndarray, count: int = 10) -> float:
    """By how much so many of the lowest estimates are off in the median, as a share of the cycles."""
    best = points[np.argsort(space.draft(points), kind="stable")[:count]]
    return float(np.median(np.abs(off(space, name, best))))


def no_twins(space: Space, name: str, points: np.ndarray, columns: Collection[str], count: int) -> None:
    """The points with the lowest estimates have programs of their own, which none has without these decisions."""
    some = points[np.argsort(space.draft(points), kind="stable")[:count]]
    own = [n for n, c in enumerate(space.names) if c in columns]
    plain, inside = space.repair(np.where(np.isin(np.arange(space.width), own), 0, some))
    programs = {run(space, name, p).program for p in some}
    assert len(programs) == len(some) and not programs & {run(space, name, p).program for p in plain[inside]}
