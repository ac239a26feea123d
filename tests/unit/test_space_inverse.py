"""From a schedule back to its point: every point is found again, and what is no point's is refused with the step in the way."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.errors import ProgramError
from autosched.measure import Candidate, measure
from autosched.records import Log
from autosched.schedule import Schedule
from autosched.schedule.kit.trace import Trace
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.inverse import _keys, _reads, _steps

NAMES = ("dense:m=4,k=64,n=64", "max_pool2d:h=8,w=8,c=16,k=2,stride=2")


@pytest.mark.parametrize("name", NAMES)
def test_a_point_is_found_again(name: str) -> None:
    space = Space(workload(name).func, "vta-de10")
    for point in space.sample(np.random.default_rng(1), 2):
        assert space.point_of(Trace.from_json(space.trace(point).as_json())).tolist() == point.tolist()


@pytest.mark.parametrize("decisions", [
    {"head": 1, "tile_m": 1, "tile_n": 2, "order": 1, "load_weight": 3, "head_k": 1, "keep_weight": 1, "banks_acc": 2},
    {"head": 3, "tile_m": 2, "tile_n": 1, "load_data": 1, "keep_data": 1, "banks_acc": 2},
])
def test_what_makes_sense_only_together_is_found_too(decisions: dict[str, int]) -> None:
    """A first part as large as a tile is one only where it loads something for the others."""
    space = Space(workload(NAMES[0]).func, "vta-de10")
    point = space.point(**decisions)
    assert space.point_of(space.trace(point)).tolist() == point.tolist()


def test_what_the_first_and_the_last_part_do_stays_where_the_others_are_tiled_anew() -> None:
    space = Space(workload("conv2d:h=4,w=4,ci=32,co=64,k=3,pad=1").func, "vta-de10")
    point = space.point(
        cut=3, tile_co=2, tile_y=3, tile_x=1, tile_ci=1, tile_ky=1, tile_kx=1, last_ci=2, last_kx=3, drop_zeros=1, order=4,
        load_data=1, load_kernel=7, banks_data=2, banks_kernel=2,
    )
    assert space.point_of(space.trace(point)).tolist() == point.tolist()


def test_steps_differ_where_parts_have_other_sizes() -> None:
    """Whatever follows from them; of a split the number of tiles does, of parts the size of the last."""
    space = Space(workload("residual:h=6,w=6,c=96").func, "vta-de10")

    def keys(op: str, **decisions: int) -> list[str]:
        row = space.repair(np.zeros((1, space.width), dtype=np.int32))[0][0]
        for name, value in decisions.items():
            row[space.names.index(name)] = value
        steps = _steps(space.trace(row))
        return [key for step, key in zip(steps, _keys(steps, _reads(space))) if step["op"] == op]

    assert keys("partition_block", head=1) != keys("partition_block", head=2)
    # Rows of a tile, two of them and three, in tiles of three channels: of a split the number of tiles follows.
    two, three = keys("split", tile_c=3, tile_y=2), keys("split", tile_c=3, tile_y=3)
    assert two[0] == three[0] and two[1] != three[1]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable", "vta-pynq"])
def test_what_ships_is_found_by_its_steps(target: str) -> None:
    path = Path(__file__).parents[2] / "tuning_logs" / f"{target}.jsonl"
    missing = []
    for record in Log(path.parent, (path,)).all_bests():
        machine = get_target(target)
        space = Space(workload(record.name, machine.config.batch, machine.config.block_in).func, machine)
        try:
            point = space.point_of(Trace.from_json(list(record.trace)), anyhow=True)
        except ProgramError as error:
            assert "no point of the space is known" in str(error)
            missing.append(record.name)
            continue
        assert measure(Candidate(record.name, target, tuple(space.trace(point).as_json()))).cycles == record.cycles
    # It is a search, and says so.
    assert len(missing) <= 2, missing


def test_a_form_may_have_been_made_by_other_steps() -> None:
    space = Space(workload("dense:m=2,k=32,n=16,bias=1").func, "vta-de10")
    assert len(space.sketches) > 1
    for form in range(len(space.sketches)):
        point = next(p for p in space.sample(np.random.default_rng(0), 64) if p[0] == form)
        steps = [{"op": "get_sblock", "in": {}, "args": {"name": "root"}, "out": ["b999"]}, *space.trace(point).as_json()]
        assert space.point_of(Trace.from_json(steps)).tolist() == point.tolist()
        assert space.point_of(Trace.from_json(steps), anyhow=True).tolist() == point.tolist()
    with pytest.raises(ProgramError, match="another form than any of the space's"):
        space.point_of(Trace.from_json(steps[:1]), anyhow=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conv2d:h=8,w=8,ci=32,co=48,k=3,pad=1", "dense:m=12,k=96,n=96", "residual:h=4,w=4,c=32"])
def test_more_points_are_found_again(name: str) -> None:
    space = Space(workload(name).func, "vta-de10")
    found = 0
    for point in space.sample(np.random.default_rng(2), 12):
        try:
            assert space.point_of(space.trace(point)).tolist() == point.tolist(), space.explain(point)
            found += 1
        except ProgramError as error:
            assert "no point of the space is known" in str(error)
    # It is a search, and says so.
    assert found >= 10


def test_what_is_no_point_says_where_it_leaves_the_space() -> None:
    func = workload("dense:m=2,k=32,n=32").func
    space = Space(func, "vta-de10")
    point = space.sample(np.random.default_rng(1), 1)[0]
    sch = space.schedule(point)
    assert space.point_of(sch).tolist() == point.tolist()
    loop = sch.get_loops(sch.get_sblock("out"))[-3]
    sch.annotate(loop, "note", 1)
    assert space.point_of(sch).tolist() == point.tolist(), "what lowering does not read changes no program"
    sch.annotate(loop, "vta.loop", "unroll")
    assert space.point_of(sch).tolist() == point.tolist(), "stores of elements that follow each other are one"
    sch.annotate(sch.get_loops(sch.get_sblock("requant"))[-3], "vta.loop", "unroll")
    with pytest.raises(ProgramError, match=r"is known to have step \d+ of \d+: .*no decision of a rule has these values"):
        space.point_of(sch)
    with pytest.raises(ProgramError, match="another form than any of the space's"):
        Space(workload("max_pool2d:h=8,w=8,c=16,k=2,stride=2").func, "vta-de10").point_of(Schedule(func))


def recorded_points() -> dict[str, dict[str, list[Any]]]:
    """Points of version 3 of the space, 40 of each workload, with the traces of a few."""
    with lzma.open(Path(__file__).parent.parent / "data" / "points_version3.json.xz", "rt", encoding="utf-8") as file:
        recorded: dict[str, dict[str, list[Any]]] = json.load(file)
    for found in recorded.values():
        # Banks were counted from the second one on.
        found["points"] = [{n: v + n.startswith("banks_") for n, v in point.items()} for point in found["points"]]
    return recorded


def test_points_of_an_old_version_are_points_of_this_one() -> None:
    """By the same decisions; those that are new since then have their defaults."""
    for name, found in recorded_points().items():
        space = Space(workload(name).func, "vta-de10")
        plain = next(k for k, sketch in enumerate(space.sketches) if not sketch.done)
        known = set(space.sketches[plain].names)
        rows = []
        for decisions in found["points"]:
            assert {n for n, value in decisions.items() if n not in known and value} <= {"tile_n"}, "an axis of one step"
            rows.append(space.point(sketch=plain, **{n: value for n, value in decisions.items() if n in known}))
        assert len(rows) == 40 and space.valid(np.stack(rows)).all(), name


@pytest.mark.parametrize("name", ["t1", "t2"])
def test_a_trace_of_an_old_version_is_a_point_with_its_program(name: str) -> None:
    """Its steps came in another order."""
    space, found = Space(workload(name).func, "vta-de10"), recorded_points()[name]
    known = set(space.sketches[0].names)
    for trace, decisions in zip(found["traces"], found["points"][5:7]):
        point = space.point_of(Trace.from_json(trace))
        assert point.tolist() == space.point(**{n: v for n, v in decisions.items() if n in known}).tolist()
        programs = {measure(Candidate(name, "vta-de10", tuple(steps))).program for steps in (trace, space.trace(point).as_json())}
        assert len(programs) == 1
