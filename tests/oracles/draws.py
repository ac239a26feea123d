"""Random points of many spaces against lowering, the race checker, the bounds and the interpreter.

    python tests/oracles/draws.py [NAME ...] [--count 100000] [--seed 0] [--execute 0.02] [--targets vta-de10,...]

NAME is a named workload, its full spelling, or a file of ``tests/data/programs``; without any, all of them are drawn from. Round
after round every program gives the same number of points, on one target after the other, until ``count`` have been drawn.

* A point that the space accepts must lower, run in no fewer cycles than its bound and the machine's, and have no race; a share of
  them is executed and compared with the interpreter.
* A row of decisions that the space refuses must fail in lowering, or have a twin in the space with the same program. What does
  neither is a legal program that the space has not got: it is counted by what refused it, and shown where it needs fewer cycles
  than the best point drawn of its program in that round.

Exit code 1 if an accepted point failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "data" / "programs"
TARGETS = ("vta-de10", "vta-de10-portable", "vta-pynq", "vta-fsim")
REFUSED = 0.1  # rows that the space refuses, for every point that it accepts

if TYPE_CHECKING:
    from autosched.schedule import Trace
    from autosched.workloads import Workload
    from space import Space

Point = npt.NDArray[np.int32]


@dataclass
class Tally:
    """What came of a program's draws.

    Args:
        drawn: accepted points.
        executed: of them.
        faults: what is wrong with accepted points, one line each.
        refused: rows that the space refuses, by what became of them.
        faster: rows that are refused, lower, and beat every accepted point drawn, one line each.
    """

    drawn: int = 0
    executed: int = 0
    faults: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    faster: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Counts another one in."""
        self.drawn += other.drawn
        self.executed += other.executed
        self.faults += other.faults
        self.refused += other.refused
        self.faster += other.faster


def everything() -> list[str]:
    """All named workloads, and the programs of users that are accepted."""
    from autosched.workloads import names

    recorded = json.loads((FOLDER / "today.json").read_text())
    return [*names(), *(n for n, row in recorded.items() if row["state"] == "accepted")]


def task_of(name: str, target: str) -> Workload:
    """The workload of a name, laid out for a target."""
    from autosched.kernel import resolve
    from autosched.target import get_target

    return resolve(f"{FOLDER / name}.py:main" if (FOLDER / f"{name}.py").exists() else name, get_target(target))


def judged(task: Workload, space: Space, trace: Trace, execute: bool = False) -> tuple[str, str | None, int | None]:
    """(what is wrong or nothing, the program's hash, its cycles) of one schedule."""
    from autosched.kernel import program_hash, replay
    from autosched.lower import lower_table
    from autosched.measure import Candidate, measure
    from sim.races import check_races

    if execute:
        result = measure(Candidate(task, space.target, tuple(trace.as_json())), execute=True, wide=True)
        return "" if result.ok else f"{result.status}: {result.reason}", result.program, result.cycles
    lowered = lower_table(replay(task.func, trace, "fast").func, space.target)
    races = check_races(lowered.program(), space.target.semantics)
    return f"race: {races[0]}" if races else "", program_hash(lowered), lowered.cycles()


def accepted(task: Workload, space: Space, points: Sequence[Point], share: float, rng: np.random.Generator) -> tuple[Tally, int]:
    """What is wrong with accepted points; the fewest cycles of any.

    Args:
        task: the program.
        space: of it.
        points: of the space.
        share: of them are executed.
        rng: says which.
    """
    from autosched.errors import AutoschedError

    tally, least, machine = Tally(), 1 << 62, space.machine_bound()
    bounds = space.bound(np.stack(points)) if len(points) else []
    for point, bound in zip(points, bounds):
        execute = bool(rng.random() < share)
        tally.drawn, tally.executed = tally.drawn + 1, tally.executed + execute
        try:
            fault, _, cycles = judged(task, space, space.trace(point), execute)
        except AutoschedError as error:
            fault, cycles = " ".join(f"{type(error).__name__}: {error}".split())[:300], None
        if cycles is not None and cycles < max(bound, machine):
            fault = f"{cycles} cycles, below the bound of {bound} or the machine's of {machine}"
        if fault:
            tally.faults.append(f"{task.name} {space.target.name} {point.tolist()}: {space.explain(point)}: {fault}")
        least = min(least, cycles or least)
    return tally, least


