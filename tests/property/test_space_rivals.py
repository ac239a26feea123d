"""Schedules that random primitives make, and not the space: none is below the machine bound; of the faster it is said why."""

from __future__ import annotations

import pytest
import rivals


@pytest.mark.filterwarnings("ignore:double_buffer")
def test_schedules_of_random_primitives_stay_above_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "SAMPLED", 4)
    monkeypatch.setattr(rivals, "DRAFTED", 1)  # a bad point, so that some are faster
    found = rivals.against("dense:m=3,k=96,n=32", 6, 4)
    assert sum(found.counts.values()) == 6 and found.counts["ran"] and not found.below and found.best >= found.bound
    assert all(found.bound <= cycles < found.best for cycles, _ in found.faster)
    assert found.faster and all(where.startswith(("tile", "outside: ")) for _, where in found.faster), found.faster


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:double_buffer")
@pytest.mark.parametrize("name", rivals.NAMES)
def test_many_stay_above_the_bound(name: str) -> None:
    assert not rivals.against(name, 200, 1).below
