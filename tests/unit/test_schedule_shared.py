"""Replays share what instructions make that are decided by the same, and nothing else."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from autosched import parse
from autosched.errors import ProgramError, ScheduleError
from autosched.ir import PrimFunc
from autosched.kernel import replay as replayed
from autosched.kernel import scheduled
from autosched.schedule import Schedule, Trace
from autosched.schedule.kit import beginnings, once, shared
from autosched.schedule.kit.primitive import Primitive, lookup
from autosched.schedule.kit.trace import Instruction
from autosched.schedule.kit.trace import _instruction as plain
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
    shared.forget()
    yield
    shared.forget()


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


def beginning(sch: Schedule) -> shared.Shared:
    return shared.Shared(sch, lambda inst: "", lambda inst: lookup(inst.op).depends(inst.args))


def steps(func: PrimFunc, trace: Trace, begun: Schedule | None = None) -> int:
    """How many first instructions a replay would take over."""
    going = beginning(begun or Schedule(func, seed=1))
    return next((k for k, inst in enumerate(trace.insts) if not going.take(inst)), len(trace.insts))


def test_replays_among_others_give_what_they_give_alone() -> None:
    traces = [made(inner, outer) for outer in (4, 8) for inner in (2, 4, 8)] * 3
    alone = []
    for trace in traces:
        shared.forget()
        alone.append(replay(trace))
    shared.forget()
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
    assert steps(twice, made(4), sch) == 0


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
    monkeypatch.setattr(shared, "LIMIT", 5)
    for inner in (2, 4, 8, 16):
        for _ in range(3):
            assert replay(made(inner)).func == replay(made(inner)).func
            assert len(shared._STEPS) <= 5


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


# -- on trust: less than the whole program decides ------------------------------------------------------------------------


@T.prim_func
def halves(A: T.Buffer((64, 64), "int32"), W: T.Buffer((64,), "int32"), C: T.Buffer((64, 64), "int32")):
    B = T.sblock_alloc_buffer((64, 64), "int32")
    for i, j in T.grid(64, 64):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * W[vj]
    for i, j in T.grid(64, 64):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + W[vj]


def in_parts(first: int, second: int, cut: int = 32, turned: bool = True, backwards: bool = False) -> Trace:
    """Two parts of ``C``, each with its own ``B``, tile and copies; what both read is loaded once, through two copies."""
    sch = Schedule(halves, seed=1)
    c = sch.get_sblock("C")
    parts = sch.partition_block(sch.get_loops(c)[0], [cut, None])
    stages = sch.recompute_at_consumers(sch.get_sblock("B"))
    nests = [*zip(parts, stages, (first, second))]
    for part, stage, size in nests[::-1] if backwards else nests:
        outer, _ = sch.split(sch.get_loops(part)[0], [None, size])
        sch.compute_at(stage, outer, preserve_unit_loops=True)
        copy = sch.cache_read(stage, "A", "local.inp_buffer", consumer_blocks=[stage])
        sch.compute_at(copy, outer, preserve_unit_loops=True)
        sch.annotate(copy, "vta.first", 1)
    weight = sch.cache_read(stages[0], "W", "local.inp_buffer")
    sch.cache_read(weight, "W", "local.inp_buffer")
    if turned:
        sch.transform_layout(weight, ("write", 0), lambda i: (i // 16, i % 16))
    for part in parts:
        sch.annotate(part, "note", 1)
    return sch.trace


def trusted(trace: Trace, func: PrimFunc = halves) -> Schedule:
    sch = Schedule(func, seed=1, enable_check=False)
    trace.apply_to_schedule(sch)
    return sch


@pytest.fixture
def carried_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The primitives that replays carry out, in order."""
    found: list[str] = []
    invoke = Primitive.invoke

    def noted(self: Primitive, *args: Any) -> Any:
        found.append(self.name)
        return invoke(self, *args)

    monkeypatch.setattr(Primitive, "invoke", noted)
    return found