def refused(task: Workload, space: Space, rows: npt.NDArray[np.int32], least: int) -> Tally:
    """What becomes of rows that the space refuses.

    Args:
        task: the program.
        space: of it.
        rows: of decisions, none of them a point.
        least: fewest cycles of any accepted point.
    """
    from autosched.errors import AutoschedError

    tally = Tally()
    tidy, inside = space.repair(rows)
    for row, twin, has_twin in zip(rows, tidy, inside):
        # What stands for itself is judged by the rules and the memories; of the others only the twin says something.
        who = refuser(space, row) if (space.repair(row[None])[0][0] == row).all() else "twin"
        try:
            trace = space.trace(row)
        except Exception:  # noqa: BLE001 (what a rule forbids need not have a meaning)
            tally.refused[f"{who}: no schedule"] += 1
            continue
        try:
            fault, program, cycles = judged(task, space, trace)
        except AutoschedError as error:
            tally.refused[f"{who}: fails ({getattr(error, 'kind', getattr(error, 'code', 'other'))})"] += 1
            continue
        if fault:
            tally.refused[f"{who}: races"] += 1
            continue
        if has_twin and judged(task, space, space.trace(twin))[1] == program:
            tally.refused[f"{who}: twin"] += 1
            continue
        tally.refused[f"{who}: lowers"] += 1
        if cycles is not None and cycles < least:
            where = f"{task.name} {space.target.name} {row.tolist()}"
            tally.faster.append(f"{where}: {who}: {cycles} < {least}: {space.explain(row)}")
    return tally


def refuser(space: Space, row: Point) -> str:
    """Who refuses a row that repair leaves alone: a rule or the memories."""
    k = int(row[0])
    own = np.ascontiguousarray(row[None, space.places(k)])
    for model, mine in space.sketches[k].split(own):
        plan = model.plan(mine)
        for rule in model.rules:
            if not rule.allows(model, mine, plan)[0]:
                return rule.name
    return "capacity"


def rows_refused(space: Space, rng: np.random.Generator, n: int) -> npt.NDArray[np.int32]:
    """Rows of decisions that are no points: half of them drawn evenly, half points with one decision changed."""
    raw = space.draws(rng, 4 * n)
    near = space.sample(rng, n)
    if len(near):
        near = np.repeat(near, 2, axis=0)
        for row in near:
            k = int(row[0])
            at = int(rng.integers(len(space.places(k)))) if len(space.places(k)) else 0
            if len(space.places(k)):
                row[space.places(k)[at]] = rng.choice(space.sketches[k].columns[at].choices)
    found = []
    for some in (raw, near):
        if len(some):
            some = np.unique(some[~space.valid(some)], axis=0)
            found.append(some[rng.permutation(len(some))[: -(-n // 2)]])
    return np.concatenate(found)[:n] if found else raw[:0]


def round_of(name: str, target: str, each: int, seed: Sequence[int], share: float, known: set[bytes]) -> Tally | str:
    """One round of one program.

    Args:
        name: of the program.
        target: the machine.
        each: points to draw.
        seed: of what is drawn.
        share: of the points that are executed.
        known: points of this program and target that were drawn before; grows.

    Returns:
        What came of it, or why the program has no space on the target.
    """
    from autosched.errors import AutoschedError
    from space import Space
    from space.lowerable import require_lowerable

    rng = np.random.default_rng(list(seed))
    try:
        task = task_of(name, target)
        space = Space(task.func, target)
        require_lowerable(space)
    except AutoschedError as error:
        return " ".join(str(error).split())[:160]
    points = [p for p in space.sample(rng, each) if p.tobytes() not in known]
    known.update(p.tobytes() for p in points)
    tally, least = accepted(task, space, points, share, rng)
    tally.add(refused(task, space, rows_refused(space, rng, round(REFUSED * len(points))), least))
    return tally


def rounds(
    names: Sequence[str], targets: Sequence[str], each: int, seed: int, share: float
) -> Iterator[tuple[str, str, Tally | str]]:
    """Rounds without end: each program in turn, on one target a round; ends when no program has a new point."""
    known: dict[tuple[str, str], set[bytes]] = {}
    idle = turn = 0
    while idle < len(names) * len(targets):
        for n, name in enumerate(names):
            target = targets[turn % len(targets)]
            found = round_of(name, target, each, (seed, turn, n), share, known.setdefault((name, target), set()))
            idle = 0 if isinstance(found, Tally) and found.drawn else idle + 1
            yield name, target, found
        turn += 1


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--each", type=int, default=100, help="points of a program in a round")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--execute", type=float, default=0.02, help="share of points that are executed")
    parser.add_argument("--targets", default=",".join(TARGETS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    total, began = Tally(), time.monotonic()
    names, targets = args.names or everything(), args.targets.split(",")
    for name, target, found in rounds(names, targets, args.each, args.seed, args.execute):
        if isinstance(found, str):
            print(f"{name:28} {target:18} none: {found}", flush=True)
            continue
        total.add(found)
        print(f"{name:28} {target:18} {found.drawn:5} points {len(found.faults):3} faults {sum(found.refused.values()):5} "
              f"refused {len(found.faster):3} faster; {total.drawn} in {time.monotonic() - began:.0f} s", flush=True)
        for line in (*found.faults, *found.faster):
            print(f"  ! {line}", flush=True)
        if total.drawn >= args.count:
            break
    refusals = sum(total.refused.values())
    print(f"{total.drawn} points, {total.executed} executed, {len(total.faults)} faults; {refusals} refused rows:")
    for what, n in sorted(total.refused.items()):
        print(f"  {n:7} {what}")
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
