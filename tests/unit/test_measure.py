"""Measuring: every outcome is plain data."""

from __future__ import annotations

import dataclasses
import pickle
import random

import pytest

from autosched.errors import UnknownNameError
from autosched.measure import KINDS, Candidate, Result, measure
from autosched.schedule import Schedule
from autosched.target import get_target
from autosched.workloads import workload

NAME = "dense:m=1,k=64,n=48"


@pytest.fixture(scope="module")
def trace(vta_schedules):
    return tuple(vta_schedules.dense(random.Random(1).choice, NAME).trace.as_json())


def test_a_good_candidate_has_cycles_stats_and_a_hash(trace) -> None:
    result = measure(Candidate(NAME, "vta-de10", trace))
    assert result.ok
    assert result.cycles > 0
    assert len(result.program) == 64
    assert result.stats["gemm_counter"] == 4 * 3
    assert result.stats["out_store_nbytes"] == 48
    assert result == measure(Candidate(workload(NAME), get_target("vta-de10"), trace), execute=True)
    assert result == pickle.loads(pickle.dumps(result))


def test_a_named_workload_travels_as_its_name(trace) -> None:
    candidate = Candidate(workload(NAME), "vta-de10", trace)
    text = pickle.dumps(candidate)
    assert len(text) < len(pickle.dumps(trace)) + 400
    again = pickle.loads(text)
    assert again.workload is workload(NAME)
    assert measure(again) == measure(candidate)
    whole = dataclasses.replace(workload(NAME), recipe=None)
    assert measure(pickle.loads(pickle.dumps(Candidate(whole, "vta-de10", trace)))) == measure(candidate)


def test_faults_are_results(trace) -> None:
    # Unscheduled: nothing is on chip.
    raw = measure(Candidate(NAME, "vta-de10", ()))
    assert (raw.status, raw.cycles, raw.program) == ("lowering", None, None)
    # A trace of another program, a truncated one, one that names an unknown primitive, and no trace at all.
    for workload_name, steps in (
        ("t1", trace), (NAME, trace[1:]), (NAME, ({"op": "polish", "in": {}, "args": {}, "out": []},)), (NAME, "nonsense"),
    ):
        result = measure(Candidate(workload_name, "vta-de10", steps))
        assert result.status == "illegal", result
        assert result.reason
        assert "\n" not in result.reason
    good = measure(Candidate(NAME, "vta-de10", trace))
    capped = measure(Candidate(NAME, "vta-de10", trace), cap=good.cycles - 1)
    assert capped.status == "timeout"
    assert measure(Candidate(NAME, "vta-de10", trace), cap=good.cycles).ok


def test_too_large_for_the_machine_is_lowering() -> None:
    # All weights of t3 at once: 4096 elements in a memory of 1024.
    get_target("vta-de10")
    sch = Schedule(workload("t3").func)
    gemm = sch.get_block("dense")
    sch.cache_read(gemm, 0, "local.inp_buffer")
    sch.cache_read(gemm, 1, "local.wgt_buffer")
    for name in ("dense", "requant"):
        sch.set_scope(sch.get_block(name), 0, "local.acc_buffer")
    loops = sch.get_loops(gemm)
    sch.reorder(loops[4], loops[2], loops[3], loops[5])
    sch.decompose_reduction(gemm, loops[4])
    sch.tensorize(loops[2], "vta.gemm.1x16x16")
    result = measure(Candidate("t3", "vta-de10", tuple(sch.trace.as_json())))
    assert result.status == "lowering"
    assert "wgt" in result.reason


def test_another_result_is_a_mismatch(trace) -> None:
    task = workload(NAME)

    def wrong(*inputs):
        out = task.reference(*inputs).copy()
        out[0, 1, 0, 3] ^= 1
        return out

    result = measure(Candidate(dataclasses.replace(task, reference=wrong, recipe=None), "vta-de10", trace), execute=True)
    assert result.status == "mismatch"
    assert "out: 1 of 48 elements differ, first at (0, 1, 0, 3)" in result.reason
    assert result.program is not None


def test_mistakes_of_the_caller_are_raised(trace) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'vta-de10'"):
        measure(Candidate(NAME, "vta-de1", trace))
    with pytest.raises(UnknownNameError, match="unknown workload"):
        measure(Candidate("denser", "vta-de10", trace))


def test_kinds() -> None:
    assert {Result.failed(k, "r").status for k in KINDS} == set(KINDS)
    with pytest.raises(AssertionError):
        Result.failed("other", "r")


def test_a_race_is_a_failure_though_the_bytes_are_right(trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token of a program left out in turn: what still ends and is no longer ordered must not be called correct."""
    import importlib

    from sim import isa
    from sim.races import check_races
    from sim.tokens import CONSUMERS, PRODUCERS, flow

    module = importlib.import_module("autosched.measure.measure")
    task, target = workload(NAME), get_target("vta-de10")
    candidate = Candidate(NAME, "vta-de10", trace)
    assert measure(candidate, execute=True).ok
    real = module.lower_table
    whole = real(module.scheduled(task.func, list(candidate.trace), "fast"), target)
    state = flow(whole.table, None)
    pop, push = (isa.POP_PREV, isa.POP_NEXT, isa.POP_PREV, isa.POP_NEXT), (isa.PUSH_NEXT, isa.PUSH_PREV) * 2
    raced = 0
    for channel in range(4):
        gives = [i for i in range(len(whole.table)) if state.engine[i] == PRODUCERS[channel] and whole.table[i, push[channel]]]
        takes = [i for i in range(len(whole.table)) if state.engine[i] == CONSUMERS[channel] and whole.table[i, pop[channel]]]
        for give, take in zip(gives[:3], takes[:3]):
            table = whole.table.copy()
            table[give, push[channel]] = table[take, pop[channel]] = 0
            damaged = dataclasses.replace(whole, table=table)
            monkeypatch.setattr(module, "lower_table", lambda *_, damaged=damaged: damaged)
            races = check_races(damaged.program())
            result = measure(candidate, execute=True)
            if races:
                raced += 1
                assert not result.ok and result.status == "simulation"
                assert "no token orders instructions" in result.reason
            monkeypatch.setattr(module, "lower_table", real)
    assert raced > 2