def test_a_part_is_made_once_whatever_the_other_is(carried_out: list[str]) -> None:
    trusted(in_parts(8, 4))
    carried_out.clear()
    trusted(in_parts(8, 4))
    assert not carried_out
    trusted(in_parts(8, 16))
    # The second part's tile, and what both parts read, for the part that is new.
    assert carried_out == [
        "split", "compute_at", "cache_read", "compute_at", "annotate", "cache_read", "cache_read", "transform_layout", "annotate",
    ]
    carried_out.clear()
    trusted(in_parts(2, 16))
    assert carried_out.count("split") == 1 and carried_out.count("annotate") == 2
    carried_out.clear()
    trusted(in_parts(2, 4))
    assert not carried_out, "both parts and all that they share are known, from different programs"


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("step", "out", "said"), [
    ("get_loops", ["l1", "b2"], "result 1 of get_loops is a loop here and a block"),
    ("split", ["v3", "l4"], "result 0 of split is a loop here and a sampled integer"),
    ("cache_read", ["l1"], "result 0 of cache_read is a block here and a loop"),  # the name of a loop that is there
])
def test_results_are_what_they_are_and_not_what_a_trace_calls_them(step: str, out: list[str], said: str, check: bool) -> None:
    sch = Schedule(halves, seed=1)
    i, _ = sch.get_loops("C")
    sch.split(i, [None, 8])
    sch.cache_read("C", "B", "local.acc_buffer")
    good = sch.trace.as_json()
    at = next(k for k, s in enumerate(good) if s["op"] == step)
    bad = [{**s, "out": out} if k == at else s for k, s in enumerate(good)]
    expected = scheduled(halves, good, check=check).script()
    for _ in range(2):  # what others have made is known the second time
        with pytest.raises(ProgramError, match=said):
            scheduled(halves, bad[: at + 1], check=check)
        with pytest.raises(ProgramError, match=said):
            replayed(halves, bad[: at + 1], check=check)
        assert scheduled(halves, good, check=check).script() == expected


def test_checked_steps_are_decided_by_the_whole_program(carried_out: list[str]) -> None:
    traces = in_parts(8, 4), in_parts(2, 4)
    carried_out.clear()
    replay(traces[0], halves)
    before = len(carried_out)
    replay(traces[1], halves)
    assert carried_out[before:] == carried_out[carried_out.index("split") : before]


def test_parts_of_other_programs_are_as_good() -> None:
    flags = (True, False)
    traces = [in_parts(*choice) for choice in product((2, 8), (4,), (16, 32), flags, flags)]
    alone = []
    for trace in traces:
        shared.forget()
        once.forget()
        alone.append(trusted(trace))
    shared.forget()
    for _ in range(2):
        for trace, expected in zip(traces, alone):
            got = trusted(trace)
            assert got.script() == expected.script() == replay(trace, halves).script()
            assert scheduled(halves, trace, check=False).script() == got.script()
            assert str(got.trace) == str(expected.trace) and got.trace.as_json() == expected.trace.as_json()
            buffers = [b for r in got.state.realizes.values() for b in r.block.alloc_buffers]
            assert len(set(buffers)) == len(buffers)
            got.split(got.get_loops(got.get_sblock("C_i1"))[-1], [None, 8])  # handles and tables are those of this program
        traces, alone = traces[::-1], alone[::-1]


@T.prim_func
def padded(A: T.Buffer((16,), "int32"), W: T.Buffer((3,), "int32"), C: T.Buffer((16,), "int32")):
    P = T.sblock_alloc_buffer((18,), "int32")
    for i in range(18):
        with T.sblock("P"):
            vi = T.axis.spatial(18, i)
            P[vi] = T.if_then_else(vi >= 1 and vi < 17, A[vi - 1], 0)
    for i, k in T.grid(16, 3):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + P[vi + vk] * W[vk]


def test_what_another_statement_decides_is_asked_of_it(carried_out: list[str]) -> None:
    """Which terms are zero the padding says, which stands in a statement of its own; tiles do not ask for it."""

    def trace(size: int) -> Trace:
        sch = Schedule(padded, seed=1)
        sch.decompose_reduction("C", sch.get_loops("C")[0])
        sch.split(sch.get_loops("P")[0], [None, size])
        sch.split(sch.get_loops("C_update")[0], [None, 4])
        sch.drop_zero_terms("C_update")
        return sch.trace

    first, second = trace(2), trace(3)
    trusted(first, padded)
    carried_out.clear()
    trusted(second, padded)
    # Names are looked up in the whole program.
    assert [op for op in carried_out if op != "get_sblock"] == ["split", "drop_zero_terms"]


