"""Tensors and sums in parts: partition_buffer, partition_reduction, separate_update, choose_by_limits, and what they are for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError, SpaceError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.verify import verify
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import groups, joined, normalise
from space.normalise.blocks import device_blocks, store_of

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

STAGES = '''
@T.prim_func
def f(A: T.Buffer((4, 12), "int32"), D: T.Buffer((12, 9), "int32"), C: T.Buffer((4, 5), "int32"), E: T.Buffer((12,), "int32")):
    B = T.alloc_buffer((4, 12), "int32")
    for i, j in T.grid(4, {cols}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, {at}] = A[vi, vj] * 2 + vj
    for i, j in T.grid(4, 5):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] - B[vi, vj + {further}]
    for j, k in T.grid(12, 9):
        with T.block("E"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                E[vj] = {init}
            E[vj] = {update}
'''


def stages(**other: object) -> PrimFunc:
    return parse(STAGES.format(**{"cols": 12, "at": "vj", "further": 5, "init": 7, "update": "E[vj] + D[vj, vk]", **other}))


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    inputs = random_inputs(func, 0)
    return all(np.array_equal(a, b) for a, b in zip(run(func, *inputs), run(other, *inputs), strict=True))


def names(sch: Schedule, blocks: list) -> list[str]:
    return [sch.get(b).name for b in blocks]


@pytest.mark.parametrize("factors", [[5, 5, None], [5, 5, 2], [5, None]])
def test_parts_of_a_tensor_are_tensors(factors: list[int | None], verify_trace_roundtrip: Verify) -> None:
    func = stages()
    sch = Schedule(func)
    assert names(sch, sch.partition_buffer("B", 1, factors)) == [f"B_part{n}" for n in range(len(factors))]
    made = {store_of(b).buffer.name: [e.value for e in store_of(b).buffer.shape] for b in device_blocks(sch.func)}
    rest = [[4, 5], [4, 2]] if len(factors) == 3 else [[4, 7]]
    assert [made[f"B_part{n}"] for n in range(len(factors))] == [[4, 5], *rest]
    assert "B_part1[vi, vj]" in sch.script() and "+ 5" in sch.script() and equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


def test_a_part_that_nobody_touches_is_none() -> None:
    # B is written from column 2 on, so the first part is nowhere.
    func = stages(cols=10, at="vj + 2").script().replace("B[vi, vj] - B[vi, vj + 5]", "B[vi, vj + 2] - B[vi, vj + 7]")
    sch = Schedule(parse(func))
    assert names(sch, sch.partition_buffer("B", 1, [2, 5, None])) == ["B_part0", "B_part1"]
    buffers = {store_of(b).buffer.name for b in device_blocks(sch.func)}
    assert {"B_part1", "B_part2"} <= buffers and "B_part0" not in buffers and equal(parse(func), sch.func)


@pytest.mark.parametrize(("dim", "factors", "code"), [
    (1, [6, None], "index"), (1, [5, 4, None], "index"), (1, [5, 5], "argument"), (1, [12], "argument"),
    (1, [5, 8], "argument"), (1, [12, None], "argument"),
    (1, [None, None], "argument"), (1, [0, None], "argument"), (2, [5, None], "argument"), (-1, [5, None], "argument"),
])
def test_what_is_no_part(dim: int, factors: list[int | None], code: str) -> None:
    sch = Schedule(stages())
    before = sch.func
    with refused(ScheduleError, code):
        sch.partition_buffer("B", dim, factors)
    assert sch.func == before


def test_readers_in_parts_of_a_loop_read_parts_of_a_tensor(verify_trace_roundtrip: Verify) -> None:
    """``loop_partition`` puts blocks into blocks that declare nothing; only together they read the tensor as a whole does."""
    func = stages()
    sch = Schedule(func)
    sch.loop_partition(sch.get_loops("C")[1], [1, None])
    before = sch.func
    with refused(ScheduleError, "index"):
        sch.partition_buffer("B", 1, [4, None])
    assert sch.func is before
    assert names(sch, sch.partition_buffer("B", 1, [6, None])) == ["B_part0", "B_part1"]
    assert "B_part0[vi, vj] - B_part1[vi, vj - 1]" in sch.script() and not verify(sch.func) and equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


def test_a_tensor_that_stores_use_outside_of_blocks_is_not_cut() -> None:
    func = parse(stages().script() + "    for k in range(12):\n        E[k] = B[0, k]\n")
    with pytest.raises(ScheduleError, match="B is read outside of blocks"):
        Schedule(func).partition_buffer("B", 1, [5, 5, None])


def test_a_result_is_not_cut_nor_what_lies_at_computed_places() -> None:
    with refused(ScheduleError, "output"):
        Schedule(stages()).partition_buffer("C", 1, [2, None])
    with refused(ScheduleError, "index"):
        Schedule(stages(at="11 - vj")).partition_buffer("B", 1, [5, None])


@pytest.mark.parametrize("update", ["E[vj] + D[vj, vk]", "T.max(D[vj, vk], E[vj])", "T.min(E[vj], D[vj, vk] + vk)"])
def test_a_sum_goes_on_from_a_sum(update: str, verify_trace_roundtrip: Verify) -> None:
    func = stages(update=update)
    sch = Schedule(func)
    assert names(sch, sch.partition_reduction(sch.get_loops("E")[1], [2, None, 3])) == ["E_part0", "E_part1", "E"]
    text = sch.script()
    assert "E_part1[vj] = E_part0[vj]" in text and "E[vj] = E_part1[vj]" in text and "E_part0[vj] = 7" in text
    assert equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


def test_what_is_no_sum_of_parts() -> None:
    sch = Schedule(stages())
    with refused(ScheduleError, "loop"):
        sch.partition_reduction(sch.get_loops("E")[0], [2, None])
    with refused(ScheduleError, "reduction"):
        sch.partition_reduction(sch.get_loops("C")[1], [2, None])
    with refused(ScheduleError, "argument"):
        sch.partition_reduction(sch.get_loops("E")[1], [9])
    with refused(ScheduleError, "reduction"):
        sch = Schedule(stages(update="E[vj] - D[vj, vk]"))
        sch.partition_reduction(sch.get_loops("E")[1], [2, None])
    outer, _ = (sch := Schedule(stages())).split(sch.get_loops("E")[1], [3, 3])
    with refused(ScheduleError, "loop"):
        sch.partition_reduction(outer, [1, None])


UPDATES = '''
@T.prim_func
def f(X: T.Buffer((6, 16), "int8"), W: T.Buffer((20, 16), "int8"), out: T.Buffer((6, 20), "int8")):
    C = T.alloc_buffer((6, 20), "int32")
    for i, j, k in T.grid(6, 20, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += X[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for {loops}:
        with T.block("D"):
            {iters}
            {update}
    for i, j in T.grid(6, 20):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = (C[vi, vj] >> 6).astype("int8")
'''
STAGE = {"loops": "i, j in T.grid(6, 20)", "iters": 'vi, vj = T.axis.remap("SS", [i, j])',
         "update": "C[vi, vj] = T.max(C[vi, vj], 3)"}
SUM = {"loops": "i, j, k in T.grid(6, 20, 16)", "iters": 'vi, vj, vk = T.axis.remap("SSR", [i, j, k])',
       "update": 'C[vi, vj] += X[vi, vk].astype("int32") * W[vj, vk].astype("int32")'}


@pytest.mark.parametrize("how", [STAGE, SUM])
def test_what_is_updated_is_a_tensor_of_its_own(how: dict[str, str], verify_trace_roundtrip: Verify) -> None:
    func = parse(UPDATES.format(**how))
    sch = Schedule(func)
    sch.separate_update("D")
    text = sch.script()
    assert "C_before[vi, vj] = 0" in text and ("C[vi, vj] = C_before[vi, vj]" in text) == (how is SUM)
    assert equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("change", "code"), [
    ({"loops": "i, j in T.grid(6, 19)"}, "domain"), ({"update": "C[vi, vj] = T.max(C[vi, 19 - vj], 3)"}, "index"),
    ({"iters": 'vi, vj = T.axis.remap("SS", [i, j])', "update": "C[vi, 0] = T.max(C[vi, 0], vj)"}, "domain"),
])
def test_what_is_no_update_of_all(change: dict[str, str], code: str) -> None:
    sch = Schedule(parse(UPDATES.format(**{**STAGE, **change})))
    with refused(ScheduleError, code):
        sch.separate_update("D")


def test_the_first_to_write_updates_nothing() -> None:
    sch = Schedule(stages())
    with refused(ScheduleError, "writer"):
        sch.separate_update("B")
    with refused(ScheduleError, "form"):
        sch.separate_update("E")


IN_PARTS = '''
@T.prim_func
def f(A: T.Buffer((9,), "int32"), C: T.Buffer((9,), "int32")):
    {alloc}
    for i in range({first}):
        with T.sblock("B"):
            vi = T.axis.spatial({first}, i)
            {name}[vi] = A[vi] * 2
    for i in range({between}):
        with T.sblock("E"):
            vi = T.axis.spatial({between}, i)
            {name}[vi + 9 - {between}] = {value}
    for i in range(9):
        with T.sblock("D"):
            vi = T.axis.spatial(9, i)
            {name}[vi] = T.max({name}[vi], 0)
    for i in range(4):
        with T.sblock("last"):
            vi = T.axis.spatial(4, i)
            C[vi] = {name}[vi] + 1
'''
OUT = {"alloc": 'L = T.sblock_alloc_buffer((9,), "int32")', "name": "C"}


@pytest.mark.parametrize(("first", "between", "value", "whole"), [
    (4, 5, "A[vi] + 7", True), (4, 4, "A[vi] + 7", False), (9, 4, "A[vi] + 7", True), (9, 9, "C[vi] + 7", True),
    (4, 9, "C[vi] + 7", False),  # what it goes on from nobody has made
])
def test_what_a_tensor_held_before_is_not_lost(
    first: int, between: int, value: str, whole: bool, same: Callable[..., None], verify_trace_roundtrip: Verify,
) -> None:
    func = parse(IN_PARTS.format(first=first, between=between, value=value, **OUT))
    sch = Schedule(func)
    if not whole:
        with refused(ScheduleError, "domain"):
            sch.separate_update("D")
        return
    sch.separate_update("D")
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_a_tensor_of_the_program_held_nothing_before(same: Callable[..., None]) -> None:
    mine = {**OUT, "alloc": 'L = T.sblock_alloc_buffer((9,), "int32")', "name": "L"}
    func = parse(IN_PARTS.format(first=4, between=4, value="A[vi] + 7", **mine))
    sch = Schedule(func)
    sch.separate_update("D")
    same(func, sch)


def test_blocks_of_blocks_may_have_written_it(same: Callable[..., None]) -> None:
    func = parse(IN_PARTS.format(first=9, between=4, value="A[vi] + 7", **OUT))
    sch = Schedule(func)
    sch.blockize(sch.get_loops("B")[0])
    sch.separate_update("D")
    same(func, sch)
    sch = Schedule(func)
    sch.loop_partition(sch.get_loops("B")[0], [4, None])
    with refused(ScheduleError, "writer"):
        sch.separate_update("D")
    # One that goes on from what the tensor holds is no beginning, whatever stands in it.
    sch = Schedule(parse(IN_PARTS.format(first=9, between=9, value="C[vi] + 7", **OUT).replace("= A[vi] * 2", "= C[vi] * 2")))
    sch.blockize(sch.get_loops("B")[0])
    with refused(ScheduleError, "writer"):
        sch.separate_update("D")


CHOICE = '''
@T.prim_func
def f(A: T.Buffer((9, 20), "int32"), B: T.Buffer((9, 20), "int32"), out: T.Buffer((9, 20), "int8")):
    T.func_attr({{"autosched.value_ranges": {{"A": [-100, 100], "B": [-1000, 1000]}}}})
    for i, j in T.grid(9, 20):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", {value})
'''
# With the limits that it takes: a constant that no value passes is one limit itself.
CHOICES = {
    "T.if_then_else(vj <= vi, A[vi, vj], -100)": 1, "T.if_then_else(vj <= vi, A[vi, vj], 100)": 1,
    "T.if_then_else(vj <= vi, A[vi, vj], 5)": 2, "T.if_then_else(vj <= vi, -100, A[vi, vj])": 1,
    "T.if_then_else(vj <= vi, 100, A[vi, vj])": 1, "T.if_then_else(vj <= vi, 5, A[vi, vj] + B[vi, vj])": 2,
    "T.if_then_else(vj <= vi, A[vi, vj], B[vi, vj] >> 3)": 2, "A[vi, vj] + T.if_then_else(vi == vj, 8, -3)": 1,
    "T.Select(vi + vj < 11 and 3 < vj, A[vi, vj] >> 1, B[8 - vi, vj])": 2,
}


def path(value: str) -> list[int]:
    return [0, 1] if value.startswith("A") else [0]


@pytest.mark.parametrize("value", CHOICES)
def test_a_choice_by_place_is_limits(value: str, verify_trace_roundtrip: Verify) -> None:
    func = parse(CHOICE.format(value=value))
    sch = Schedule(func)
    made = sch.choose_by_limits("out", path(value))
    assert len(made) == CHOICES[value] and equal(func, sch.func)
    chosen = [b for b in device_blocks(sch.func) if b.name == "out"]
    assert "if_then_else" not in str(store_of(chosen[0]).value) and "Select" not in str(store_of(chosen[0]).value)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("value", [
    "T.if_then_else(vi >= 1, A[vi - 1, vj], 0)", "T.if_then_else(A[vi, vj] > 5, A[vi, vj], 0)", "T.max(A[vi, vj], 0)",
    "T.if_then_else(vj < 19, 0, A[vi, vj + 1])",
])
def test_what_guards_or_goes_by_data_is_no_choice_by_place(value: str) -> None:
    sch = Schedule(parse(CHOICE.format(value=value)))
    with refused(ScheduleError, "form"):
        sch.choose_by_limits("out", [0])


def check(func: PrimFunc, target: str, count: int = 2) -> None:
    """A program's form is the same program, and points of its space give the interpreter's bytes."""
    new, steps = normalise(func, get_target(target))
    assert steps and equal(func, new)
    space = Space(func, get_target(target))
    for point in space.sample(np.random.default_rng(0), count):
        result = measure(Candidate(func, get_target(target), tuple(space.trace(point).as_json())), execute=True, wide=True)
        assert result.ok, result


@pytest.mark.parametrize("value", list(CHOICES)[::2])
@pytest.mark.parametrize("target", ["vta-de10", "vta-fsim"])
def test_choices_by_place_run(value: str, target: str) -> None:
    check(parse(CHOICE.format(value=value)), target)


JOIN = '''
@T.prim_func
def f(A: T.Buffer((5, 24), "int32"), B: T.Buffer((5, 24), "int32"), W: T.Buffer((10, {whole}), "int8"),
      out: T.Buffer((5, 10), "int8")):
    t = T.alloc_buffer((5, {whole}), "int8")
    C = T.alloc_buffer((5, 10), "int32")
    for i, j in T.grid(5, {one}):
        with T.block("a"):
            vi, vj = T.axis.remap("SS", [i, j])
            t[vi, vj] = T.Cast("int8", A[vi, vj] >> 3)
    for i, j in T.grid(5, {other}):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            t[vi, vj + {start}] = T.Cast("int8", B[vi, vj] >> 4)
    for i, j, k in T.grid(5, 10, {whole}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = {init}
            C[vi, vj] += t[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(5, 10):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", C[vi, vj] >> 6)
'''


@pytest.mark.parametrize(("one", "other"), [(16, 16), (24, 7), (3, 20)])
@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
def test_a_tensor_of_two_blocks_is_read_in_parts(one: int, other: int, target: str) -> None:
    func = parse(JOIN.format(one=one, other=other, start=one, whole=one + other, init=5))
    assert {"partition_buffer", "partition_reduction"} <= {s.op for s in normalise(func, get_target(target))[1]}
    check(func, target)


@pytest.mark.parametrize(("one", "other", "start", "whole"), [(16, 16, 15, 31), (16, 16, 16, 40), (16, 12, 20, 32)])
def test_parts_that_overlap_or_leave_a_gap_are_refused(one: int, other: int, start: int, whole: int) -> None:
    func = parse(JOIN.format(one=one, other=other, start=start, whole=whole, init=0))
    assert not joined.applies(func)
    with pytest.raises(SpaceError, match="both write t"):
        Space(func, get_target("vta-de10"))


@pytest.mark.parametrize("first", [0, 3, 17])
def test_a_sum_over_some_of_it_is_cut_where_the_parts_meet(first: int) -> None:
    text = JOIN.format(one=16, other=12, start=16, whole=28, init=0)
    text = text.replace("T.grid(5, 10, 28)", f"T.grid(5, 10, {28 - first})").replace("t[vi, vk]", f"t[vi, vk + {first}]")
    func = parse(text)
    sch = Schedule(func)
    joined.apply(sch, get_target("vta-de10"))
    ops = [step.op for step in sch.trace.insts]
    # Behind the place where they meet there is one part only.
    assert "partition_buffer" in ops and ("partition_reduction" in ops) == (first < 16) and equal(func, sch.func)


ROWS = '''
@T.prim_func
def f(X: T.Buffer((6, 32), "int8"), V: T.Buffer((2, {size}, 32), "int8"), W: T.Buffer((20, {whole}), "int8"),
      out: T.Buffer((6, 20), "int8")):
    A = T.alloc_buffer((2, 6, {size}), "int32")
    t = T.alloc_buffer((6, {whole}), "int8")
    P = T.alloc_buffer((6, 20), "int32")
    for h, i, d, c in T.grid(2, 6, {size}, 32):
        with T.block("A"):
            vh, vi, vd, vc = T.axis.remap("SSSR", [h, i, d, c])
            with T.init():
                A[vh, vi, vd] = 0
            A[vh, vi, vd] += X[vi, vc].astype("int32") * V[vh, vd, vc].astype("int32")
    for h, i, d in T.grid(2, 6, {size}):
        with T.block("t"):
            vh, vi, vd = T.axis.remap("SSS", [h, i, d])
            t[vi, vh * {step} + vd] = T.Cast("int8", A[vh, vi, vd] >> 7)
    for i, o, c in T.grid(6, 20, {whole}):
        with T.block("P"):
            vi, vo, vc = T.axis.remap("SSR", [i, o, c])
            with T.init():
                P[vi, vo] = 0
            P[vi, vo] += t[vi, vc].astype("int32") * W[vo, vc].astype("int32")
    for i, o in T.grid(6, 20):
        with T.block("out"):
            vi, vo = T.axis.remap("SS", [i, o])
            out[vi, vo] = T.Cast("int8", P[vi, vo] >> 7)
'''


@pytest.mark.parametrize("size", [16, 10])
@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
def test_rows_side_by_side_are_an_axis(size: int, target: str) -> None:
    func = parse(ROWS.format(size=size, step=size, whole=2 * size))
    assert groups.applies(func)
    check(func, target, 1)


@pytest.mark.parametrize(("size", "step", "whole"), [(12, 16, 32), (16, 8, 16), (16, 16, 48)])
def test_rows_with_gaps_or_over_each_other_are_not(size: int, step: int, whole: int) -> None:
    func = parse(ROWS.format(size=size, step=step, whole=whole).replace("vh * 8 + vd", "vh * 8 + vd % 8"))
    assert not groups.applies(func)


def test_what_is_cut_is_known_of_forms() -> None:
    """Sums that stages read elsewhere than they store have no schedule; in parts they have one."""
    func = parse(JOIN.format(one=16, other=16, start=16, whole=32, init=0))
    assert not joined.elsewhere(split_host(normalise(func, get_target("vta-de10"))[0]).device)
