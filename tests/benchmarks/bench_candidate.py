"""What one candidate costs, from a trace to its cycles: ``python tests/benchmarks/bench_candidate.py [WORKLOAD ...]``.

CPU milliseconds on one core, warm kernels: median and maximum over points drawn at random and by the draft, for replaying the
trace, lowering, timing, these three (from a trace to its cycles), hashing, and all of it (with the counters of a result). As in a
search, what traces share is replayed once, and what only proves steps legal is left out (where the checkout knows how).
``--traces FILE`` takes traces from a file instead, ``{workload: [trace, ...]}`` in JSON, and ``--save FILE`` writes such a file.
``--against TREE`` measures the same traces with the packages of another checkout as well, and prints both with what became of the
cycles: two processes take each trace one right after the other, now this one first and now that one, so that what else the
machine does weighs on both alike. Each is set up as that checkout sets up its workers, whose looks for cyclic garbage are among
what a candidate costs; ``--alike`` has the other look as seldom as this one does.
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
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

Traces = dict[str, list[list[dict[str, Any]]]]
Costs = dict[str, dict[str, list[float]]]
STAGES = ("replay", "lower", "time", "trace", "hash", "all")
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


def as_a_worker(seldom: int) -> None:
    """Sets this process up as the checkout does its workers; one that sets nothing leaves all as it is.

    Args:
        seldom: so many objects are made between two looks for cyclic garbage in any case; 0 leaves that to the checkout.
    """
    try:
        from autosched import child
    except ImportError:
        pass
    else:
        for name in ("look_seldom", "keep_memory"):
            getattr(child, name, lambda: None)()
        gc.freeze()
    if seldom:
        gc.set_threshold(seldom, 1_000, gc.get_threshold()[2])


def prepared(seldom: int = 0) -> Callable[[str, list[dict[str, Any]]], list[float]]:
    """Gives, of a workload's name and a trace, CPU milliseconds of each stage and the cycles (-1 where it has no program)."""
    import sim
    from autosched import kernel
    from autosched.errors import AutoschedError
    from autosched.kernel import program_hash, resolve
    from autosched.lower import lower_table, warm
    from autosched.measure.measure import statistics as counters
    from autosched.target import get_target

    sim.warm()
    warm()
    as_a_worker(seldom)
    target = get_target("vta-de10")
    # An older checkout has the checked replay alone.
    applied = partial(kernel.scheduled, check=False) if hasattr(kernel, "scheduled") else lambda *args: kernel.replay(*args).func
    tasks: dict[str, Any] = {}

    def one(name: str, trace: list[dict[str, Any]]) -> list[float]:
        if name not in tasks:
            tasks[name] = resolve(name, target)
            one(name, trace)  # only to load what is loaded late
        marks = [time.thread_time()]
        try:
            func = applied(tasks[name].func, trace, "fast")
            marks.append(time.thread_time())
            lowered = lower_table(func, target)
            marks.append(time.thread_time())
            cycles = float(lowered.cycles(None))
            marks.append(time.thread_time())
            program_hash(lowered)
            marks.append(time.thread_time())
            counters(lowered)
        except AutoschedError:
            marks, cycles = [*marks, *[marks[-1]] * (5 - len(marks))], -1.0
        marks.append(time.thread_time())
        replayed, low, timed, hashed, _ = [(ended - begun) * 1e3 for begun, ended in pairwise(marks)]
        return [replayed, low, timed, replayed + low + timed, hashed, (marks[-1] - marks[0]) * 1e3, cycles]

    return one


def serve(traces: Traces, seldom: int) -> None:
    """Answers with the costs of a trace for every line that names one."""
    one = prepared(seldom)
    for line in sys.stdin:
        name, number = json.loads(line)
        print(json.dumps(one(name, traces[name][number])), flush=True)


def collected(traces: Traces, ask: Callable[[str, int], list[list[float]]], sides: int) -> list[Costs]:
    """The costs of all traces, for each of the sides that answer."""
    found: list[Costs] = [{} for _ in range(sides)]
    for name, several in traces.items():
        answers = [ask(name, number) for number in range(len(several))]
        for side, costs in enumerate(found):
            costs[name] = {stage: [a[side][k] for a in answers] for k, stage in enumerate((*STAGES, "cycles"))}
    return found


def side_by_side(traces: Traces, trees: list[Path], seldom: int = 0) -> list[Costs]:
    """The costs with the packages of several checkouts; ``seldom`` as for ``as_a_worker``."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file, ExitStack() as stack:
        json.dump(traces, file)
        file.flush()
        command = [sys.executable, __file__, "--traces", file.name, "--serve", "--seldom", str(seldom)]
        serving = [
            stack.enter_context(subprocess.Popen(
                command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )) for tree in trees
        ]

        def ask(name: str, number: int) -> list[list[float]]:
            answers: list[list[float]] = [[] for _ in serving]
            for side in range(len(serving))[:: 1 if number % 2 else -1]:
                into, out = serving[side].stdin, serving[side].stdout
                assert into is not None and out is not None
                into.write(json.dumps([name, number]) + "\n")
                into.flush()
                answer = out.readline()
                if not answer:
                    raise SystemExit(f"{trees[side]} gives no answer")
                answers[side] = json.loads(answer)
            return answers

        return collected(traces, ask, len(trees))


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
        ratios = [of(other[stage]) / of(costs[stage]) for stage in ("trace", "all") for of in (statistics.median, max)]
        same = sum(a == b for a, b in zip(costs["cycles"], other["cycles"]))
        print(f"{name + ', there':22} {count:6} {cells(other)}")
        print(f"{name + ', here':22} {count:6} {cells(costs)}")
        print(f"from a trace to its cycles {ratios[0]:.2f} (median) and {ratios[1]:.1f} (maximum) times faster, "
              f"all of it {ratios[2]:.2f} and {ratios[3]:.1f}; {same} of {count} with the same cycles")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=NAMES)
    parser.add_argument("--count", type=int, default=24, help="traces drawn per workload")
    parser.add_argument("--traces", type=Path, help="take them from this file")
    parser.add_argument("--save", type=Path, help="write the drawn traces to this file")
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--alike", action="store_true", help="the other one looks for cyclic garbage as seldom as this one")
    parser.add_argument("--seldom", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help="answer to each line of standard input, as --against asks")
    given = parser.parse_args()
    if given.traces:
        traces: Traces = json.loads(given.traces.read_text())
    else:
        traces = {name: drawn(name, given.count) for name in given.workloads}
    if given.save:
        given.save.write_text(json.dumps(traces))
    if given.serve:
        serve(traces, given.seldom)
    elif given.against:
        from autosched.child import YOUNG

        trees = [Path(__file__).resolve().parents[2], given.against.resolve()]
        here, there = side_by_side(traces, trees, YOUNG if given.alike else 0)
        table(here, there)
    else:
        one = prepared()
        table(collected(traces, lambda name, number: [one(name, traces[name][number])], 1)[0], None)


if __name__ == "__main__":
    main()
