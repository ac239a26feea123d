"""Adding before a shift instead of after it: equal results, and a proof that nothing overflows or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import T, parse
from autosched.target import get_target
from autosched.workloads import workload
from space import Space

Same = Callable[..., None]

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"


@T.prim_func
def dense(
    A: T.Buffer((4, 16), "int8"), W: T.Buffer((8, 16), "int8"), bias: T.Buffer((8,), "int32"),
    D: T.Buffer((4, 8), "int32"),
):
    T.func_attr({"autosched.value_ranges": {"bias": [-16384, 16384]}})
    C = T.sblock_alloc_buffer((4, 8), "int32")
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


@T.prim_func
def summed(A: T.Buffer((8, 4), "int8"), b: T.Buffer((8,), "int8"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 4):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + T.Cast("int32", A[vi, vk])
    for i in range(8):
        with T.sblock("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi] + T.Cast("int32", b[vi])


@pytest.mark.parametrize("decomposed", [False, True])
def test_the_addend_becomes_the_initial_value(decomposed: bool, verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(dense)
    if decomposed:
        block = sch.get_block("C")
        sch.decompose_reduction(block, sch.get_loops(block)[2])
    sch.fold_epilogue("D")
    text = sch.script()
    assert "= T.shift_left(bias[vj], 8)" in text
    assert "D[vi, vj] = T.min(T.max(T.shift_right(C[vi, vj], 8), 0), 127)" in text
    for seed in range(3):
        same(dense, sch, seed)
    verify_trace_roundtrip(sch, dense)
    with refused(ScheduleError, "form"):
        sch.fold_epilogue("D")


def test_extremes_do_not_overflow() -> None:
    sch = Schedule(dense)
    sch.fold_epilogue("D")
    for data, weight, bias in ((-128, -128, 16384), (-128, 127, -16384), (127, 127, 16384)):
        arrays = [
            np.full((4, 16), data, "int8"), np.full((8, 16), weight, "int8"), np.full(8, bias, "int32"),
            np.zeros((4, 8), "int32"),
        ]
        wanted = run(dense, *[a.copy() for a in arrays])["D"]
        assert np.array_equal(run(sch.func, *arrays)["D"], wanted)


def test_without_declared_ranges_it_may_overflow() -> None:
    loose = replace(Schedule(dense).func, value_ranges=(), attrs={})
    sch = Schedule(loose)
    before = sch.script()
    with pytest.raises(ScheduleError, match="the addend shifted by 8 may be between -549755813888 and 549755813632") as caught:
        sch.fold_epilogue("D")
    assert "declare narrower ranges" in caught.value.hint
    assert sch.script() == before


@pytest.mark.parametrize(("shift", "taken"), [(0, True), (1, False)])
def test_a_sum_that_is_not_shifted_may_wrap_around(shift: int, taken: bool) -> None:
    """Whatever the order of additions is, the same bits come out of int32."""
    value = f"T.shift_right(C[vi, vj], {shift})" if shift else "C[vi, vj]"
    text = Schedule(dense).script().replace("T.shift_right(C[vi, vj], 8)", value)
    func = replace(parse(text), value_ranges=(), attrs={})
    sch = Schedule(func)
    if not taken:
        with pytest.raises(ScheduleError, match="the addend shifted by 1 may be between"):
            sch.fold_epilogue("D")
        return
    sch.fold_epilogue("D")
    assert "= bias[vj]" in sch.script()
    for data, weight, bias in ((-128, -128, 2**31 - 1), (-128, 127, -2**31), (127, 127, 2**31 - 9)):
        arrays = [np.full((4, 16), data, "int8"), np.full((8, 16), weight, "int8"), np.full(8, bias, "int32"),
                  np.zeros((4, 8), "int32")]
        wanted = run(func, *[a.copy() for a in arrays])["D"]
        assert np.array_equal(run(sch.func, *arrays)["D"], wanted) and (bias + 16 * data * weight) not in range(-2**31, 2**31)


def folded_or_refused(sch: Schedule, fits: bool, code: str) -> None:
    """Folds block D, which is refused with a code where it does not fit."""
    if fits:
        sch.fold_epilogue("D")
    else:
        with refused(ScheduleError, code):
            sch.fold_epilogue("D")


@pytest.mark.parametrize(("limit", "fits"), [(8_387_583, True), (8_387_584, False)])
def test_the_bound_is_exact(limit: int, fits: bool) -> None:
    # 16 products of at most 128 * 128, and the addend shifted by 8, just below 2**31 or just not.
    tight = replace(Schedule(dense).func, value_ranges=(None, None, (0, limit), None))
    assert ((limit << 8) + 16 * 128 * 128 < 2**31) == fits
    folded_or_refused(Schedule(tight), fits, "range")


def _chain(a: int, c: int, addend: str, *, between: str = "S[vi]", shift: int = 2) -> PrimFunc:
    """Two sums, the second of which goes on from the first, and a stage that shifts and adds."""
    return parse(f"""
