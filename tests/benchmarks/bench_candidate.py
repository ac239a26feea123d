"""What one candidate costs, from a point to its cycles: ``python tests/benchmarks/bench_candidate.py [WORKLOAD ...]``.

One core, warm kernels; minimum, median and maximum over points drawn at random and by the draft. The limits that the project
sets itself for resnet18.c2: 100 ms from trace to cycles, of which 50 ms for lowering and timing.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sim
from autosched.lower import lower, warm
from autosched.search.proposer import Proposer
from autosched.workloads import workload
from sim import timing
from space import Space


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.process_time()
    value = call()
    return value, (time.process_time() - begun) * 1e3


def row(name: str, repeats: int = 24) -> list[str]:
    space = Space(workload(name).func, "vta-de10")
    proposer = Proposer(space, 0)
    points = [*proposer.batch(repeats // 2), *space.sample(np.random.default_rng(0), repeats // 2)]
    parts: dict[str, list[float]] = {"emit": [], "replay": [], "lower": [], "time": [], "all": []}
    instructions = []
    for point in points:
        _, emit = timed(lambda p=point: space.trace(p))
        sch, replay = timed(lambda p=point: space.schedule(p))
        lowered, low = timed(lambda s=sch: lower(s.func, space.target))
        _, tick = timed(lambda x=lowered: timing.cycles(x.table, x.config, insn_address=x.insn_address))
        for key, value in zip(parts, (emit, replay, low, tick, replay + low + tick)):
            parts[key].append(value)
        instructions.append(len(lowered.table))
    cells = [f"{min(v):7.2f} {statistics.median(v):7.2f} {max(v):7.2f}" for v in parts.values()]
    return [f"{name:14}", f"{statistics.median(instructions):8.0f}", *cells]


def main() -> None:
    sim.warm()
    warm()
    names = sys.argv[1:] or ["resnet18.c2", "resnet18.c5", "resnet18.c8", "resnet18.c10", "resnet18.c11", "t3"]
    row(names[0], 4)
    print("CPU milliseconds per candidate: minimum, median, maximum")
    print(f"{'workload':14} {'insns':>8} {'emit':^23} {'replay':^23} {'lower':^23} {'timing':^23} {'trace to cycles':^23}")
    for name in names:
        print(" ".join(row(name)))


if __name__ == "__main__":
    main()
