"""One offline HTML page about the schedules of a log: charts, tables, where they come from. Nothing is loaded from anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autosched.errors import AutoschedError
from autosched.kernel import Kernel, build
from autosched.lower import Lowered
from autosched.measure import Candidate, gap, statistics
from autosched.networks.summary import Summary
from autosched.records import BestRecord, Known, Run, TrialRecord, best_or_fail, version
from autosched.report import charts
from autosched.report.ablation import ALTERNATIVES, ablate, decided, members
from autosched.report.account import account
from autosched.search.pool import MeasurePool
from autosched.target import Target
from autosched.workloads import Workload
from sim import timing
from sim.markup import number, percent, table, text
from sim.stats import activity
from space import VERSION, Space

FEW = 2  # alternatives of a decision that are simulated where a page holds several workloads
AGAIN = 12  # trials of a task that are simulated again for the roofline, where the log does not say what they moved
TOP = 10
DRAWN = 512  # points of the sample that stands for a first draft

# Charts and tables scroll by themselves where a screen is narrow: letters stay large enough to be read.
STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; border-top: 1px solid var(--line); padding-top: 1rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; font-size: .95rem; }
td, th { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td:last-child:not(.n):not(:first-child) { min-width: 15rem; }
.wide { overflow-x: auto; } svg { display: block; width: 100%; min-width: 34rem; height: auto; }
code { font-size: .85rem; overflow-wrap: anywhere; }
figcaption { font-size: .85rem; } figure { margin: 1.5rem 0; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin-bottom: 1rem; }
"""


@dataclass(frozen=True)
class Section:
    """A workload of the page.

    Args:
        task: the workload.
        multiplicity: how often it occurs.
        record: its best schedule, or None where nothing is known.
        body: HTML below its heading.
        runs: what its trials are from.
    """

    task: Workload
    multiplicity: int
    record: BestRecord | None
    body: str
    runs: tuple[Run, ...] = ()


