"""A clip raised by what narrowing drops: equal bytes, proofs at their exact bounds, and the resets that it saves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.kernel import replay
from autosched.lower import lower_table
from autosched.schedule import Schedule
from autosched.script import T, parse
from autosched.workloads import workload
from sim import isa
from space import Space
from space.rules.cuts import values

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def dense(
    A: T.Buffer((4, 16), "int8"), W: T.Buffer((8, 16), "int8"), bias: T.Buffer((8,), "int32"),
    E: T.Buffer((4, 8), "int8"),
):
    T.func_attr({"autosched.value_ranges": {"bias": [-16384, 16384]}})
    C = T.sblock_alloc_buffer((4, 8), "int32")
    D = T.sblock_alloc_buffer((4, 8), "int32")
    for i, j, k in T.grid(4, 8, 16):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(4, 8):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.min(T.max(T.shift_right(C[vi, vj], 8) + bias[vj], 0), 127)
    for i, j in T.grid(4, 8):
        with T.sblock("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = T.Cast("int8", D[vi, vj])


def edited(*changes: tuple[str, str]) -> PrimFunc:
    text = dense.script()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse(text)


def bytes_of(func: PrimFunc, bias: int | None, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    data, weight = (rng.integers(-128, 128, s).astype("int8") for s in ((4, 16), (8, 16)))
    if bias is not None:
        data[:], weight[:] = rng.choice([-128, 127]), rng.choice([-128, 127])
    out = np.full((4, 8), 77, "int8")
    run(func, data, weight, np.full(8, bias, "int32") if bias is not None else rng.integers(-200, 200, 8).astype("int32"), out)
    return out


@pytest.mark.parametrize("decomposed", [False, True])
def test_the_bytes_stay(decomposed: bool, verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(dense)
    sch.fold_epilogue("D")
    if decomposed:
        sch.decompose_reduction("C", sch.get_loops("C")[2])
    made = sch.raise_epilogue("D")
    text = sch.script()
    assert sch.get(made).name == "bias_raised"
    assert "bias_raised[vj] = T.shift_left(bias[vj] + 32512, 8)" in text
    assert "C[vi, vj] = bias_raised[vj]" in text
    assert "D[vi, vj] = T.min(T.max(T.shift_right(C[vi, vj], 8), 32512), 32639)" in text
    for seed in range(6):
        for bias in (None, -16384, 16384, 0, -3):
            assert np.array_equal(bytes_of(sch.func, bias, seed), bytes_of(dense, bias, seed))
    verify_trace_roundtrip(sch, dense)
    with pytest.raises(ScheduleError, match=r"no room below 32767|does not start with an addend"):
        sch.raise_epilogue("D")


@pytest.mark.parametrize(("clip", "by"), [
    ((-128, 127), 32512), ((0, 255), 32512), ((0, 256), 32256), ((-5, -1), 32768), ((0, 32511), 256),
])
def test_the_clip_goes_up_as_far_as_immediates_reach(clip: tuple[int, int], by: int) -> None:
    func = edited((", 0), 127)", f", {clip[0]}), {clip[1]})"))
    sch = Schedule(func)
    sch.fold_epilogue("D")
    if by < 17000:  # then the least start, (by - 16384) << 8, is not above the results
        with pytest.raises(ScheduleError, match=rf"may start with {(by - 16384) << 8}, which does not exceed {clip[1] + by}"):
            sch.raise_epilogue("D")
        return
    sch.raise_epilogue("D")
    assert f", {clip[0] + by}), {clip[1] + by})" in sch.script()
    for seed in range(4):
        assert np.array_equal(bytes_of(sch.func, None, seed), bytes_of(func, None, seed))


@pytest.mark.parametrize(("least", "most", "reason"), [
    (-32384, 0, ""),  # (-32384 + 32512) << 8 is 32768, above 32639
    (-32385, 0, "may start with 32512, which does not exceed 32639"),
    (0, 8_355_071, ""),  # (most + 32512) << 8, and 16 products of 128 * 128, just below 2**31
    (0, 8_355_072, "a partial sum may be between"),
])
def test_the_proofs_are_exact(least: int, most: int, reason: str) -> None:
    sch = Schedule(replace(Schedule(dense).func, value_ranges=(None, None, (least, most), None)))
    sch.fold_epilogue("D")
    if reason:
        before = sch.script()
        with pytest.raises(ScheduleError, match=reason) as caught:
            sch.raise_epilogue("D")
        assert "declare narrower ranges" in caught.value.hint and sch.script() == before
    else:
        sch.raise_epilogue("D")


@pytest.mark.parametrize(("terms", "accepted"), [(1036, True), (1037, False)])
def test_what_wraps_around_as_it_was_is_not_raised(terms: int, accepted: bool) -> None:
    """The least sum is -32511 << 16 and so many products of -128 * 127: just above -2**31, or it wraps around."""
    text = "".join(line for line in dense.script().splitlines(True) if "T.reads" not in line and "T.writes" not in line)
    for old, new in (
        ('16), "int8"', f'{terms}), "int8"'), ("4, 8, 16)", f"4, 8, {terms})"),
        ("C[vi, vj] = 0", "C[vi, vj] = T.shift_left(bias[vj], 16)"),
        ("T.shift_right(C[vi, vj], 8) + bias[vj]", "T.shift_right(C[vi, vj], 16)"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    func = parse(text)
    sch = Schedule(replace(func, value_ranges=((0, 127), (-128, 0), (-32511, 0), None)))
    if accepted:
        sch.raise_epilogue("D")
    else:
        with pytest.raises(ScheduleError, match="a partial sum may be between -2147498368"):
            sch.raise_epilogue("D")


def test_refused() -> None:
    sch = Schedule(dense)
    with refused(ScheduleError, "form") as caught:
        sch.raise_epilogue("D")
    assert "fold_epilogue" in caught.value.hint
    with refused(ScheduleError, "form"):
        sch.raise_epilogue("E")
    with pytest.raises(ScheduleError, match=r"block C is not one store|body of block C is not one store"):
        sch.raise_epilogue("C")
    plain = edited((" + bias[vj]", ""), (", bias[vj]", ""))
    with pytest.raises(ScheduleError, match="C does not start with an addend shifted left by 8"):
        Schedule(plain).raise_epilogue("D")
    whole = Schedule(edited(('T.Cast("int8", D[vi, vj])', 'T.Cast("int8", T.shift_right(D[vi, vj], 1))')))
    whole.fold_epilogue("D")
    with pytest.raises(ScheduleError, match="E reads more of D than its low 8 bits"):
        whole.raise_epilogue("D")
    wide = Schedule(edited(('E: T.Buffer((4, 8), "int8")', 'E: T.Buffer((4, 8), "int16")'), ('T.Cast("int8"', 'T.Cast("int16"')))
    wide.fold_epilogue("D")
    with pytest.raises(ScheduleError, match="E reads more of D than its low 8 bits"):
        wide.raise_epilogue("D")


def moving(least: int, most: int = 3, tiles: int = 4) -> PrimFunc:
    """``z = x``, used up between 0 and 100, ``tiles`` times in one place; ``x`` is at least ``least``."""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((6, 1, 16), "int32"), out: T.Buffer(({tiles}, 6, 1, 16), "int8")):
    T.func_attr({{"autosched.value_ranges": {{"a": [{least}, {least + 5000}]}}}})
    x = T.alloc_buffer((6, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer(({tiles}, 6, 1, 16), "int32", scope="local.acc_buffer")
    for j, l in T.grid(6, 16):
        with T.block("load"):
            vj, vl = T.axis.remap("SS", [j, l])
            x[vj, 0, vl] = a[vj, 0, vl]
    for i in range({tiles}):
        for j, l in T.grid(6, 16):
            with T.block("move"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                z[vi, vj, 0, vl] = x[vj, 0, vl]
        for j, l in T.grid(6, 16):
            with T.block("clip"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                z[vi, vj, 0, vl] = T.min(T.max(T.shift_right(z[vi, vj, 0, vl], {most}), 0), 100)
        for j, l in T.grid(6, 16):
            with T.block("store"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                out[vi, vj, 0, vl] = T.cast(z[vi, vj, 0, vl], "int8")
''')


def resets(func: PrimFunc, target: str) -> int:
    table = lower_table(func, target).table
    return int(((table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] == 1)).sum())


@pytest.mark.parametrize("target", ["vta-de10-portable", "vta-fsim"])
@pytest.mark.parametrize(("least", "found"), [(100, 1), (99, 4), (-4999, 4), (-5000, 1), (5000, 1)])
def test_a_reset_goes_where_what_stands_there_is_on_one_side(
    least: int, found: int, target: str, vta_schedules: ModuleType
) -> None:
    # At the start nothing is known; later tiles find 0 to 100. 99 would be lost against 100, and 1 against 0.
    vta_schedules.verify(moving(least), target)
    assert resets(moving(least), target) == found
    assert resets(moving(least), "vta-de10") == 0  # the RTL moves


def test_without_a_declared_range_the_reset_stays() -> None:
    func = moving(100)
    assert resets(replace(func, value_ranges=(), attrs={}), "vta-de10-portable") == 4


def test_an_overflow_makes_anything_possible(vta_schedules: ModuleType) -> None:
    # x << 20 may wrap around from 2048 on, and then may be anything before the clip; behind it, 0 to 100 again.
    func = parse(moving(100, tiles=3).script().replace("T.shift_right(z[", "T.shift_left(z["))
    vta_schedules.verify(func, "vta-fsim")
    assert resets(func, "vta-fsim") == 1
    text = func.script()
    unclipped = parse(text.replace("T.min(T.max(", "T.max(T.max(").replace(", 100)", ", 0)").replace(", 3)", ", 20)"))
    vta_schedules.verify(unclipped, "vta-fsim")
    assert resets(unclipped, "vta-fsim") == 3


def test_what_overflowed_may_be_below_all_that_stands_there(vta_schedules: ModuleType) -> None:
    """``x << 20`` wraps around; each tile leaves -100 to 0 in its place."""
    text = moving(100).script().replace(", 0), 100)", ", -100), 0)")
    head, tiles, rest = text.partition("    for i in range(4):")
    text = head + '''
    for j, l in T.grid(6, 16):
        with T.sblock("wrap"):
            vj, vl = T.axis.remap("SS", [j, l])
            x[vj, 0, vl] = T.shift_left(x[vj, 0, vl], 20)
''' + tiles + rest
    vta_schedules.verify(parse(text), "vta-de10-portable")
    assert resets(parse(text), "vta-de10-portable") == 4
    # Without it the tiles behind the first stand on what is no larger.
    assert resets(parse(text.replace(", 20)", ", 0)")), "vta-de10-portable") == 1


def test_what_has_no_declared_range_may_be_anything(vta_schedules: ModuleType) -> None:
    """It stood where the first sum goes, and was read there."""
    text = moving(100, tiles=1).script()
    text = text.replace("def main(a:", 'def main(b: T.Buffer((6, 1, 16), "int32"), more: T.Buffer((6, 1, 16), "int8"), a:')
    head, load, rest = text.partition('    for j, l in T.grid(6, 16):\n        with T.sblock("load")')
    text = head + '''
    y = T.alloc_buffer((6, 1, 16), "int32", scope="local.acc_buffer")
    for j, l in T.grid(6, 16):
        with T.sblock("stood"):
            vj, vl = T.axis.remap("SS", [j, l])
            z[0, vj, 0, vl] = b[vj, 0, vl]
    for j, l in T.grid(6, 16):
        with T.sblock("used"):
            vj, vl = T.axis.remap("SS", [j, l])
            y[vj, 0, vl] = z[0, vj, 0, vl] + 1
    for j, l in T.grid(6, 16):
        with T.sblock("stored"):
            vj, vl = T.axis.remap("SS", [j, l])
            more[vj, 0, vl] = T.cast(y[vj, 0, vl], "int8")
''' + load + rest
    vta_schedules.verify(parse(text), "vta-de10-portable")
    assert resets(parse(text), "vta-de10-portable") == 2


def test_what_is_left_behind_counts_not_what_was_stored(vta_schedules: ModuleType) -> None:
    # Behind the store, each tile leaves up to 5100 in its place.
    text = moving(200).script()
    block = '''
        for j, l in T.grid(6, 16):
            with T.sblock("more"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                z[vi, vj, 0, vl] = z[vi, vj, 0, vl] + 5000
'''
    lines = text.rstrip() + block
    vta_schedules.verify(parse(lines), "vta-de10-portable")
    assert resets(parse(lines), "vta-de10-portable") == 4
    assert resets(parse(text), "vta-de10-portable") == 1


def test_places_that_another_sum_has_left_are_not_cleared_again() -> None:
    """A first part and the tiles behind it share the accumulator, away from what is still being stored."""
    space = Space(workload("conv2d:h=12,w=8,ci=32,co=32,k=1").func, "vta-de10-portable")
    raised = [s.done for s in space.sketches].index(("init by maximum",))
    rows = values(space.sketches[raised].model)
    point = space.point(sketch=raised, head=rows[2, 3], tile_y=3, order=2, load_data=1, load_kernel=5, head_ci=1, banks_acc=2,
                        keep_kernel=1)
    lowered = lower_table(replay(space.func, space.trace(point).as_json()).func, space.target)
    sums = [s for s in lowered.storages if s.buffer.startswith("conv")]
    assert sorted(s.elements * s.copies for s in sums) == [3 * 8 * 2, 2 * 3 * 8 * 2]
    rows_of = lowered.table[(lowered.table[:, isa.OPCODE] == isa.OP_GEMM) & (lowered.table[:, isa.RESET] == 1)]
    cleared = rows_of[:, [isa.ITER_OUT, isa.ITER_IN]].prod(axis=1) * (rows_of[:, isa.UOP_END] - rows_of[:, isa.UOP_BGN])
    # The first part's 48, and 2 of the raised bias; of the two banks behind it, one is where the first part was.
    assert sorted(cleared) == [2, 48, 48]


def test_an_addend_that_goes_first_is_waited_for() -> None:
    space = Space(workload("conv2d:h=8,w=8,ci=16,co=32,k=1").func, "vta-de10-portable")
    raised = [s.done for s in space.sketches].index(("init by maximum",))
    for first in (0, 1):
        point = space.point(sketch=raised, tile_y=2, order=2, load_data=1, banks_acc=2, addend_first=first)
        program = lower_table(replay(space.func, space.trace(point).as_json()).func, space.target).table
        loads = program[:, isa.OPCODE] == isa.OP_LOAD
        addend = np.flatnonzero(loads & (program[:, isa.MEM] == isa.MEM_ACC))[0]
        data = np.flatnonzero(loads & np.isin(program[:, isa.MEM], (isa.MEM_INP, isa.MEM_WGT)))[0]
        assert program[addend, isa.PUSH_PREV] == program[data, isa.POP_NEXT] == first
