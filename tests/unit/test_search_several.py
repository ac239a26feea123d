"""Several tasks under one budget: what is tried depends on trials alone, and what is told is one run."""

from __future__ import annotations

from pathlib import Path

from autosched.search import Event, NetworkReport, RunFinished, RunStarted, TaskFinished, TaskStarted, TrialEvent, tune_tasks
from autosched.workloads import workload

TASKS = [(workload("dense:m=1,k=64,n=64"), 1), (workload("dense:m=2,k=64,n=96"), 5)]


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


def test_a_warm_start_is_never_lost(tmp_path: Path) -> None:
    best = tuned(tmp_path / "a", trials=32)
    warm = tune_tasks("two", TASKS, trials=20, log=tmp_path / "a", jobs=1, seed=7)
    assert all((w.cycles or 0) <= (b.cycles or 0) for w, b in zip(warm.tasks, best.tasks))