@T.prim_func
def chain(A: T.Buffer((8, {a}), "int8"), B: T.Buffer((8, {c}), "int8"), b: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    T.func_attr({{"autosched.value_ranges": {{"b": [-1000, 1000]}}}})
    S = T.sblock_alloc_buffer((8,), "int32")
    C = T.sblock_alloc_buffer((8,), "int32")
    for i, k in T.grid(8, {a}):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 3
            S[vi] = S[vi] + T.Cast("int32", A[vi, vk])
    for i, k in T.grid(8, {c}):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {between}
            C[vi] = C[vi] + T.Cast("int32", B[vi, vk])
    for j in range(8):
        with T.sblock("D"):
            vj = T.axis.spatial(8, j)
            D[vj] = T.shift_right(C[vj], {shift}) + {addend}
""")


@pytest.mark.parametrize(("addend", "start"), [("1", "S[vi] = 7"), ("b[vj]", "S[vi] = 3 + T.shift_left(b[vi], 2)")])
def test_a_sum_that_goes_on_from_another_hands_the_addend_on(
    addend: str, start: str, verify_trace_roundtrip: Verify, same: Same
) -> None:
    func = _chain(3, 4, addend)
    sch = Schedule(func)
    sch.fold_epilogue("D")
    text = sch.script()
    assert start in text and "C[vi] = S[vi]\n" in text and "D[vj] = T.shift_right(C[vj], 2)\n" in text
    for seed in range(3):
        same(func, sch, seed)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("between", ["S[vi] + S[vi]", "S[vi] + 1", "T.max(S[vi], 0)"])
def test_what_happens_to_a_sum_on_the_way_ends_the_chain(between: str) -> None:
    with refused(ScheduleError, "reduction"):
        Schedule(_chain(3, 4, "1", between=between)).fold_epilogue("D")


def _changed(func: PrimFunc, *changes: tuple[str, str]) -> PrimFunc:
    """A program with other text in some places, each of which is there."""
    text = Schedule(func).script()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text)


def test_an_earlier_sum_with_other_readers_is_refused() -> None:
    more = """D[vj] = T.shift_right(C[vj], 2) + 1
    for j in range(8):
        with T.sblock("F"):
            vj = T.axis.spatial(8, j)
            E[vj] = S[vj]"""
    func = _changed(_chain(3, 4, "1"), ("D[vj] = T.shift_right(C[vj], 2) + 1", more),
                    ('D: T.Buffer((8,), "int32")', 'D: T.Buffer((8,), "int32"), E: T.Buffer((8,), "int32")'))
    with refused(ScheduleError, "reader") as caught:
        Schedule(func).fold_epilogue("D")
    assert "S is also read by F" in str(caught.value)


@pytest.mark.parametrize("read", ["S[vi]", "C[T.max(vi - 1, 0)]"])
def test_a_sum_that_adds_up_what_the_addend_changes_is_refused(read: str) -> None:
    func = _changed(_chain(3, 4, "1"), ('+ T.Cast("int32", B[vi, vk])', f'+ T.Cast("int32", B[vi, vk]) * T.min({read}, 9)'))
    with refused(ScheduleError, "reader") as caught:
        Schedule(func).fold_epilogue("D")
    assert "what block C adds up reads" in str(caught.value)


@pytest.mark.parametrize(("rows", "taken"), [(8, True), (7, False)])
def test_an_addend_has_to_be_there_for_all_that_the_sum_starts(rows: int, taken: bool, same: Same) -> None:
    func = _changed(
        _chain(3, 4, "b[vj]"),
        ("for j in range(8)", f"for j in range({rows})"), ("T.axis.spatial(8, j)", f"T.axis.spatial({rows}, j)"),
        ('b: T.Buffer((8,), "int32")', f'b: T.Buffer(({rows},), "int32")'),
        ('D: T.Buffer((8,), "int32")', f'D: T.Buffer(({rows},), "int32")'),
    )
    sch = Schedule(func)
    folded_or_refused(sch, taken, "index")
    same(func, sch, 0)


@pytest.mark.parametrize("together", [True, False])
def test_an_addend_that_is_filled_anew_before_the_block_adds_is_refused(together: bool, same: Same) -> None:
    loop = "" if together else "    for i in range(8):"
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((8, 3), "int8"), b: T.Buffer((8,), "int8"), D: T.Buffer((8,), "int32")):
    C = T.sblock_alloc_buffer((8,), "int32")
    last = T.sblock_alloc_buffer((1,), "int32")
    for i in range(8):
        with T.sblock("W"):
            vi = T.axis.spatial(8, i)
            last[0] = T.Cast("int32", b[vi])
        for k in range(3):
            with T.sblock("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 3
                C[vi] = C[vi] + T.Cast("int32", A[vi, vk])
{loop}
        with T.sblock("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi] + last[0]
""")
    sch = Schedule(func)
    folded_or_refused(sch, together, "order")
    same(func, sch, 0)