def test_who_looks_farther_than_it_says_is_not_shared(carried_out: list[str]) -> None:
    """What is copied of a buffer that one block alone reads is less than of one that others read, too."""

    def trace(both: bool) -> Trace:
        sch = Schedule(guarded, seed=1)
        if not both:
            sch.annotate("D", "note", 1)
        sch.cache_read("C", "A", "local", consumer_blocks=[sch.get_sblock("C")])
        return sch.trace

    first, second = trace(True), trace(False)
    carried_out.clear()
    trusted(first, guarded)
    trusted(second, guarded)
    assert carried_out.count("cache_read") == 2


@T.prim_func
def guarded(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), D: T.Buffer((64,), "int32")):
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            for j in range(8):
                with T.sblock("C_i"):
                    vj = T.axis.spatial(8, j)
                    T.where(vi * 8 + j < 60)
                    C[vi * 8 + vj] = A[vi * 8 + vj]
    for i in range(64):
        with T.sblock("D"):
            vi = T.axis.spatial(64, i)
            D[vi] = A[vi]


def test_what_the_root_allocates_is_asked_for_in_its_order() -> None:
    """The same statements may have come about in another order."""

    def trace(order: tuple[int, ...]) -> Trace:
        sch = Schedule(halves, seed=1)
        sch.partition_block(sch.get_loops(sch.get_sblock("C"))[0], [16, 16, None])
        stages = sch.recompute_at_consumers(sch.get_sblock("B"))
        for k in order:
            sch.cache_read(stages[k], "A", "local.inp_buffer", consumer_blocks=[stages[k]])
        sch.cache_read(stages[0], "W", "local.inp_buffer")
        return sch.trace

    expected = replay(trace((2, 1)), halves)
    trusted(trace((1, 2)))
    assert trusted(trace((2, 1))).script() == expected.script()


def test_what_was_forgotten_is_mixed_with_nothing() -> None:
    traces = in_parts(8, 4), in_parts(8, 16)
    for _ in range(2):
        for trace in traces:
            expected = replay(trace, halves).func
            for key in [k for k in once._MADE if k[0] == "cached"]:
                del once._MADE[key]
            assert trusted(trace).func == expected


def test_loops_have_no_history_in_a_schedule_that_begins_behind_it() -> None:
    def trace(func: PrimFunc, split: bool) -> Trace:
        sch = Schedule(func, seed=1)
        loops = sch.get_loops("C")
        sch.fuse(*(sch.split(loops[0], [8, None]) if split else loops[:2]))
        return sch.trace

    whole = trace(twice, True)
    behind = trusted(Trace(whole.insts[:-1]), twice).func
    assert "for i, j" in trusted(whole, twice).script()
    assert "for i_0_i_1_fused, j" in trusted(trace(behind, False), behind).script()


@T.prim_func
def read_twice(
    A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), D: T.Buffer((64,), "int32"), E: T.Buffer((64,), "int32")
):
    B = T.sblock_alloc_buffer((64,), "int32")
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * 2
    for i in range(64):
        with T.sblock("E"):
            vi = T.axis.spatial(64, i)
            E[vi] = A[vi]
    for i in range(64):
        with T.sblock("C"):
            vi = T.axis.spatial(64, i)
            C[vi] = B[vi] + 1
    for i in range(64):
        with T.sblock("D"):
            vi = T.axis.spatial(64, i)
            D[vi] = B[vi] + 2


def test_what_others_do_with_a_block_s_tensors_is_asked_for() -> None:
    """Whether ``B`` may move to ``C`` hangs on ``D``, which reads it, too; what only reads as ``B`` does is of no matter."""
    sch = Schedule(read_twice, seed=1, enable_check=False)
    b, c = sch.get_sblock("B"), sch.get_sblock("C")
    loop = sch.get_loops(c)[0]
    going = beginning(Schedule(read_twice, enable_check=False))
    for inst in sch.trace.insts:
        going.take(inst)
        going.begin(inst)
        going.keep(inst, lookup(inst.op).invoke(going.sch, {k: shared.moved(v, going.rv_map) for k, v in inst.args.items()}))

    def asked(resident: bool | None) -> tuple[object, ...]:
        args = {"block": b, "loop": loop, "preserve_unit_loops": True, "index": -1, "resident": resident}
        return going._ask(Instruction("compute_at", args)).key or ()

    stmts = going.program[0]
    assert (1, id(stmts[1])) not in asked(None) and (2, id(stmts[3])) in asked(None)
    assert (2, id(stmts[3])) not in asked(True), "what is loaded to stay may have readers elsewhere"
    with pytest.raises(ScheduleError, match="D is outside it"):
        sch.compute_at(b, loop)


