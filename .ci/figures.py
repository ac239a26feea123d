"""Writes the figures of this repository as tables into docs/figures.md:

    python .ci/figures.py

What ships, against the machine's bound and what others need, is read from tuning_logs/ and takes a second. The other tables are
made anew only when they are asked for, and stay as they are otherwise:

    python .ci/figures.py --draft 1000 --samplers 5 --trials 64 --name resnet18.c2

``--draft N``: of 10 N draws (generator 0) the N with the lowest estimates are simulated; on the tenth of these that needs the
fewest cycles, how well estimate and cycles agree. ``--bred N``: the same of N points of a search's first population, which holds
what is estimated too low. ``--samplers N``: a cold run of every sampler with seeds 0 to N - 1.
``--moved``: a cold run of the workload by its size instead of its name, and with each extent moved by one row or one block.
``--cold``: the command ``autosched tune`` with an empty log, and its CPU seconds. All take ``--name``, which may be repeated
(``all``: every named workload), and ``--target``; rows of other workloads stay.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from autosched.cli.tables import number, percent  # noqa: E402
from autosched.measure import gap  # noqa: E402
from autosched.records import BestRecord, Log  # noqa: E402

PAGE = ROOT / "docs" / "figures.md"
TARGETS = ("vta-de10", "vta-de10-portable")
NAMED = ("resnet18.c2", "resnet18.c5", "resnet18.c8", "resnet18.c10", "resnet18.c11", "t3")
# How often each layer occurs in ResNet-18.
TEN = {"resnet18.c2": 4, "resnet18.c3": 1, "resnet18.c4": 1, "resnet18.c5": 3, "resnet18.c6": 1, "resnet18.c7": 1,
       "resnet18.c8": 3, "resnet18.c9": 1, "resnet18.c10": 1, "resnet18.c11": 3}
WEIGHTED = "ResNet-18's ten, weighted"
# What others need on the same hardware: AutoTVM's published best configurations, and programs written by hand.
AUTOTVM = {"vta-de10": {
    "resnet18.c2": 545_239, "resnet18.c5": 499_716, "resnet18.c8": 477_216, "resnet18.c10": 41_362, "resnet18.c11": 469_312,
    "t2": 9_541, "t3": 137_738, WEIGHTED: 7_484_639,
    "mobilenet.d1": 410_892, "mobilenet.d5": 206_586, "dcgan.ct1": 2_118_404, "dcgan.ct3": 2_145_448,
}}
BY_HAND = {
    "vta-de10": {"resnet18.c2": 493_014, "resnet18.c4": 51_546, "resnet18.c5": 457_373, "resnet18.c7": 39_369,
                 "resnet18.c8": 425_618, "resnet18.c10": 32_245, "resnet18.c11": 380_803, "t3": 131_639, WEIGHTED: 6_580_397,
                 "mobilenet.d5": 163_995},
    "vta-de10-portable": {"resnet18.c2": 507_348, WEIGHTED: 6_711_800},
}
AIM = {
    "vta-de10": {"resnet18.c2": 493_500, "resnet18.c5": 457_500, "resnet18.c8": 425_000, "resnet18.c10": 32_300,
                 "resnet18.c11": 379_500, "t3": 131_600, WEIGHTED: 6_578_000, "mobilenet.d1": 328_000,
                 "mobilenet.d5": 161_000, "dcgan.ct1": 1_070_000, "dcgan.ct3": 532_000},
    "vta-de10-portable": {WEIGHTED: 6_690_000},
}

Rows = list[list[str]]


def shipped(target: str) -> list[BestRecord]:
    """The best records that ship for a target, by name: letters first, numbers by value."""
    path = ROOT / "tuning_logs" / f"{target}.jsonl"
    log = Log(path.parent, (path,))
    found = [log.bests(key, hardware)[0] for _, key, hardware in log.tasks()]
    return sorted(found, key=lambda r: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", r.name)])


def ships(target: str) -> Rows:
    """What ships for a target: a row per workload, and one for ResNet-18's ten."""
    records = shipped(target)
    all_ = [(r.name, r.cycles, r.machine_bound) for r in records]
    ten = [(n * r.cycles, n * r.machine_bound) for r in records for n in [TEN.get(r.name, 0)] if n]
    if sum(r.name in TEN for r in records) == len(TEN):
        all_.append((WEIGHTED, sum(c for c, _ in ten), sum(b for _, b in ten)))
    others = [source.get(target, {}) for source in (AUTOTVM, BY_HAND, AIM)]
    return [
        [name, number(cycles), number(bound), percent(gap(cycles, bound)),
         *(_beside(name, cycles, o) for o in others)]
        for name, cycles, bound in all_
    ]


def _beside(name: str, cycles: int, others: Mapping[str, int]) -> str:
    """What others need for a workload, where that is known, and how far from it we are."""
    return f"{number(others[name])} ({100 * (cycles / others[name] - 1):+.2f} %)" if name in others else ""