@pytest.mark.parametrize(("terms", "fits"), [(8_388_608 + 8_388_576, True), (8_388_608 + 8_388_577, False)])
def test_all_sums_of_a_chain_count_against_overflow(terms: int, fits: bool) -> None:
    """3 + 4000 + 127 (a + c) at the top, and 3 - 4000 - 128 (a + c) at the bottom, which is what int32 ends first."""
    func = _chain(8_388_608, terms - 8_388_608, "b[vj]")
    least = 3 - 4000 - 128 * terms
    assert (least >= -2**31) == fits
    folded_or_refused(Schedule(func), fits, "range")


STARTED = """
@T.prim_func
def f(A: T.Buffer((8, 16), "int8"), b: T.Buffer((8,), "int32"), e: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    T.func_attr({{"autosched.value_ranges": {{"b": [-16384, 16384], "e": [{low}, {high}]}}}})
    C = T.sblock_alloc_buffer((8,), "int32")
    for i, k in T.grid(8, 16):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {start}
            C[vi] = C[vi] + T.Cast("int32", A[vi, vk])
    for i in range(8):
        with T.sblock("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = {value}
"""
FAR = (1 << 31) - 1 - (16384 << 8) - 16 * 127  # e may be as large, and no partial sum overflows


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize(("start", "value", "high", "left"), [
    ("0", "C[vi] + b[vi] + e[vi]", 1 << 30, "C[vi]"),
    ("0", "T.shift_right(C[vi] + e[vi], 8) + b[vi]", FAR, "T.shift_right(C[vi], 8)"),
    ("e[vi]", "T.shift_right(C[vi], 8) + b[vi]", FAR, "T.shift_right(C[vi], 8)"),
    ("e[vi]", "T.shift_right(C[vi], 8) + b[vi]", FAR + 1, ""),
    ("T.max(e[vi], 3) * 2", "C[vi] + b[vi]", (1 << 31) - 1, "C[vi]"),
])
def test_a_sum_may_start_with_something_already(
    decomposed: bool, start: str, value: str, high: int, left: str, same: Same, verify_trace_roundtrip: Verify,
) -> None:
    """As addends that were folded before: what it starts with counts with all that it may be."""
    func = parse(STARTED.format(start=start, value=value, low=0, high=high))
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    if decomposed:
        sch.decompose_reduction("C", sch.get_loops("C")[1])
    if start == "0":
        sch.fold_epilogue("D")
    if not left:
        with refused(ScheduleError, "range"):
            sch.fold_epilogue("D")
        return
    sch.fold_epilogue("D")
    assert f"D[vi] = {left}\n" in sch.script()
    for seed in range(2):
        same(func, sch, seed)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("target", "copies"), [("vta-de10", True), ("vta-de10-portable", False)])
def test_spaces_fold_tensors_into_constants_alone(user_programs, target: str, copies: bool) -> None:
    """A sum that starts with a tensor takes in a constant where the copy of the tensor adds it, and nothing elsewhere."""
    space = Space(user_programs.program("conv_nhwc_hwio"), target)
    forms = [sketch.done for sketch in space.sketches]
    plain = [done for done in forms if "init by copy" not in done]
    assert () in plain and ("windows gathered by the host",) in plain
    assert sorted(forms) == sorted(plain + [(*done, "init by copy") for done in plain] * copies)


def test_an_output_sum_is_refused() -> None:
    with refused(ScheduleError, "output"):
        Schedule(summed).fold_epilogue("D")


def test_an_addend_that_comes_too_late_is_refused() -> None:
    sch = Schedule(dense)
    cached = sch.cache_read("D", "bias", ACC)
    sch.compute_at(cached, sch.get_loops("D")[0])
    with refused(ScheduleError, "order"):
        sch.fold_epilogue("D")


def test_on_the_machine() -> None:
    get_target("vta-de10")
    sch = Schedule(workload("dense:m=1,k=256,n=256,bias=1").func)
    gemm, requant, out = (sch.get_block(n) for n in ("dense", "requant", "out"))
    sch.fold_epilogue(requant)
    inp, wgt, bias = (sch.cache_read(gemm, i, s) for i, s in ((0, INP), (1, WGT), ("bias", ACC)))
    for b in (gemm, requant):
        sch.set_scope(b, 0, ACC)
    at = sch.get_loops(out)[0]
    for b in (requant, gemm, bias):
        sch.compute_at(b, at, preserve_unit_loops=True)
    gm, gn, nb, cb, k, ib = sch.get_loops(gemm)[-6:]
    sch.reorder(k, gm, gn, nb, cb, ib)
    sch.compute_at(inp, k)
    sch.compute_at(wgt, k)
    sch.decompose_reduction(gemm, k)
    sch.tensorize(nb, "vta.gemm.1x16x16")
    result = measure(Candidate("dense:m=1,k=256,n=256,bias=1", "vta-de10", tuple(sch.trace.as_json())), execute=True)
    assert result.status == "ok", result.reason