def objects(trace: Trace) -> list[dict[str, Any]]:
    """The JSON of a trace, as a process gets it: nothing in it is an object of another one."""
    found: list[dict[str, Any]] = json.loads(json.dumps(trace.as_json()))
    return found


def path(trace: Trace, trusted: bool = True) -> list[beginnings.Node]:
    """What is known of how a trace begins."""
    root = beginnings.root_of(twice, trusted)
    return beginnings.path_of(root, [beginnings.key_of(obj) for obj in objects(trace)], lambda inst: "")


@pytest.mark.parametrize("asking", [True, False])
@pytest.mark.parametrize("check", [False, True])
def test_programs_of_traces_that_begin_alike_are_what_they_are_alone(
    check: bool, asking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing but beginnings is looked for behind the first trace; these are known all the same."""
    if not asking:
        monkeypatch.setattr(beginnings, "TRIED", 0)
        monkeypatch.setattr(beginnings, "LEAST_SHARE", 0)
    traces = [made(inner, outer) for outer in (4, 8) for inner in (2, 4, 8)] * 2
    alone = []
    for trace in traces:
        shared.forget()
        alone.append(scheduled(twice, trace, check=check))
    shared.forget()
    for trace, expected in zip(traces, alone):
        got = scheduled(twice, objects(trace), check=check)
        assert got == expected and got.script() == expected.script()
        assert len(path(trace, not check)) == len(trace.insts) and not path(trace, check)
    assert (len(shared._STEPS) == len(traces[0].insts)) is not asking


def test_a_trace_goes_on_where_another_one_went_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = made(4), made(8)
    scheduled(twice, objects(first), check=False)
    known = len(path(other))
    assert 0 < known < len(other.insts)
    read: list[int] = []
    monkeypatch.setattr("autosched.schedule.kit.trace._instruction", lambda obj, i, rvs: read.append(i) or plain(obj, i, rvs))
    scheduled(twice, objects(other), check=False)
    assert read == list(range(known, len(other.insts)))
    # What is wrong behind a known beginning is said with its own number, before anything is applied.
    broken = objects(made(2))
    broken[-1]["in"]["loop"] = "l99"
    with pytest.raises(ProgramError, match=f"instruction {len(broken) - 1} of the trace uses 'l99'"):
        scheduled(twice, broken, check=False)


def test_more_than_beginnings_is_looked_for_where_it_is_found() -> None:
    """The second trace tiles ``C`` otherwise and ``B`` alike: what that makes is known, and counted."""
    traces = []
    for factor in (4, 8):
        sch = Schedule(twice, seed=1)
        for block, inner in (("C", factor), ("B", 16)):
            sch.split(sch.get_loops(sch.get_sblock(block))[0], [None, inner])
        traces.append(sch.trace)
    root = beginnings.root_of(twice, True)
    scheduled(twice, objects(traces[0]), check=False)
    assert (root.asked, root.taken) == (len(traces[0].insts), 0)
    scheduled(twice, objects(traces[1]), check=False)
    assert root.taken == 2 and root.asked == len(traces[0].insts) + 4  # of a split, and all about B: its loops, and their split
    for asked, taken, asks in ((255, 0, True), (256, 0, False), (256, 4, True), (256, 3, False)):
        root.asked, root.taken = asked, taken
        assert root.asks is asks


def test_what_a_beginning_names_counts_as_it_is_now() -> None:
    scheduled(twice, objects(made(4)), check=False)
    root = beginnings.root_of(twice, True)
    (second,) = (node for node in root.children.values())
    second.stamp = "of a definition that is gone"
    assert path(made(4)) == []


def test_beginnings_are_dropped_when_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginnings, "LIMIT", 3)
    expected = scheduled(twice, made(4), check=False)
    for _ in range(2):
        assert scheduled(twice, objects(made(4)), check=False) == expected
    assert len(path(made(4))) <= 3


def test_what_is_no_plain_data_has_no_key() -> None:
    assert beginnings.key_of({"op": object()}) is None
    assert beginnings.key_of({"args": {"factor": 1}}) != beginnings.key_of({"args": {"factor": True}})
