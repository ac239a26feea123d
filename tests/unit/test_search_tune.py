"""The loop: same trials whatever the jobs, the log as a cache, every sampler, every stop rule."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import UnknownNameError
from autosched.measure import Candidate, measure
from autosched.records import Log, TrialRecord, compile, find_best
from autosched.records.record import from_line, to_line
from autosched.search import NetworkReport, TrialEvent, TuneReport, tune
from autosched.search.proposer import Proposer
from autosched.search.samplers import NAMES
from autosched.target import get_target
from autosched.workloads import workload
from space import Space

SMALL = "dense:m=2,k=64,n=96"


def one(name: str, log: Path, **kwargs: object) -> TuneReport:
    report = tune(name, log=log, **{"jobs": 1, "trials": 12, "cold": True, **kwargs})  # type: ignore[arg-type]
    assert isinstance(report, TuneReport)
    return report


def points(log: Path) -> list[tuple[int, ...]]:
    task = workload(SMALL)
    from autosched.records import version

    known = Log.open(log).trials(task.key, get_target("vta-de10").key(), version())
    return [r.point for r in sorted(known.values(), key=lambda r: r.trial)]


def test_the_list_of_trials_does_not_depend_on_jobs(tmp_path: Path) -> None:
    serial = one(SMALL, tmp_path / "a", trials=32)
    parallel = one(SMALL, tmp_path / "b", trials=32, jobs=2)
    assert serial.history == parallel.history and serial.trace == parallel.trace
    assert points(tmp_path / "a") == points(tmp_path / "b")
    assert len(set(points(tmp_path / "a"))) == 32
    other = one(SMALL, tmp_path / "c", trials=32, seed=1)
    assert other.cycles is not None and points(tmp_path / "c") != points(tmp_path / "a")


def test_the_log_is_a_cache_that_changes_no_trial(tmp_path: Path) -> None:
    first = one(SMALL, tmp_path)
    again = one(SMALL, tmp_path)
    assert first.history == again.history
    assert (first.simulated, first.from_log) == (12, 0) and (again.simulated, again.from_log) == (0, 12)
    longer = one(SMALL, tmp_path, trials=20)
    assert longer.history[:12] == first.history and longer.simulated == 8


def test_points_of_another_space_are_not_taken_for_known(tmp_path: Path) -> None:
    first = one(SMALL, tmp_path)
    for path in tmp_path.glob("*.jsonl"):
        lines = [from_line(line) for line in path.read_text().splitlines()]
        other = [to_line(replace(r, space=r.space + 1, cycles=1) if isinstance(r, TrialRecord) else r) for r in lines]
        path.write_text("".join(other))
    again = one(SMALL, tmp_path)
    assert again.history == first.history and again.from_log == 0


def test_a_warm_start_begins_with_the_best(tmp_path: Path) -> None:
    first = one(SMALL, tmp_path)
    warm = one(SMALL, tmp_path, cold=False, seed=5, trials=4)
    assert warm.history[0] == first.cycles and warm.from_log >= 1


@pytest.mark.parametrize("sampler", NAMES)
def test_every_sampler_proposes_valid_unseen_points(sampler: str, tmp_path: Path) -> None:
    report = one(SMALL, tmp_path, sampler=sampler, trials=18)
    assert len(report.history) == 18 and not report.failed and report.verified
    assert len(set(points(tmp_path))) == 18
    assert one(SMALL, tmp_path / "again", sampler=sampler, trials=18).history == report.history


def test_an_unknown_sampler_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown sampler 'tpee'; did you mean 'tpe'"):
        one(SMALL, tmp_path, sampler="tpee")


@pytest.mark.parametrize(("rule", "options"), [
    ("trials", {}), ("patience", {"patience": 3, "trials": 64}), ("gap", {"gap": 0.99}), ("time", {"timeout": 1e-6}),
])
def test_every_stop_rule_fires_and_is_named(rule: str, options: dict[str, object], tmp_path: Path) -> None:
    report = one(SMALL, tmp_path, **options)
    assert report.stop == rule
    assert report.verified and report.cycles == min(c for c in report.history if c is not None)


@pytest.mark.parametrize("name", ["dense:m=1,k=16,n=16,tail=cast,bias=0", "dense:m=2,k=16,n=32,bias=0"])
def test_a_certificate_is_the_optimum(name: str, tmp_path: Path) -> None:
    space = Space(workload(name).func, "vta-de10")
    everything = np.concatenate(list(space.enumerate()))
    cycles = [measure(Candidate(name, "vta-de10", tuple(space.trace(p).as_json()))).cycles for p in everything]
    report = one(name, tmp_path, trials=500)
    assert report.stop == "certified" and report.gap == 0
    assert report.cycles == min(c for c in cycles if c is not None) == report.floor
    assert len(report.history) <= len(everything)


def test_what_was_proposed_but_not_measured_proves_nothing() -> None:
    space = Space(workload(SMALL).func, "vta-de10")
    proposer = Proposer(space, 0)
    assert proposer.points is not None and proposer.floor() == space.floor()
    bounds = space.bound(proposer.points)
    for point in proposer.points[bounds == bounds.min()]:
        proposer.mark(point)
    assert proposer.floor() == space.floor()
    for point in proposer.points[bounds == bounds.min()]:
        proposer.add(point, 10**6)
    assert proposer.floor() == min(bounds[bounds > bounds.min()])


def test_events_tell_the_run(tmp_path: Path) -> None:
    events: list[TrialEvent] = []
    report = one(SMALL, tmp_path, listener=events.append)
    assert [e.trial for e in events] == list(range(12))
    assert events[-1].best == report.cycles and events[-1].floor == report.floor
    assert report.gap is not None and 0 <= report.gap < 1


def test_the_best_can_be_applied(tmp_path: Path) -> None:
    report = one(SMALL, tmp_path)
    task = workload(SMALL)
    record = find_best(task.func, get_target("vta-de10"), tmp_path)
    assert record is not None and record.cycles == report.cycles and record.verified
    inputs = task.inputs(3)
    for kernel in (compile(SMALL, log=tmp_path), report.kernel()):
        assert kernel.cycles == report.cycles
        assert np.array_equal(kernel(*inputs), task.reference(*inputs))
    assert report.schedule().func == kernel.schedule.func


def test_a_network_is_the_weighted_sum_of_its_layers(tmp_path: Path) -> None:
    report = tune("resnet18", jobs=1, trials=1, cold=True, log=tmp_path)
    assert isinstance(report, NetworkReport) and len(report.tasks) == 10
    assert [t.multiplicity for t in report.tasks] == [4, 1, 1, 3, 1, 1, 3, 1, 1, 3]
    assert report.cycles == sum((t.cycles or 0) * t.multiplicity for t in report.tasks)
    assert report.floor <= report.cycles
