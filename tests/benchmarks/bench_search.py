"""What the search finds, and what it costs: ``python tests/benchmarks/bench_search.py [WORKLOAD ...] [--seeds N] [--trials N]``.

Every workload is tuned cold into an empty log, with one job, for every seed and every sampler. Printed as Markdown: the cycles of
every seed, how far the worst is above the best known (of these runs and of what ships), the gap of the best to the machine bound,
and CPU seconds of a run, simulations included. ``--target`` is another machine. ``traffic`` is no sampler of the product: it is
the search with an estimate as tools have it that model no engines, bytes + 8192 x DMAs, in place of ours.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from autosched.errors import RecordError
from autosched.records import Log
from autosched.records import compile as compile_best
from autosched.search import TuneReport, proposer, tune
from autosched.search.pool import MeasurePool
from autosched.search.tuner import search
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.plan import Plan
from space.rules.length import elementwise

WORKLOADS = ("t2", "t3", "resnet18.c2", "resnet18.c5", "resnet18.c8", "resnet18.c10", "resnet18.c11")
SAMPLERS = ("cost-model", "draft", "traffic", "tpe", "nsgaii", "qmc", "random")
DMA = 8192  # bytes that a DMA counts for


class Traffic(Space):
    """A space whose estimate is what crosses the bus, and how often."""

    def estimated(self, sketch: int, plans: Iterable[Plan], enough: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64]:
        """Bytes and DMAs of every point, shape (n,)."""
        found = []
        for model, plan in zip(self.sketches[sketch].models, plans):
            part, out = plan.stack, model.out_elements * model.config.out_elem_bytes * model.nest.stores
            moved = DMA * elementwise(model, plan, part)[1]
            for operand in range(len(model.nest.operands)):
                beats, transfers = model.transfer(plan, part, operand)
                moved = moved + model.fills(plan, part, operand) * (beats * model.config.bus_bytes + DMA * transfers)
            found.append(out + np.where(part.on, moved, 0).sum(axis=0))
        return np.asarray(sum(found), dtype=np.float64)


def run(name: str, target: str, sampler: str, trials: int, seed: int) -> tuple[TuneReport, float]:
    """A cold run, and its CPU seconds."""
    proposer._FIRST.clear()  # what another sampler has bred with this seed is its own
    with tempfile.TemporaryDirectory() as log:
        begun = time.process_time()
        if sampler == "traffic":
            machine = get_target(target)
            task = workload(name, machine.config.batch, machine.config.block_in)
            with MeasurePool(1) as pool:
                found = search(task, machine, Traffic(task.func, machine), pool, trials, seed, Log.open(log), "draft")
            return found, time.process_time() - begun
        report = tune(name, target=target, trials=trials, jobs=1, seed=seed, log=log, cold=True, sampler=sampler)
        assert isinstance(report, TuneReport)
        return report, time.process_time() - begun


def shipped(name: str, target: str) -> int | None:
    """The cycles of what ships, or None."""
    with tempfile.TemporaryDirectory() as empty:
        here = os.getcwd()
        os.chdir(empty)  # no log but the shipped one
        try:
            return compile_best(name, target=target).cycles
        except RecordError:
            return None
        finally:
            os.chdir(here)


def rows(name: str, target: str, samplers: Sequence[str], trials: int, seeds: int) -> list[list[str]]:
    """Per sampler: name, trials, cycles by seed, best known, how far the worst is above it, gap of the best, CPU seconds."""
    found = []
    known = shipped(name, target)
    for sampler in samplers:
        runs = [run(name, target, sampler, trials, seed) for seed in range(seeds)]
        cycles = [report.cycles for report, _ in runs if report.cycles is not None]
        found.append((sampler, cycles, runs[0][0].machine_bound, max(cpu for _, cpu in runs)))
    best = min(c for _, cycles, _, _ in found for c in [*cycles, *([known] if known else [])])
    return [
        [sampler, str(trials), " ".join(map(str, cycles)), str(best), f"{100 * (max(cycles) / best - 1):.2f} %",
         f"{100 * (min(cycles) / bound - 1):.2f} %", f"{cpu:.1f}"]
        for sampler, cycles, bound, cpu in found
    ]


def main() -> None:
    """Prints the table."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("workloads", nargs="*", default=WORKLOADS)
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--trials", type=int, default=64)
    p.add_argument("--target", default="vta-de10")
    p.add_argument("--sampler", action="append", help=f"default: {', '.join(SAMPLERS)}")
    args = p.parse_args()
    run("t2", args.target, "cost-model", 2, 0)  # compiles
    print(f"{args.trials} trials on {args.target}, cold, seeds 0 to {args.seeds - 1}\n")
    print("| workload | sampler | trials | cycles by seed | best known | worst above it | gap of the best | CPU s a run |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.workloads:
        for cells in rows(name, args.target, args.sampler or SAMPLERS, args.trials, args.seeds):
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
