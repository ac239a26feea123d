"""The worker pool: order, one result per candidate, and workers that die or hang."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import ExecutorError, UnknownNameError
from autosched.measure import Candidate, measure
from autosched.search import pool as pool_module
from autosched.search.pool import MeasurePool
from autosched.workloads import workload
from space import Space

SMALL = "dense:m=2,k=64,n=96"


def candidates(n: int) -> list[Candidate]:
    space = Space(workload(SMALL).func, "vta-de10")
    points = space.sample(np.random.default_rng(0), n)
    return [Candidate(SMALL, "vta-de10", tuple(space.trace(p).as_json())) for p in points]


def saboteur(tmp_path: Path, body: str) -> Candidate:
    """A candidate whose worker runs ``body``: a program's file is loaded where the candidate is measured."""
    path = tmp_path / "saboteur.py"
    # The first look at a file, in a process of its own, is to find nothing.
    first = "    if multiprocessing.current_process().name == 'MainProcess':\n        return None\n"
    path.write_text("import multiprocessing, os, signal, time\n\n\ndef f():\n" + first + "    " + body + "\n    return None\n")
    return Candidate(f"{path}:f", "vta-de10", ())


@pytest.mark.parametrize(("jobs", "executor"), [(1, None), (2, None), (1, "loky"), (2, "serial")])
def test_results_come_in_order_whatever_the_jobs(jobs: int, executor: str | None) -> None:
    asked = candidates(7)
    expected = [measure(c) for c in asked]
    with MeasurePool(jobs, executor) as pool:
        assert list(pool.run(asked)) == expected
        assert list(pool.run(asked[:3])) == expected[:3]
        # Who stops listening gets the next batch all the same.
        assert next(iter(pool.run(asked))) == expected[0]
        assert list(pool.run(asked[2:])) == expected[2:]
        assert list(pool.run([])) == []


def test_a_candidate_that_kills_its_worker_twice_costs_itself_only(tmp_path: Path) -> None:
    asked = candidates(4)
    asked.insert(2, saboteur(tmp_path, f"open({str(tmp_path / 'tries')!r}, 'a').write('x'); os.kill(os.getpid(), 9)"))
    with MeasurePool(2) as pool:
        pool.each = 0.02  # two or three candidates per call: the innocent ones are in one boat with the killer
        results = list(pool.run(asked))
        assert [r.status for r in results] == ["ok", "ok", "environment", "ok", "ok"]
        assert results[2].reason == "its worker process died, 2 times"
        assert (tmp_path / "tries").read_text() == "xx"
        assert [r.status for r in pool.run(asked[:2])] == ["ok", "ok"]


def test_a_candidate_that_kills_its_worker_once_is_measured(tmp_path: Path) -> None:
    once = saboteur(tmp_path, f"m = {str(tmp_path / 'mark')!r}; os.path.exists(m) or (open(m, 'w'), os.kill(os.getpid(), 9))")
    asked = [*candidates(3), once]
    with MeasurePool(2) as pool, pytest.raises(Exception, match="expected a PrimFunc"):
        # That its program is none is found at the second try: the first did not get so far.
        list(pool.run(asked))
    assert (tmp_path / "mark").exists()


def test_a_candidate_that_never_ends_is_given_up(tmp_path: Path) -> None:
    asked = candidates(4)
    asked.insert(1, saboteur(tmp_path, "time.sleep(3600)"))
    with MeasurePool(2) as pool:
        list(pool.run(asked[2:]))
        pool.patience = 10.0
        results = list(pool.run(asked))
    assert [r.status for r in results] == ["ok", "environment", "ok", "ok", "ok"]
    assert results[1].reason == "no result after 10 seconds, 2 times"


def test_what_has_no_result_when_time_is_up_is_never_given(tmp_path: Path) -> None:
    asked = candidates(3)
    asked.insert(1, saboteur(tmp_path, "time.sleep(3600)"))
    with MeasurePool(2) as pool:
        batch = pool_module._Batch(pool, asked, None)
        results = batch.results()
        assert next(results).ok
        batch.until = time.monotonic()
        assert list(results) == []
        batch.abandon()
        # The worker that hangs is not waited for, and not counted on.
        pool.strays = dict.fromkeys(pool.strays, 0.0)
        assert [r.status for r in pool.run([asked[0], *asked[2:]])] == ["ok", "ok", "ok"]
    with MeasurePool(1) as serial:
        assert list(serial.run(asked, until=time.monotonic())) == []


@contextmanager
def broken_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from autosched.search import executors

    monkeypatch.setattr(executors, "ready", _die)
    yield


def _die() -> None:
    import os

    os._exit(1)


def test_workers_that_never_start_are_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "FALSE_STARTS", 1)
    with broken_start(monkeypatch), MeasurePool(2) as pool, pytest.raises(ExecutorError, match="ended before they could begin"):
        list(pool.run(candidates(3)))


def test_executors_have_names() -> None:
    with pytest.raises(UnknownNameError, match="unknown executor 'lokky'; did you mean 'loky'"):
        MeasurePool(2, "lokky")