def draft(name: str, target: str, count: int) -> list[str]:
    """How well the estimate agrees with the simulator where it matters."""
    import numpy as np

    from autosched.measure import Candidate, measure
    from autosched.target import get_target
    from autosched.workloads import workload
    from space import Space

    machine = get_target(target)
    space = Space(workload(name, machine.config.batch, machine.config.block_in).func, machine)
    points = space.sample(np.random.default_rng(0), 10 * count)
    drafts = space.draft(points)
    lowest = np.argsort(drafts, kind="stable")[:count]
    results = [measure(Candidate(name, target, tuple(space.trace(p).as_json())), check=False).cycles for p in points[lowest]]
    pairs = sorted((c, d) for c, d in zip(results, drafts[lowest]) if c is not None)[: max(2, count // 10)]
    cycles, drawn = np.array([c for c, _ in pairs], dtype=np.float64), np.array([d for _, d in pairs])
    ranks = [np.unique(x, return_inverse=True)[1] for x in (cycles, drawn)]
    low, middle = np.quantile(drawn / cycles, [0.05, 0.5])
    return [name, target, str(count), f"{np.corrcoef(*ranks)[0, 1]:.2f}", f"{100 * max(0.0, 1 - low):.1f} %",
            f"{100 * (middle - 1):+.1f} %"]


def bred(name: str, target: str, count: int) -> list[str]:
    """The same of what a search finds, which is what is estimated too low: every 20th of a first population's lowest."""
    import numpy as np

    from autosched.measure import Candidate, measure
    from autosched.search.proposer import Proposer
    from autosched.target import get_target
    from autosched.workloads import workload
    from space import Space

    machine = get_target(target)
    proposer = Proposer(Space(workload(name, machine.config.batch, machine.config.block_in).func, machine), 0)
    proposer.batch(1)
    points, drafts = proposer._pool, proposer._drafts
    chosen = np.argsort(drafts, kind="stable")[: 20 * count : 20]
    traces = [tuple(proposer.space.trace(p).as_json()) for p in points[chosen]]
    cycles = np.array([measure(Candidate(name, target, t), check=False).cycles for t in traces], dtype=np.float64)
    ranks = [np.unique(x, return_inverse=True)[1] for x in (cycles, drafts[chosen])]
    low, middle, high = np.quantile(drafts[chosen] / cycles, [0.05, 0.5, 0.95])
    errors = [f"{100 * (share - 1):+.1f} %" for share in (low, middle, high)]
    return [name, target, str(len(chosen)), f"{np.corrcoef(*ranks)[0, 1]:.2f}", *errors]


def samplers(name: str, target: str, seeds: int, trials: int) -> Rows:
    """A row per sampler."""
    bench = _benchmark()
    return [[name, target, *cells] for cells in bench.rows(name, target, bench.SAMPLERS, trials, seeds)]


def sizes(name: str, block: int) -> list[tuple[str, str]]:
    """(what is moved, the workload) of a workload by its size, and with each extent one row, or one block of channels, away.

    Args:
        name: of a workload.
        block: elements of a block of channels; depthwise convolutions change by a group.
    """
    from autosched.workloads import workload

    kind, _, text = workload(name).spec.partition(":")
    given = {key: value for key, _, value in (pair.partition("=") for pair in text.split(","))}
    groups = int(given.get("groups", 1))
    together = {"h, w": {"h": 1, "w": 1}} if "h" in given else {}
    if kind.endswith("pool2d") and given["k"] == given["h"] == given["w"]:
        together = {"h, w, k": {"h": 1, "w": 1, "k": 1}}  # one window as large as the image stays that
    if groups > 1:
        together["groups"] = {"groups": 1, "ci": int(given["ci"]) // groups, "co": int(given["co"]) // groups}
    else:
        together.update({key: {key: 1 if key == "m" else block} for key in ("m", "k", "n", "ci", "co", "c")
                         if key in given and not (key in ("k", "n") and "h" in given)})
    found = [("renamed", name if not kind else f"{kind}:{text}")]
    for what, steps in together.items():
        for sign in (1, -1):
            moved = {key: int(given[key]) + sign * step for key, step in steps.items()}
            if min(moved.values()) < 1:
                continue
            by = next(iter(steps.values()))
            changed = ",".join(f"{key}={moved.get(key, value)}" for key, value in given.items())
            found.append((f"{what} {'+' if sign > 0 else '-'} {by}", f"{kind}:{changed}"))
    return found


def moved(name: str, target: str, trials: int) -> Rows:
    """A row per size."""
    import tempfile

    import autosched as at
    from autosched.target import get_target

    rows: Rows = []
    for what, spec in sizes(name, get_target(target).config.block_out):
        with tempfile.TemporaryDirectory() as log:
            found = at.tune(spec, target=target, trials=trials, jobs=1, log=log, cold=True, seed=0)
        assert found.cycles is not None
        rows.append([name, target, str(trials), what, number(found.cycles), number(found.machine_bound),
                     percent(gap(found.cycles, found.machine_bound))])
    return rows


def cold(name: str, target: str, trials: int) -> list[str]:
    """What the command finds with an empty log, and what that costs: CPU seconds of all its processes, from their start."""
    import json
    import resource
    import subprocess
    import tempfile

    wanted = f"tune {name} --target {target} --cold --trials {trials} --seed 0 --jobs 2 --format json".split()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as log:
        command = [sys.executable, "-m", "autosched", *wanted, "--log", log]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if said.returncode:
        raise SystemExit(f"{' '.join(wanted)}: {said.stderr}")
    found = json.loads(said.stdout.splitlines()[-1])
    cycles, bound = found["cycles"], found["machine_bound"]
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [name, target, str(found["simulated"]), number(cycles), number(bound), percent(gap(cycles, bound)), f"{seconds:.1f}",
            _beside(name, cycles, AUTOTVM.get(target, {}))]


def _benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_search", ROOT / "tests" / "benchmarks" / "bench_search.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(columns: Sequence[str], rows: Rows) -> str:
    """Rows in Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def replaced(page: str, mark: str, make: Callable[[Rows], str]) -> str:
    """A page with the table behind a mark made anew.

    Args:
        page: its text.
        mark: of the table, as in ``<!-- figures: MARK -->``.
        make: gives the table from the rows that are there.
    """
    found = re.search(rf"<!-- figures: {re.escape(mark)} -->\n\n((?:\|.*\n)*)", page)
    if found is None:
        raise SystemExit(f"{PAGE.name} has no table {mark!r}")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()[2:]]
    return page[: found.start(1)] + make(rows) + page[found.end(1) :]


def with_shipped(page: str) -> str:
    """The page with its cheap tables made anew."""
    columns = ("workload", "cycles", "machine bound", "gap", "AutoTVM", "by hand", "aim")
    for target in TARGETS:
        page = replaced(page, f"ships {target}", partial(_only, columns, ships(target)))
    return page


def _only(columns: Sequence[str], fresh: Rows, old: Rows) -> str:
    return table(columns, fresh)


def _merged(columns: Sequence[str], fresh: Rows, by: int) -> Callable[[Rows], str]:
    """The rows that are there with those of the same first cells replaced."""

    def make(old: Rows) -> str:
        keys = {tuple(row[:by]) for row in fresh}
        return table(columns, [*(row for row in old if tuple(row[:by]) not in keys), *fresh])

    return make


def main() -> None:
    """Writes the page."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--draft", type=int, metavar="N", help="simulate the N lowest estimates of every workload")
    p.add_argument("--bred", type=int, metavar="N", help="simulate N points of a first population of every workload")
    p.add_argument("--samplers", type=int, metavar="SEEDS", help="run every sampler with so many seeds")
    p.add_argument("--moved", action="store_true", help="tune the workload renamed, and with each extent moved")
    p.add_argument("--cold", action="store_true", help="tune the workload with the command, and an empty log")
    p.add_argument("--trials", type=int, default=64, help="of a run (default 64)")
    p.add_argument("--name", action="append", help=f"a workload, or all; default {', '.join(NAMED)}")
    p.add_argument("--target", choices=TARGETS, default=TARGETS[0])
    args = p.parse_args()
    every = [r.name for r in shipped(args.target)]
    for name in every if args.name == ["all"] else args.name or NAMED:
        if args.draft:
            fresh = [draft(name, args.target, args.draft)]
            columns = ["workload", "target", "simulated", "rank correlation", "underestimated at most by (95 %)", "median"]
            PAGE.write_text(replaced(PAGE.read_text(), "draft", _merged(columns, fresh, 2)))
        if args.bred:
            fresh = [bred(name, args.target, args.bred)]
            columns = ["workload", "target", "simulated", "rank correlation", "error, 5 %", "median", "95 %"]
            PAGE.write_text(replaced(PAGE.read_text(), "bred", _merged(columns, fresh, 2)))
        if args.samplers:
            fresh = samplers(name, args.target, args.samplers, args.trials)
            columns = ["workload", "target", "sampler", "trials", "cycles by seed", "best known", "worst above it", "gap",
                       "CPU s a run"]
            PAGE.write_text(replaced(PAGE.read_text(), "samplers", _merged(columns, fresh, 3)))
        if args.moved:
            fresh = moved(name, args.target, args.trials)
            columns = ["workload", "target", "trials", "moved", "cycles", "machine bound", "gap"]
            PAGE.write_text(replaced(PAGE.read_text(), "moved", _merged(columns, fresh, 3)))
        if args.cold:
            columns = ["workload", "target", "trials", "cycles", "machine bound", "gap", "CPU s", "AutoTVM"]
            fresh = [cold(name, args.target, args.trials)]
            PAGE.write_text(replaced(PAGE.read_text(), "cold", _merged(columns, fresh, 2)))
    PAGE.write_text(with_shipped(PAGE.read_text()))


if __name__ == "__main__":
    main()
