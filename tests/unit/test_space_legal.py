"""Points of spaces in corners: each passes all checks, fits its memories and computes what the program says."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.errors import ProgramError
from autosched.ir.stmt import PrimFunc
from autosched.measure import Candidate, measure
from autosched.search.space_sampler import to_params, to_point
from autosched.target import get_target
from autosched.workloads import workload
from space import Space


@pytest.mark.parametrize(("name", "where"), [
    # A bias that is loaded where only some products of a sum are left, which go on with a value from further out.
    ("conv2d:h=10,w=10,ci=32,co=32,k=1,pad=1", {"drop_zeros": 1}),
    ("conv2d:h=11,w=1,ci=48,co=48,k=3,pad=2,tail=cast", {"drop_zeros": 1}),
    ("conv2d_transpose:h=4,w=7,ci=64,co=32,k=7,pad=1,bias=1", {"drop_zeros": 1}),
    # A last tile of padding alone.
    ("conv2d:h=40,w=31,ci=32,co=16,k=1,pad=1,tail=cast", {"drop_zeros": 1}),
    ("conv2d:h=40,w=40,ci=48,co=48,k=1,pad=2,groups=48", {"drop_zeros": 1}),
    ("conv2d:h=29,w=40,ci=32,co=16,k=1,pad=1,stride=2", {"drop_zeros": 1}),
    # Windows that share elements, of which a stage reads several.
    pytest.param("max_pool2d:h=12,w=12,c=40,k=7,stride=4", {"sketch": 1}, marks=pytest.mark.slow),
])
def test_sampled_points_are_schedules(name: str, where: dict[str, int]) -> None:
    task = workload(name)
    space = Space(task.func, "vta-de10")
    points = space.sample(np.random.default_rng(3), 400)
    for column, value in where.items():
        points = points[points[:, space.names.index(column)] == value]
    assert len(points) > 9
    for n, point in enumerate(points[:9]):
        result = measure(Candidate(task, space.target, tuple(space.trace(point).as_json())), execute=n < 2)
        assert result.ok, (space.explain(point), result.reason)


def test_the_copy_beside_a_sum_that_goes_on_is_asked_for_itself() -> None:
    name = "conv2d:h=10,w=10,ci=32,co=32,k=1,pad=1"
    space = Space(workload(name).func, "vta-de10")
    row = space.point(sketch=1, head=4, tile_co=1, tile_y=3, tile_x=2, drop_zeros=1, order=5, load_bias=3, head_init=1)
    result = measure(Candidate(name, "vta-de10", tuple(space.trace(row).as_json())), execute=True)
    assert result.ok, result.reason


def relu(shape: tuple[int, ...]) -> PrimFunc:
    x = te.placeholder(shape, "int32", name="x")
    return te.create_prim_func([x, te.compute(shape, lambda *i: te.max(te.min(x(*i), 127), 0).astype("int8"), name="o")])


@pytest.mark.parametrize("shape", [(1,), (5,), (16,), (17,), (1, 16), (1, 17), (2, 16), (1, 1, 16), (1, 1, 1, 16)])
def test_results_of_a_single_vector(shape: tuple[int, ...], tmp_path: Path) -> None:
    func = relu(shape)
    report = autosched.tune(func, trials=2, jobs=1, log=tmp_path, cold=True)
    assert report.verified
    x = np.random.default_rng(0).integers(-300, 300, shape, np.int32)
    kernel = autosched.compile(func, log=tmp_path)
    assert np.array_equal(kernel(x), np.clip(x, 0, 127).astype(np.int8))


def test_rows_of_fewer_than_a_vector_are_reduced(tmp_path: Path) -> None:
    x = te.placeholder((5, 8), "int8", name="x")
    j = te.reduce_axis((0, 8), name="j")
    func = te.create_prim_func([x, te.compute((5,), lambda i: te.max(x[i, j], axis=j), name="m")])
    assert autosched.tune(func, trials=2, jobs=1, log=tmp_path, cold=True).verified
    given = np.random.default_rng(0).integers(-128, 128, (5, 8), np.int8)
    assert np.array_equal(autosched.compile(func, log=tmp_path)(given), given.max(axis=1))


def test_decisions_that_are_fixed_are_a_points_own() -> None:
    space = Space(workload("t2").func, "vta-de10", fixed={"tile_n": 8})
    point = space.point(load_weight=1, banks_weight=2)
    assert point[space.names.index("tile_n")] == 8
    assert (space.point(tile_n=8, load_weight=1, banks_weight=2) == point).all()
    with pytest.raises(ProgramError, match="decision tile_n=4: it is fixed, tile_n=8"):
        space.point(tile_n=4)
    layer = Space(workload("conv2d:h=10,w=10,ci=32,co=32,k=1,pad=1").func, "vta-de10", fixed={"sketch": 1})
    assert layer.point()[0] == 1


def test_a_form_has_every_value_that_is_fixed() -> None:
    space = Space(workload("conv2d:h=10,w=10,ci=32,co=32,k=1,pad=1").func, "vta-de10", fixed={"addend_first": 1, "banks_acc": 2})
    points = space.sample(np.random.default_rng(0), 200)
    assert len(points) == 200 and space.valid(points).all()


def test_a_schedule_that_is_given_twice_is_one_trial(tmp_path: Path) -> None:
    own = {"tile_n": 8, "load_weight": 1}
    cold = autosched.tune("t2", trials=2, jobs=1, log=tmp_path / "a", cold=True, enqueue=[own, {**own, "banks_weight": 2}, own])
    space = Space(workload("t2").func, "vta-de10")
    assert len(cold.history) == 2 == len(set(cold.history)), cold.history
    # So is one that the log has as its best.
    best = dict(zip(space.names, cold.point))
    warm = autosched.tune("t2", trials=3, jobs=1, log=tmp_path / "a", enqueue=[best])
    assert len(warm.history) == 3 and warm.history.count(cold.cycles) == 1


def test_what_a_form_does_not_have_is_as_it_is_by_default() -> None:
    space = Space(workload("max_pool2d:h=12,w=12,c=40,k=7,stride=4").func, "vta-de10")
    assert any(0 in values for name, values in zip(space.names, space.choices) if name.startswith("tile_"))
    zero = dict.fromkeys(space.names, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(len(space.sketches)):
            point = to_point(space, {**zero, "sketch": k})
            own = space.sketches[k]
            assert all(int(point[at]) in c.choices for at, c in zip(space.places(k), own.columns))
            space.repair(point[None])
    row = space.sample(np.random.default_rng(0), 1)[0]
    assert (to_point(space, to_params(space, row)) == row).all()


def test_a_space_where_hardly_anything_fits_has_points(tmp_path: Path) -> None:
    machine = tmp_path / "small.json"
    machine.write_text('{"semantics": "fsim", "LOG_INP_BUFF_SIZE": 17, "LOG_ACC_BUFF_SIZE": 9, "LOG_BLOCK": 5, "bus_bytes": 8, '
                       '"read_delay": 1, "queue_depth": 4}')
    space = Space(workload("add:m=11,n=336", 1, 32).func, get_target(str(machine)))
    for seed in range(4):
        points = space.sample(np.random.default_rng(seed), 5)
        assert 3 <= len(points) <= 5 and space.valid(points).all() and len(np.unique(points, axis=0)) == len(points)


@pytest.mark.parametrize("name", ["dense:m=3,k=16,n=16,bias=1", "residual:h=2,w=2,c=16"])
def test_a_size_is_no_less_than_what_draws_find(name: str) -> None:
    space = Space(workload(name).func, "vta-de10")
    count, exact = space.count()
    assert exact or count >= 100
