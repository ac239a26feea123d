"""Several tasks under one budget: what is tried depends on trials alone, and what is told is one run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autosched.measure import Candidate, Result
from autosched.records import best_or_fail
from autosched.search import (
    Event,
    NetworkReport,
    Remark,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskStarted,
    TrialEvent,
    pool,
    tune_tasks,
    tuner,
)
from autosched.search.proposer import Proposer
from autosched.target import get_target
from autosched.workloads import workload
from space import Space

TASKS = [(workload("dense:m=1,k=64,n=64"), 1), (workload("dense:m=2,k=64,n=96"), 5)]
pytestmark = pytest.mark.usefixtures("brief")


def tuned(log: Path, trials: int = 24, **options: object) -> NetworkReport:
    return tune_tasks("two", TASKS, trials=trials, log=log, cold=True, **{"jobs": 1, **options})


def test_the_budget_goes_where_it_gains_whatever_the_number_of_jobs(tmp_path: Path) -> None:
    events: list[Event] = []
    one = tuned(tmp_path / "a", listener=events.append)
    two = tuned(tmp_path / "b", jobs=2)
    histories = [t.history for t in one.tasks]
    assert histories == [t.history for t in two.tasks]
    assert [t.cycles for t in one.tasks] == [t.cycles for t in two.tasks]
    assert sum(len(h) for h in histories) <= 48 and len(histories[1]) == 32  # the layer that occurs five times
    assert one.cycles == (one.tasks[0].cycles or 0) + 5 * (one.tasks[1].cycles or 0)
    assert [type(e) for e in (events[0], events[1], events[-1])] == [RunStarted, TaskStarted, RunFinished]
    assert [e.name for e in events if isinstance(e, RunStarted)] == ["two"]
    assert [e.report for e in events if isinstance(e, TaskFinished)] == list(one.tasks)
    told = [(e.workload, e.trial) for e in events if isinstance(e, TrialEvent)]
    assert len(told) == len(set(told)) == sum(len(h) for h in histories) == sum(t.simulated for t in one.tasks)


def test_a_small_budget_is_kept_and_the_log_is_used_again(tmp_path: Path) -> None:
    few = tuned(tmp_path / "a", trials=3)
    assert [len(t.history) for t in few.tasks] == [3, 3]
    again = tuned(tmp_path / "a", trials=3)
    assert [t.history for t in again.tasks] == [t.history for t in few.tasks]
    assert sum(t.simulated for t in again.tasks) == 0 and sum(t.from_log for t in again.tasks) == 6


def test_time_cuts_the_list_and_never_alters_it(tmp_path: Path) -> None:
    full = tuned(tmp_path / "a")
    cut = tuned(tmp_path / "b", timeout=0.001)
    for a, b in zip(cut.tasks, full.tasks):
        assert a.history == b.history[: len(a.history)]
    assert sum(len(t.history) for t in cut.tasks) < sum(len(t.history) for t in full.tasks)
    # Time that is up before the first turn, on every machine: a thousandth of a second may bring a result.
    said: list[str] = []
    tuned(tmp_path / "c", timeout=1e-9, listener=lambda e: said.append(e.text) if isinstance(e, Remark) else None)
    assert [s for s in said if s.startswith("time is up: 2 of 2 layers") and TASKS[0][0].name in s and TASKS[1][0].name in s]


def test_a_layer_whose_turn_comes_too_late_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes a time stop late is breeding a first population, and listing a whole space; neither is done for such a layer."""
    for slow in ("_begin", "_refine", "_list_all"):
        monkeypatch.setattr(Proposer, slow, lambda self: pytest.fail("there is no time for this"))
    cut = tuned(tmp_path, timeout=1e-9)
    target = get_target("vta-de10")
    for report, (task, _) in zip(cut.tasks, TASKS):
        assert (report.stop, report.history, report.simulated, report.verified) == ("time", (), 1, True)
        space = Space(task.func, target)
        assert report.cycles == int(best_or_fail(task, target, tmp_path)[1].cycles)
        assert space.draft(np.array(report.point, dtype=np.int32)[None]) <= space.draft(
            space.sample(np.random.default_rng(0), 64)).min()
    again = tuned(tmp_path, timeout=1e-9)
    assert [(t.cycles, t.simulated) for t in again.tasks] == [(t.cycles, 0) for t in cut.tasks]
    # Nor is one that had no result when time was up, as where workers take long to load.
    monkeypatch.setattr(tuner, "FIRST_RESULT", 0.0)
    monkeypatch.setattr(Proposer, "_begin", lambda self: None)
    monkeypatch.setattr(Proposer, "_list_all", lambda self: self.space.sample(self.rng, 8))
    one = tune_tasks("one", TASKS[:1], timeout=1e-5, log=tmp_path / "b", jobs=1)
    assert one.tasks[0].cycles == cut.tasks[0].cycles and one.tasks[0].history == ()
    other = tune_tasks("two", TASKS, timeout=1e-9, log=tmp_path, jobs=1, seed=5)
    assert [t.cycles for t in other.tasks] == [t.cycles for t in cut.tasks]  # the log's best


def test_a_layer_keeps_what_it_had_when_later_checks_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tuned(tmp_path / "a")
    real, checks = pool.check, 0

    def check(candidate: Candidate, patience: float) -> Result | None:
        nonlocal checks
        checks += 1
        # As where memory is short: the processes of checks die, once the layers have had their first turns.
        return real(candidate, patience) if checks <= len(TASKS) else None

    monkeypatch.setattr(pool, "check", check)
    hit = tuned(tmp_path / "b")
    assert checks > len(TASKS) and [t.history for t in hit.tasks] == [t.history for t in whole.tasks]
    for report in hit.tasks:
        assert report.verified and report.cycles == min(c for c in report.history[:tuner.BATCH] if c is not None)
        assert all(cycles < report.cycles and reason.startswith("environment") for cycles, reason in report.dropped)
    assert hit.cycles is not None


def test_a_warm_start_is_never_lost(tmp_path: Path) -> None:
    best = tuned(tmp_path / "a", trials=32)
    warm = tune_tasks("two", TASKS, trials=20, log=tmp_path / "a", jobs=1, seed=7)
    assert all((w.cycles or 0) <= (b.cycles or 0) for w, b in zip(warm.tasks, best.tasks))
