"""Schedules made by random primitives, and not by the space, against the space: what it has not got, and whether that is better.

    python tests/oracles/rivals.py [NAME ...] [--count 200] [--seed 0] [--target vta-de10]

Each is measured like a candidate. None may be below the machine bound. Of those that need fewer cycles than the best of the
points that the space drafts, it is said whether they are one of its points, and else at which step they leave it.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    "dense:m=1,k=64,n=64,bias=0,tail=cast", "dense:m=3,k=96,n=32", "dense:m=6,k=32,n=96", "conv2d:h=7,w=6,ci=32,co=32,k=3,pad=1",
    "conv2d:h=8,w=8,ci=16,co=64,k=1,stride=2", "conv2d:h=5,w=8,ci=48,co=16,k=3,tail=cast,bias=0",
)
SAMPLED = 4000  # points of the space
DRAFTED = 24  # of these are measured: those with the lowest estimates


@dataclass
class Found:
    """What became of the schedules of one program.

    Args:
        name: of the program.
        best: cycles of the space's best point of those measured.
        bound: of the machine.
        counts: how many were refused, of which kind, and how many ran.
        below: cycles of those below the machine bound, of which there must be none.
        faster: cycles of those that beat the space's best, and where each is in the space or leaves it.
    """

    name: str
    best: int
    bound: int
    counts: Counter[str] = field(default_factory=Counter)
    below: list[int] = field(default_factory=list)
    faster: list[tuple[int, str]] = field(default_factory=list)


def against(name: str, count: int, seed: int, target: str = "vta-de10") -> Found:
    """Random schedules of one program against its space.

    Args:
        name: a named matrix product or convolution.
        count: how many schedules.
        seed: of the schedules and of the points.
        target: the machine.
    """
    import vta_schedules

    from autosched.errors import AutoschedError, ProgramError
    from autosched.measure import Candidate, measure
    from autosched.workloads import workload
    from space import Space

    rng = np.random.default_rng(seed)

    def choose(options: Sequence[Any]) -> Any:
        return options[int(rng.integers(len(options)))]

    space = Space(workload(name).func, target)
    points = space.sample(rng, SAMPLED)
    drafted = points[np.argsort(space.draft(points), kind="stable")[:DRAFTED]]
    results = [measure(Candidate(name, target, tuple(space.trace(p).as_json()))) for p in drafted]
    found = Found(name, min(r.cycles for r in results if r.cycles is not None), space.machine_bound())
    make = vta_schedules.conv2d if name.startswith("conv2d") else vta_schedules.dense
    for _ in range(count):
        try:
            sch = make(choose, name)
        except AutoschedError as error:
            found.counts[f"refused by a primitive ({getattr(error, 'code', '')})"] += 1
            continue
        result = measure(Candidate(name, target, tuple(sch.trace.as_json())))
        if result.cycles is None:
            found.counts[f"refused by lowering ({result.reason.partition(':')[0]})"] += 1
            continue
        found.counts["ran"] += 1
        found.below += [result.cycles] * (result.cycles < found.bound)
        if result.cycles < found.best:
            try:
                where = space.explain(space.point_of(sch))
            except ProgramError as error:
                where = f"outside: {error}"
            found.faster.append((result.cycles, where))
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="vta-de10")
    args = parser.parse_args()
    bad = 0
    warnings.simplefilter("ignore")  # of banks that nothing refills
    for name in args.names or NAMES:
        found = against(name, args.count, args.seed, args.target)
        print(f"{name}: bound {found.bound}, best of {DRAFTED} points {found.best}, {len(found.faster)} faster of "
              f"{found.counts['ran']}; " + ", ".join(f"{n} {kind}" for kind, n in found.counts.most_common() if kind != "ran"))
        for cycles, where in sorted(found.faster)[:5]:
            print(f"    {cycles}  {where}")
        bad += len(found.below)
        for cycles in found.below:
            print(f"    BELOW THE BOUND: {cycles}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "oracles")]
    sys.exit(main())