def page(
    title: str, target: Target, tasks: Iterable[tuple[Workload, int]], known: Known, whole: Summary | None = None,
    alternatives: int | None = None, jobs: int | None = None,
) -> str:
    """The page.

    Args:
        title: what it is about.
        target: the machine.
        tasks: workloads with their multiplicities.
        known: the log.
        whole: the network that the workloads are layers of, compiled, where they come from a file.
        alternatives: of a decision that are simulated; None for four, or two where there are several workloads.
        jobs: worker processes that simulate them; None for one per core, or none where there is one workload.
    """
    tasks = list(tasks)
    several = len(tasks) > 1
    most = alternatives or (FEW if several else ALTERNATIVES)
    with MeasurePool(jobs or (os.cpu_count() or 1 if several else 1)) as pool:
        sections = [_section(task, n, target, known, most, pool) for task, n in tasks]
    found = [s for s in sections if s.record is not None]
    links = " ".join(f'<a href="#{_id(s.task)}">{text(s.task.name)}</a>' for s in found)
    parts = [
        "<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{text(title)} on {text(target.name)}</title>",
        f"<style>{STYLE}</style></head><body>", f"<h1>{text(title)} on {text(target.name)}</h1>", f"<nav>{links}</nav>",
        _network(whole) if whole is not None else "", _summary(sections, whole is None),
        *(f'<section id="{_id(s.task)}"><h2>{text(s.task.name)}</h2>{s.body}</section>' for s in found),
        "<h2>Where this comes from</h2>", _environment(target, found), "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _network(whole: Summary) -> str:
    """The network as it runs: its figures, every layer in its stream, and what the host does."""
    cycles = whole.cycles
    figures = table(
        ["cycles", "bound", "gap", "ms", "images/s", "GOPS", "of peak", "on the machine", "DRAM bytes"],
        [[number(cycles), number(whole.bound), percent(whole.gap), f"{whole.milliseconds:.3f}", f"{whole.images:.1f}",
          f"{whole.gops:.2f}", percent(whole.peak), percent(whole.share), number(whole.dram_bytes)]], set(range(9)))
    streams = ", ".join(number(c) for c in whole.streams)
    saved = (f"Streams, in cycles: {streams}. The layers by themselves need {number(whole.apart)}: sums and pools in the "
             f"accumulator save {number(whole.apart - whole.alone)}, streams of several layers {number(whole.alone - cycles)}.")
    layers = table(
        ["layer", "kind", "cycles", "of all", "alone", "least compute", "bound by"],
        [[x.name, x.kind, number(x.cycles), percent(x.cycles / cycles), number(x.alone), number(x.work), x.binds]
         for x in whole.layers], {2, 3, 4, 5})
    host = table(["on the host", "operator", "why", "of the products"], [
        [n.name, n.op, n.reason, percent(whole.share_of(n)) if n.macs else "-"] for n in whole.host], {3})
    return (f"<h2>The network</h2>{figures}<p>{text(saved)}</p><h3>Its layers, in the order in which they run</h3>{layers}"
            + (f"<h3>What the host does</h3>{host}" if whole.host else "") + "<h2>Its distinct layers, by themselves</h2>")


def _summary(sections: Sequence[Section], add_up: bool) -> str:
    rows = []
    for s in sections:
        r = s.record
        times = f" x{s.multiplicity}" if s.multiplicity > 1 else ""
        figures = ["-", "-", "-", "nothing logged"] if r is None else [
            number(r.cycles), number(r.bound), percent(r.gap), r.checked]
        rows.append([s.task.name + times, *figures])
    if add_up and len(sections) > 1 and all(s.record is not None for s in sections):
        cycles = sum(s.record.cycles * s.multiplicity for s in sections if s.record is not None)
        bound = sum(s.record.bound * s.multiplicity for s in sections if s.record is not None)
        rows.append(["together", number(cycles), number(bound), percent(gap(cycles, bound)), ""])
    return table(["workload", "cycles", "machine bound", "gap", "bytes compared"], rows, numbers={1, 2, 3})


def _section(task: Workload, multiplicity: int, target: Target, known: Known, most: int, pool: MeasurePool) -> Section:
    try:
        record, kernel = best_or_fail(task, target, known)
    except AutoschedError:
        return Section(task, multiplicity, None, "")
    space = Space(task.func, target)
    trials = _trials(task, space, known)
    held = [t for run in trials.values() for t in run if t.cycles is not None]
    logged = {t.point: t.cycles for t in held if t.cycles is not None and t.cycles >= t.bound}
    found = account(kernel)
    here, _ = decided(space, record)
    changes = ablate(task, target, here, found.cycles, most, logged, pool) if here else []
    first = _first(task, target, trials, space)
    parts = [f"<p>{number(record.cycles)} cycles, {percent(record.gap)} above the machine's bound of {number(record.bound)}"
             + (f"; <code>{text(space.explain(np.array(here, dtype=np.int32)))}</code>" if here else "") + "</p>"]
    if trials:
        runs = [_course(name, run) for name, run in trials.items()]
        bounds = [("machine bound", record.bound), ("bound of the space", record.space_bound)]
        parts.append(_chart(charts.convergence(runs, bounds),
                            "Convergence: the best cycles over the trials that were simulated, and over the run's seconds; "
                            "marks are the trials."))
    dots = _dots(held, space, task, pool)
    said = f" {len(dots)} of the {len(held)} trials are shown: the log does not say what they moved."
    some = said if len(dots) < len(held) else ""
    parts.append(_chart(_roofline(kernel, first, dots), "Roofline: a schedule under the slope waits for the bus, one under the "
                        f"flat roof for the GEMM unit.{some}"))
    shown = [("best", kernel), *([("first draft", first)] if first is not None else [])]
    spans = [(name, activity(ran := _ran(k.lowered)), ran.cycles) for name, k in shown]
    parts.append(_chart(charts.gantt(spans), "What the units did: full bars work, hatched ones wait, empty is idle."))
    if changes:
        parts.append(_chart(charts.importance(changes), "What every decision costs when it alone is changed, simulated."))
    rest = [[r.cause, number(r.cycles), number(r.needed), r.freedom] for r in found.rest if r.cycles > r.needed]
    parts += ["<h3>What keeps it from the bound</h3>",
              table(["cause", "cycles", "needed", "what would have to be freer"], rest, {1, 2})]
    best = sorted(held, key=lambda t: (t.cycles or 0, t.trial))[:TOP]
    if best:
        parts += [f"<h3>The best {len(best)} trials</h3>", table(["cycles", "trial", "run", "schedule"], [
            [number(t.cycles), str(t.trial), t.run, space.explain(np.array(t.point, dtype=np.int32))] for t in best], {0, 1})]
    return Section(task, multiplicity, record, "\n".join(parts), tuple(run[0].of for run in trials.values()))


def _trials(task: Workload, space: Space, known: Known) -> dict[str, list[TrialRecord]]:
    """The simulated trials of this version of space, lowering and simulator, run by run; all are points of the space."""
    asked = task.key, space.target.key(), version(), VERSION
    logged = [t for place in known.places for t in place.all_trials()
              if (t.workload, t.hardware, t.version, t.space) == asked]
    runs: dict[str, list[TrialRecord]] = {}
    for t, point in zip(logged, members(space, [t.point for t in logged])):
        if point is not None:
            runs.setdefault(t.run, []).append(replace(t, point=point))
    return {name: sorted(runs[name], key=lambda t: t.trial) for name in sorted(runs)}


def _course(name: str, run: list[TrialRecord]) -> charts.Course:
    seconds = [t.ms / 1000 for t in run if t.ms is not None]
    return charts.Course(f"{name} (seed {run[0].seed})", [t.cycles for t in run], seconds)


def _first(task: Workload, target: Target, trials: dict[str, list[TrialRecord]], space: Space) -> Kernel | None:
    """The schedule that a run began with; where there is none, what the estimate alone chooses of a sample."""
    for run in trials.values():
        if run[0].cycles is not None:
            return build(task, target, space.trace(np.array(run[0].point, dtype=np.int32)))
    drawn = space.sample(np.random.default_rng(0), DRAWN)
    if not len(drawn):
        return None
    return build(task, target, space.trace(drawn[int(np.argmin(space.draft(drawn)))]))


def _dots(held: Sequence[TrialRecord], space: Space, task: Workload, pool: MeasurePool) -> list[charts.Dot]:
    """The trials in the roofline; of a log that does not say what they moved, some of every speed, simulated again."""
    told = [_dot("", t.cycles, {"moved": t.moved, "macs": t.macs}) for t in held
            if t.cycles is not None and t.moved is not None and t.macs is not None]
    if told:
        return told
    ranked = sorted(held, key=lambda t: (t.cycles or 0, t.run, t.trial))
    again = [ranked[n] for n in sorted({round(k) for k in np.linspace(0, len(ranked) - 1, AGAIN)})] if ranked else []
    candidates = [Candidate(task, space.target, tuple(space.trace(np.array(t.point, dtype=np.int32)).as_json())) for t in again]
    return [_dot("", r.cycles, r.stats) for r in pool.run(candidates) if r.cycles is not None]


def _roofline(best: Kernel, first: Kernel | None, trials: Sequence[charts.Dot]) -> str:
    c = best.target.config
    named = [_dot(name, k.cycles, statistics(k.lowered)) for name, k in (("best", best), ("first draft", first or best))]
    return charts.roofline([*named, *trials], c.batch * c.block_in * c.block_out, c.bus_bytes)


def _dot(name: str, cycles: int, counts: Mapping[str, int]) -> charts.Dot:
    return charts.Dot(name, counts["macs"] / max(1, counts["moved"]), counts["macs"] / max(1, cycles))


def _ran(lowered: Lowered) -> timing.Timing:
    return timing.simulate(lowered.table, lowered.config, lowered.insn_address, semantics=lowered.target.mode)


def _environment(target: Target, sections: Sequence[Section]) -> str:
    rows = [["target", target.name], ["semantics", target.semantics], ["checked against", target.verified or "-"],
            ["not checked", target.extrapolated or "-"], ["version of lowering and simulator", version()],
            ["version of the space", str(VERSION)]]
    for s in sections:
        r = s.record
        if r is not None:
            keys = f"workload {r.workload[:16]}, hardware {r.hardware[:16]}"
            rows.append([s.task.name, f"best of run {r.run}, seed {r.seed}, {keys}"])
        for run in s.runs:
            asked = ", ".join(f"{k} {v}" for k, v in {**run.asked, **run.libraries}.items())
            rows.append([f"run {run.run}", f"{s.task.name}, seed {run.seed}, host {run.host}, {asked}"])
    return table(["what", "is"], rows)


def _chart(svg: str, caption: str) -> str:
    shown = text(caption)
    return f'<figure role="img" aria-label="{shown}"><div class="wide">{svg}</div><figcaption>{shown}</figcaption></figure>'


def _id(task: Workload) -> str:
    return f"w-{task.key[:12]}"

