"""The shipped schedules: each replays to the recorded cycles, and is found where nothing else is logged."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

import tuning_logs
from autosched.measure import Candidate, measure
from autosched.records import BestRecord, Log, find_best
from autosched.target import get_target
from autosched.workloads import workload
from space import VERSION, Space


@functools.cache
def records() -> list[BestRecord]:
    found = []
    for target in tuning_logs.targets():
        path = tuning_logs.shipped(target)
        assert path is not None
        log = Log(path.parent, (path,))
        assert log.damaged == 0
        for _, workload_key, hardware in log.tasks():
            assert hardware == get_target(target).key()
            found.append(log.bests(workload_key, hardware)[0])
    return found


def test_the_layers_of_resnet18_are_shipped() -> None:
    names = {r.name for r in records() if r.target == "vta-de10"}
    assert {f"resnet18.c{n}" for n in range(2, 12)} | {"t1", "t2", "t3", "t4"} <= names


def shipped_once() -> list[object]:
    """All; of those with the schedule of another machine's, which are replayed alike, the first in CI."""
    first: dict[tuple[str, str], str] = {}
    found: list[object] = []
    for r in records():
        same = first.setdefault((r.workload, json.dumps(r.trace)), r.target) != r.target
        found.append(pytest.param(r, marks=[pytest.mark.slow] if same else [], id=f"{r.target}-{r.name}"))
    return found


@pytest.mark.parametrize("record", shipped_once())
def test_a_shipped_schedule_gives_its_cycles(record: BestRecord) -> None:
    result = measure(Candidate(record.name, record.target, record.trace))
    assert result.ok, result.reason
    assert (result.cycles, result.program) == (record.cycles, record.program)
    assert record.verified and record.bound <= record.cycles
    # ``explain`` changes its decisions: after a change of the space, ``python .ci/shipped.py --again`` finds them again.
    assert record.space == VERSION and record.point
    assert record.workload == workload(record.name).key and record.hardware == get_target(record.target).key()


@pytest.mark.parametrize("record", [r for r in records() if r.of.space == VERSION], ids=lambda r: f"{r.target}-{r.name}")
def test_a_shipped_point_is_still_its_schedule(record: BestRecord) -> None:
    """Points of one version of the space mean one thing: whoever changes it raises ``space.VERSION``."""
    space = Space(workload(record.name).func, record.target)
    point = np.array(record.point, dtype=np.int32)
    assert space.valid(point[None]).all()
    assert tuple(space.trace(point).as_json()) == record.trace
    # What was proven once stays proven.
    assert record.bound <= space.machine_bound() <= record.cycles
    assert space.bound(point[None])[0] <= record.cycles


def test_shipped_schedules_are_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = get_target("vta-de10")
    task = workload("resnet18.c11")
    best = find_best(task.func, target)
    assert best is not None and best.run == "shipped"
    (tmp_path / "empty").mkdir()
    assert find_best(task.func, target, tmp_path / "empty") is None
