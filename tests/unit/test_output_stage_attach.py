"""A matmul whose output stage is to move into the compute loops: where it may go, and what each place means."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from refusals import refused

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir.interp import run
from autosched.ir.printer import script
from autosched.ir.stmt import PrimFunc
from autosched.schedule import LoopRV, Schedule, Trace
from autosched.script import T


@T.prim_func
def dense(
    a_in: T.Buffer((32, 64), "int8"), b_in: T.Buffer((64, 48), "int8"), bias: T.Buffer((32, 48), "int32"),
    res: T.Buffer((32, 48), "int8"),
):
    res_local = T.sblock_alloc_buffer((32, 48), "int32", scope="local.accumulator")
    for i, j, k in T.grid(32, 48, 64):
        with T.sblock("res_local"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                res_local[vi, vj] = 0
            res_local[vi, vj] += T.Cast("int32", a_in[vi, vk]) * T.Cast("int32", b_in[vk, vj])
    for i, j in T.grid(32, 48):
        with T.sblock("res"):
            vi, vj = T.axis.remap("SS", [i, j])
            res[vi, vj] = T.Cast("int8", res_local[vi, vj] + bias[vi, vj])


def tiled() -> tuple[Schedule, dict[str, LoopRV]]:
    sch = Schedule(dense)
    data = sch.cache_read("res_local", 0, "local.scratchpad")
    weight = sch.cache_read("res_local", 1, "local.scratchpad_weight")
    i, j, k = sch.get_loops("res_local")
    i_o, i_i = sch.split(i, [None, 16])
    j_o, j_i = sch.split(j, [None, 16])
    k_o, k_i = sch.split(k, [None, 16])
    sch.reorder(i_o, j_o, k_o, k_i, j_i, i_i)
    sch.compute_at(data, k_o)
    sch.compute_at(weight, k_o)
    return sch, {"i_o": i_o, "j_o": j_o, "k_o": k_o}


def result(func: PrimFunc) -> np.ndarray:
    rng = np.random.default_rng(7)
    arrays = [rng.integers(-128, 128, s).astype(np.int8) for s in ((32, 64), (64, 48))]
    return run(func, *arrays, rng.integers(-1000, 1000, (32, 48)).astype(np.int32))["res"]


@pytest.mark.parametrize("place", ["i_o", "j_o"])
def test_the_output_moves_into_the_spatial_loops(place: str) -> None:
    sch, loops = tiled()
    sch.reverse_compute_at("res", loops[place])
    names = [sch.get(loop).var.name for loop in sch.get_loops("res")]
    assert sch.get(loops[place]).var.name in names
    assert np.array_equal(result(sch.func), result(dense))


def test_under_the_reduction_it_is_refused_with_the_cost() -> None:
    sch, loops = tiled()
    before = sch.func
    with pytest.raises(ScheduleError) as caught:
        sch.reverse_compute_at("res", loops["k_o"])
    text = str(caught.value)
    assert "k_0 belongs to the reduction of res_local" in text
    assert "would store res 4 times" in text
    assert 'sch.reverse_compute_at("res", "j_0")' in text
    assert "last_iteration=True" in text
    assert len(text.splitlines()) <= 15
    assert str(pickle.loads(pickle.dumps(caught.value))) == text
    assert sch.func is before


def test_on_request_it_runs_in_the_last_iteration() -> None:
    sch, loops = tiled()
    sch.reverse_compute_at("res", loops["k_o"], last_iteration=True)
    assert "T.where(k_0 == 3)" in script(sch.func)
    assert np.array_equal(result(sch.func), result(dense))
    again = Schedule(dense)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.func == sch.func


@pytest.mark.parametrize("early", [True, False])
def test_also_when_the_initialisation_stands_outside(early: bool) -> None:
    sch, loops = tiled()
    if early:
        sch.decompose_reduction("res_local", loops["k_o"])
    with refused(ScheduleError, "reduction"):
        sch.reverse_compute_at("res", loops["k_o"])
    sch.reverse_compute_at("res", loops["k_o"], last_iteration=True)
    if not early:
        sch.decompose_reduction("res_local", loops["k_o"])
    assert np.array_equal(result(sch.func), result(dense))


def test_a_fused_loop_has_no_last_iteration() -> None:
    sch = Schedule(dense)
    i, j, k = sch.get_loops("res_local")
    sch.reorder(j, i, k)
    fused = sch.fuse(i, k)
    with refused(ScheduleError, "reduction"):
        sch.reverse_compute_at("res", fused, last_iteration=True)


def test_the_second_output_stage_follows_the_first() -> None:
    sch, loops = tiled()
    sch.cache_write("res", 0, "local.out")
    assert sorted(b.name for b in sch.state.children_of(sch.state.root)) == sorted(
        ["a_in_local.scratchpad", "b_in_local.scratchpad_weight", "res_local", "res", "res_local.out"]
    )
    sch.reverse_compute_at("res", loops["k_o"], last_iteration=True)
    with refused(ScheduleError, "reduction"):
        sch.reverse_compute_at("res_local.out", loops["k_o"])
    sch.reverse_compute_at("res_local.out", loops["k_o"], last_iteration=True)
    assert script(sch.func).count("T.where(k_0 == 3)") == 2
    assert np.array_equal(result(sch.func), result(dense))


@pytest.mark.parametrize("inside", [True, False])
def test_a_bias_inside_the_sum_is_flagged(inside: bool) -> None:
    a, b = te.placeholder((8, 16), "int8", name="a_in"), te.placeholder((16, 4), "int8", name="b_in")
    bias, k = te.placeholder((8, 4), "int32", name="bias_in"), te.reduce_axis((0, 16), name="k_o")
    product = lambda i, j: a[i, k].astype("int32") * b[k, j].astype("int32")  # noqa: E731
    term = (lambda i, j: product(i, j) + bias[i, j]) if inside else product
    res = te.compute((8, 4), lambda i, j: te.sum(term(i, j), axis=k), name="res")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        te.create_prim_func([a, b, bias, res])
    told = [str(w.message) for w in caught]
    assert told == (["res: bias_in[i, j] is inside the sum and does not depend on k_o: it is added 16 times"] if inside else [])
