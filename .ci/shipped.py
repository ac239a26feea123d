"""Makes the shipped schedules anew, and the README's table with them:

    python .ci/shipped.py --jobs 2

Every named workload is tuned for every target that ships schedules, cold and into an empty log: with 64 trials for each of the
first ``--seeds`` seeds, and with ``--trials`` for seed 0. The best checked schedule of these goes to
``tuning_logs/TARGET.jsonl``; what ships now is not looked at, so the files are a function of the code. The README's table
holds what 64 trials with seed 0 find.

    python .ci/shipped.py --jobs 2 --keep --trials 64

The same with shorter runs, and what ships now stays where it is better. Files are written after every workload, so that such a
run may be cut short; ``--first 2`` leaves out the seeds that an earlier one has done.

    python .ci/shipped.py --again

After a change of lowering, simulator or bounds: the shipped schedules are not searched for, but measured and executed again, and
README's table gets the bounds as they are now.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from autosched.cli.tables import number, percent  # noqa: E402
from autosched.measure import Candidate, gap, measure  # noqa: E402
from autosched.records import BestRecord, Log, version  # noqa: E402
from autosched.records import compile as compile_best  # noqa: E402
from autosched.records.line import best_line  # noqa: E402
from autosched.report import decided  # noqa: E402
from autosched.search import TuneReport, tune  # noqa: E402
from autosched.target import get_target  # noqa: E402
from autosched.workloads import names, workload  # noqa: E402
from space import VERSION, Space  # noqa: E402

TARGETS = ("vta-de10", "vta-de10-portable", "vta-pynq")
TRIALS = 64  # of README's table, and of the runs that nothing shipped may be worse than
ROW = re.compile(r"^\| (\S+)(?: \([\dx]+\))? \| ([\d ]+) \| ([\d ]+) \| ([-+]?[\d.]+ %) \| ([\d ]+) \| ([\d.]+ %) \|$", re.M)


def found(name: str, target: str, trials: int, seed: int, jobs: int | None) -> tuple[TuneReport, BestRecord]:
    """A cold run into an empty log, and its checked best."""
    with tempfile.TemporaryDirectory() as log:
        report = tune(name, target=target, trials=trials, seed=seed, jobs=jobs, log=log, cold=True)
        assert isinstance(report, TuneReport)
        best = [r for r in Log.open(log).all_bests() if r.verified]
    if not best:
        raise SystemExit(f"{name} on {target}, seed {seed}: nothing was found that holds")
    return report, min(best, key=lambda r: r.cycles)


def again(target: str) -> list[BestRecord]:
    """The shipped schedules of a target by this version of lowering and simulator."""
    path = ROOT / "tuning_logs" / f"{target}.jsonl"
    if not path.exists():
        return []
    log = Log(path.parent, (path,))
    found = []
    for _, key, hardware in log.tasks():
        record = log.bests(key, hardware)[0]
        result = measure(Candidate(record.name, record.target, record.trace), execute=True)
        if result.cycles is None or result.program is None:
            raise SystemExit(f"{record.name} on {target}: {result.status}: {result.reason}")
        record = replace(record, of=replace(record.of, version=version()), cycles=result.cycles, program=result.program)
        record = renewed(record)
        space = space_of(record)
        machine = space.machine_bound()
        found.append(replace(record, space_bound=max(space.floor(), machine), machine_bound=machine))
    return found


def space_of(record: BestRecord) -> Space:
    """The space of a shipped schedule's program."""
    target = get_target(record.target)
    return Space(workload(record.name, target.config.batch, target.config.block_in).func, target)


def renewed(record: BestRecord) -> BestRecord:
    """A schedule of an older space as a point of this one, where it is one."""
    if record.space == VERSION:
        return record
    space = space_of(record)
    point, _ = decided(space, record)
    if not point:
        return record
    trace = tuple(space.trace(np.array(point, dtype=np.int32)).as_json())
    return replace(record, of=replace(record.of, space=VERSION), point=point, trace=trace)


def write(target: str, best: Mapping[str, BestRecord]) -> None:
    """Ships schedules, in the order of the names."""
    shipped = [best[name] for name in names() if name in best]
    lines = [best_line(replace(r, of=replace(r.of, run="shipped", host="")), "0" * 8) for r in shipped]
    (ROOT / "tuning_logs" / f"{target}.jsonl").write_text("".join(lines))


def row(text: str, name: str, bound: int, cycles: int | None = None) -> str:
    """The README's text with the row of a workload made anew; where there are no other cycles, with those that it has."""

    def fresh(m: re.Match[str]) -> str:
        if m[1] != name:
            return m[0]
        theirs, ours = int(m[2].replace(" ", "")), cycles or int(m[3].replace(" ", ""))
        first = m[0].split(" | ")[0]
        return (f"{first} | {m[2]} | {number(ours)} | {100 * (ours / theirs - 1):+.1f} % | "
                f"{number(bound)} | {percent(gap(ours, bound))} |")

    return ROW.sub(fresh, text)


def main() -> None:
    """Tunes and writes."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--jobs", type=int)
    p.add_argument("--trials", type=int, default=512, help="of the long run (default 512)")
    p.add_argument("--seeds", type=int, default=5, help=f"runs of {TRIALS} trials per workload (default 5)")
    p.add_argument("--first", type=int, default=0, help="the first of these seeds (default 0); README's table needs that one")
    p.add_argument("--name", action="append", help="only this workload, the others stay as they are; may be repeated")
    p.add_argument("--keep", action="store_true", help="what ships now stays where it is better")
    p.add_argument("--again", action="store_true", help="only measure again what ships")
    p.add_argument("--target", action="append", choices=TARGETS, help="only this one; may be repeated")
    args = p.parse_args()
    readme = ROOT / "README.md"
    for target in args.target or TARGETS:
        tuned = () if args.again else args.name or names()
        # A workload that is not tuned stays; of the others nothing is looked at without ``--keep``.
        old = again(target) if args.again or args.keep or args.name else []
        best = {r.name: r for r in old if args.keep or r.name not in tuned}
        for name in tuned:
            runs = [found(name, target, TRIALS, seed, args.jobs) for seed in range(args.first, args.seeds)]
            if args.trials > TRIALS:
                runs.append(found(name, target, args.trials, 0, args.jobs))
            kept = [best[name]] if name in best else []
            # Of equal ones the new: it is a point of the space as it is now.
            best[name] = min([*(record for _, record in runs), *kept], key=lambda r: r.cycles)
            cycles = best[name].cycles
            print(f"{target}  {name}  {number(cycles)} cycles, gap {percent(best[name].gap)}, seed {best[name].seed}", flush=True)
            if target == "vta-de10" and not args.first:
                # As it is now: another target may be tuned at the same time.
                report = runs[0][0]
                readme.write_text(row(readme.read_text(), report.workload, report.machine_bound, report.cycles))
            if args.keep:
                write(target, best)
        write(target, best)
        for record in best.values() if args.again and target == "vta-de10" else ():
            assert record.machine_bound is not None
            readme.write_text(row(readme.read_text(), record.name, record.machine_bound))
    kernel = compile_best("resnet18.c8", log=None)
    text = re.sub(r"(\(1, 256, 14, 14\) int8 )\d+( cycles)", rf"\g<1>{kernel.cycles}\g<2>", readme.read_text())
    readme.write_text(text)
    from figures import PAGE, with_shipped  # beside this file

    PAGE.write_text(with_shipped(PAGE.read_text()))


if __name__ == "__main__":
    main()
