"""Replays share what common first instructions make, and nothing else."""

from collections.abc import Iterator

import pytest

from autosched import parse
from autosched.errors import ScheduleError
from autosched.ir import PrimFunc
from autosched.schedule import Schedule, Trace
from autosched.schedule.kit import prefixes
from autosched.script import T


@T.prim_func
def twice(A: T.Buffer((64, 64), "int32"), C: T.Buffer((64, 64), "int32")):
    B = T.sblock_alloc_buffer((64, 64), "int32")
    for i, j in T.grid(64, 64):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(64, 64):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    prefixes.forget()
    yield
    prefixes.forget()


def made(inner: int, outer: int = 8) -> Trace:
    """Two splits and a move; only the last split tells two of them apart."""
    sch = Schedule(twice, seed=1)
    b, c = sch.get_sblock("B"), sch.get_sblock("C")
    i, j = sch.get_loops(c)
    io, _ = sch.split(i, [outer, None])
    sch.split(j, [None, inner], names=["jo", "ji"])
    sch.compute_at(b, io)
    return sch.trace


def replay(trace: Trace, func: PrimFunc = twice) -> Schedule:
    sch = Schedule(func, seed=1)
    trace.apply_to_schedule(sch)
    return sch


def steps(func: PrimFunc, trace: Trace) -> int:
    """How many instructions a replay would take over."""
    sch = Schedule(func, seed=1)
    return prefixes.Prefixes(sch, lambda inst: "").skip(trace.insts, {})


def test_replays_among_others_give_what_they_give_alone() -> None:
    traces = [made(inner, outer) for outer in (4, 8) for inner in (2, 4, 8)] * 3
    alone = []
    for trace in traces:
        prefixes.forget()
        alone.append(replay(trace))
    prefixes.forget()
    for trace, expected in zip(traces, alone):
        got = replay(trace)
        assert got.func == expected.func and got.script() == expected.script()
        assert str(got.trace) == str(trace) and got.trace.as_json() == expected.trace.as_json()


def test_common_beginnings_are_shared() -> None:
    assert steps(twice, made(4)) == 0
    replay(made(4))
    assert steps(twice, made(4)) == len(made(4).insts)
    assert steps(twice, made(8)) == 4  # both look-ups, the loops and the first split
    assert steps(twice, made(4, outer=2)) == 3
    first, second = replay(made(4)), replay(made(8))
    assert steps(twice, made(8)) == len(made(8).insts)
    assert first.state.realizes.keys() == second.state.realizes.keys()
    assert next(iter(first.state.loops)) is next(iter(second.state.loops))  # the same loop of the same split


def test_a_schedule_goes_its_own_way_after_what_it_shares() -> None:
    for _ in range(3):
        replay(made(4))
    before = replay(made(4))
    text = before.script()
    sch = replay(made(4))
    sch.parallel("i_0")
    sch.split("ji", [2, None])
    assert before.script() == text == replay(made(4)).script() != sch.script()
    handles = {rv for s in (sch, before) for inst in s.trace.insts for rv in inst.outputs}
    assert len(handles) == sum(len(inst.outputs) for s in (sch, before) for inst in s.trace.insts)
    for inst in sch.trace.insts[:6]:
        assert all(rv is None or "of no schedule" not in repr(rv) for rv in inst.outputs)


def test_only_the_same_program_shares() -> None:
    replay(made(4))
    again = Schedule(twice).func
    assert steps(again, made(4)) == len(made(4).insts)
    text = twice.script().replace("* 2", "* 3")
    other = parse(text)
    assert isinstance(other, PrimFunc) and steps(other, made(4)) == 0
    for _ in range(4):
        assert "* 3" in replay(made(4), other).script() and "* 2" in replay(made(4)).script()


def test_what_is_begun_shares_nothing() -> None:
    for _ in range(3):
        replay(made(4))
    sch = Schedule(twice, seed=1)
    sch.get_sblock("B")
    assert prefixes.Prefixes(sch, lambda inst: "").skip(made(4).insts, {}) == 0


def test_what_is_drawn_is_drawn_again() -> None:
    sch = Schedule(twice, seed=1)
    i = sch.get_loops(sch.get_sblock("C"))[0]
    sch.split(i, sch.sample_perfect_tile(i, n=2))
    free = Trace([type(x)(x.op, x.args, x.outputs) for x in sch.trace.insts])  # decided anew in every replay
    seen = set()
    for seed in range(1, 9):
        other = Schedule(twice, seed=seed)
        free.apply_to_schedule(other)
        seen.add(other.script())
    assert len(seen) > 1
    assert steps(twice, sch.trace) == 2  # the look-ups before it


def test_a_refused_instruction_is_refused_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    good = made(4)
    bad = Trace([*good.insts[:-1], type(good.insts[-1])("parallel", {"loop": good.insts[0].outputs[0]})])
    for _ in range(4):
        replay(good)
        with pytest.raises(ValueError, match="cannot be a block") as error:
            replay(bad)
        assert "in instruction 5" in str(error.value.__notes__)


def test_no_more_than_the_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefixes, "LIMIT", 5)
    for inner in (2, 4, 8, 16):
        for _ in range(3):
            assert replay(made(inner)).func == replay(made(inner)).func
            assert len(prefixes._STEPS) <= 5


@T.prim_func
def early(A: T.Buffer((64, 64), "int32"), C: T.Buffer((64, 64), "int32"), D: T.Buffer((64, 64), "int32")):
    B = T.sblock_alloc_buffer((64, 64), "int32")
    E = T.sblock_alloc_buffer((64, 64), "int32")
    for i, j in T.grid(32, 64):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(64, 64):
        with T.sblock("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = A[vi, vj] * 3
    for i, j in T.grid(64, 64):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1
    for i, j in T.grid(64, 64):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = E[vi, vj] + 1


def test_what_was_taken_on_trust_is_no_beginning_of_a_checked_replay() -> None:
    """Half of what ``C`` reads is never written: who trusts does not ask, and who asks later is told all the same."""
    trusting = Schedule(early, seed=1, enable_check=False)
    trusting.compute_at("E", trusting.get_loops("D")[0])
    with pytest.raises(ScheduleError, match="not a stage pipeline"):
        replay(trusting.trace, early)
    again = Schedule(early, seed=1, enable_check=False)
    trusting.trace.apply_to_schedule(again)
    assert again.func == trusting.func
    with pytest.raises(ScheduleError, match="not a stage pipeline"):
        replay(trusting.trace, early)
    # What cannot be done at all is refused whoever trusts.
    with pytest.raises(ScheduleError, match="output block"):
        again.compute_at("D", again.get_loops("C")[0])
