"""The worker pool: order, one result per candidate, and workers that die."""

from pathlib import Path

import numpy as np

from autosched.measure import Candidate, measure
from autosched.search.pool import MeasurePool
from autosched.workloads import workload
from space import Space

SMALL = "dense:m=2,k=64,n=96"


def candidates(n: int) -> list[Candidate]:
    space = Space(workload(SMALL).func, "vta-de10")
    points = space.sample(np.random.default_rng(0), n)
    return [Candidate(SMALL, "vta-de10", tuple(space.trace(p).as_json())) for p in points]


def test_results_come_in_order_whatever_the_jobs() -> None:
    asked = candidates(7)
    expected = [measure(c) for c in asked]
    for jobs in (1, 2):
        with MeasurePool(jobs) as pool:
            assert list(pool.run(asked)) == expected
            assert list(pool.run(asked[:3])) == expected[:3]


def test_a_worker_that_dies_costs_its_candidate_only(tmp_path: Path) -> None:
    killer = tmp_path / "killer.py"
    killer.write_text("import os, signal\n\n\ndef f():\n    os.kill(os.getpid(), signal.SIGKILL)\n")
    asked = candidates(4)
    asked.insert(2, Candidate(f"{killer}:f", "vta-de10", ()))
    with MeasurePool(2) as pool:
        results = list(pool.run(asked))
        assert [r.status for r in results] == ["ok", "ok", "simulation", "ok", "ok"]
        assert "worker process died" in results[2].reason
        assert [r.status for r in pool.run(asked[:2])] == ["ok", "ok"]
