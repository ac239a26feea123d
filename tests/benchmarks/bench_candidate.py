"""What one candidate costs, from a trace to its cycles: ``python tests/benchmarks/bench_candidate.py [WORKLOAD ...]``.

CPU milliseconds on one core, warm kernels: median and maximum over points drawn at random and by the draft, for replaying the
trace, lowering, hashing, timing, and all of it (with the counters of a result). As in a search, what traces share is replayed
once, and what only proves steps legal is left out (where the checkout knows how). ``--traces FILE`` takes traces from a file
instead, ``{workload: [trace, ...]}`` in JSON, and ``--save FILE`` writes such a file. ``--against TREE`` measures the same traces
with the packages of another checkout, in a process of its own right after this one, and prints both with what became of the
cycles.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

YOUNG, OLDER = 5_000, 1_000  # how seldom Python looks for cyclic garbage, in trees of any age
Traces = dict[str, list[list[dict[str, Any]]]]
Costs = dict[str, dict[str, list[float]]]
STAGES = ("replay", "lower", "hash", "time", "all")
NAMES = ["resnet18.c2", "resnet18.c5", "resnet18.c8", "resnet18.c10", "resnet18.c11", "t3"]


def drawn(name: str, count: int) -> list[list[dict[str, Any]]]:
    """Traces of a workload's space, half of them chosen by the draft."""
    import numpy as np

    from autosched.search.proposer import Proposer
    from autosched.workloads import workload
    from space import Space

    space = Space(workload(name).func, "vta-de10")
    points = [*Proposer(space, 0).batch(count // 2), *space.sample(np.random.default_rng(0), count // 2)]
    return [space.trace(p).as_json() for p in points]


def measured(traces: Traces) -> Costs:
    """CPU milliseconds of each stage, and the cycles, per workload and trace."""
    import sim
    from autosched import kernel
    from autosched.errors import AutoschedError
    from autosched.kernel import program_hash, resolve
    from autosched.lower import lower_table, warm
    from autosched.measure.measure import statistics as counters
    from autosched.target import get_target

    sim.warm()
    warm()
    gc.set_threshold(YOUNG, OLDER, gc.get_threshold()[2])  # as in a worker
    target = get_target("vta-de10")
    # An older checkout has the checked replay alone.
    applied = partial(kernel.scheduled, check=False) if hasattr(kernel, "scheduled") else lambda *args: kernel.replay(*args).func
    found: Costs = {}
    for name, several in traces.items():
        task = resolve(name, target)
        costs: dict[str, list[float]] = {stage: [] for stage in (*STAGES, "cycles")}
        for count, trace in enumerate([several[0], *several]):
            marks = [time.thread_time()]
            try:
                func = applied(task.func, trace, "fast")
                marks.append(time.thread_time())
                lowered = lower_table(func, target)
                marks.append(time.thread_time())
                program_hash(lowered)
                marks.append(time.thread_time())
                cycles = float(lowered.cycles(None))
                marks.append(time.thread_time())
                counters(lowered)
            except AutoschedError:
                marks, cycles = [*marks, *[marks[-1]] * (5 - len(marks))], -1.0
            if not count:
                continue  # the first is only there to load what is loaded late
            for stage, begun, ended in zip(STAGES, marks, [*marks[1:], marks[-1]]):
                costs[stage].append((ended - begun) * 1e3)
            costs["all"][-1] = (time.thread_time() - marks[0]) * 1e3
            costs["cycles"].append(cycles)
        found[name] = costs
    return found


def elsewhere(tree: Path, traces: Path) -> Costs:
    """``measured`` with the packages of another checkout."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, __file__, "--traces", str(traces), "--raw"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout))


def cells(costs: dict[str, list[float]]) -> str:
    return " ".join(f"{statistics.median(costs[s]):8.2f} {max(costs[s]):8.2f}" for s in STAGES)


def table(here: Costs, there: Costs | None) -> None:
    print("CPU milliseconds per candidate: median, maximum")
    print(f"{'workload':22} {'traces':>6} " + " ".join(f"{s:^17}" for s in STAGES))
    for name, costs in here.items():
        count = len(costs["cycles"])
        if there is None:
            print(f"{name:22} {count:6} {cells(costs)}")
            continue
        other = there[name]
        ratio = [statistics.median(other["all"]) / statistics.median(costs["all"]), max(other["all"]) / max(costs["all"])]
        same = sum(a == b for a, b in zip(costs["cycles"], other["cycles"]))
        print(f"{name + ', there':22} {count:6} {cells(other)}")
        print(f"{name + ', here':22} {count:6} {cells(costs)}  {ratio[0]:.1f} and {ratio[1]:.1f} times faster, {same} of {count} "
              "with the same cycles")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=NAMES)
    parser.add_argument("--count", type=int, default=24, help="traces drawn per workload")
    parser.add_argument("--traces", type=Path, help="take them from this file")
    parser.add_argument("--save", type=Path, help="write the drawn traces to this file")
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--raw", action="store_true", help="print all figures as JSON")
    given = parser.parse_args()
    if given.traces:
        traces: Traces = json.loads(given.traces.read_text())
    else:
        traces = {name: drawn(name, given.count) for name in given.workloads}
    if given.save:
        given.save.write_text(json.dumps(traces))
    here = measured(traces)
    if given.raw:
        print(json.dumps(here))
        return
    there = None
    if given.against:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(traces, file)
            file.flush()
            there = elsewhere(given.against.resolve(), Path(file.name))
    table(here, there)


if __name__ == "__main__":
    main()
