"""An int32 operand that the GEMM adds: its digits, the ranges they hold, what refuses, and the form of programs that uses it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.constant import values
from autosched.ir.host import split_host
from autosched.ir.interp import run
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import T, parse
from autosched.target import get_target
from autosched.workloads import of_func
from space import Space

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
Same = Callable[..., None]


@T.prim_func
def dense(
    A: T.Buffer((6, 2, 1, 16), "int8"), W: T.Buffer((3, 2, 16, 16), "int8"), bias: T.Buffer((3, 1, 16), "int32"),
    E: T.Buffer((6, 3, 1, 16), "int8"),
):
    T.func_attr({"autosched.value_ranges": {"bias": [-16384, 16384]}})
    C = T.alloc_buffer((6, 3, 1, 16), "int32")
    D = T.alloc_buffer((6, 3, 1, 16), "int32")
    for m, n, b, j, k, i in T.grid(6, 3, 1, 16, 2, 16):
        with T.block("C"):
            vm, vn, vb, vj, vk, vi = T.axis.remap("SSSSRR", [m, n, b, j, k, i])
            with T.init():
                C[vm, vn, vb, vj] = 0
            C[vm, vn, vb, vj] = C[vm, vn, vb, vj] + T.Cast("int32", A[vm, vk, vb, vi]) * T.Cast("int32", W[vn, vk, vj, vi])
    for m, n, b, j in T.grid(6, 3, 1, 16):
        with T.block("D"):
            vm, vn, vb, vj = T.axis.remap("SSSS", [m, n, b, j])
            D[vm, vn, vb, vj] = T.min(T.max(T.shift_right(C[vm, vn, vb, vj], 8) + bias[vn, vb, vj], -100), 100)
    for m, n, b, j in T.grid(6, 3, 1, 16):
        with T.block("E"):
            vm, vn, vb, vj = T.axis.remap("SSSS", [m, n, b, j])
            E[vm, vn, vb, vj] = T.Cast("int8", D[vm, vn, vb, vj])


def edited(*changes: tuple[str, str]) -> PrimFunc:
    text = dense.script()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse(text)


def ranged(low: int, high: int) -> PrimFunc:
    return edited(("[-16384, 16384]", f"[{low}, {high}]"))


def by_digits(func: PrimFunc) -> Schedule:
    sch = Schedule(func)
    sch.add_by_gemm(sch.decompose_value("D", [0, 0]), 3, "bias")
    return sch


@pytest.mark.parametrize(("low", "high", "shares"), [
    (-16384, 16384, 3), (-16384, 16319, 2), (-8192, 8191, 1), (-8193, 0, 2), (0, 8192, 2), (0, 8191, 1), (0, 0, 1),
    (-122880, 121983, 15),
])
def test_digits_and_weights_make_the_operand(low: int, high: int, shares: int) -> None:
    sch = by_digits(ranged(low, high))
    (pack,) = split_host(sch.func).pack
    (weights,) = [values(c) for c in sch.func.constants]
    assert np.count_nonzero(weights) == shares + 1
    rng = np.random.default_rng(0)
    bias = rng.integers(low, high, size=(3, 1, 16), dtype=np.int32, endpoint=True)
    bias[0, 0, :2] = low, high
    digits = np.zeros((3, 16, 16), dtype=np.int8)
    run(pack, bias, digits)
    assert (digits.astype(np.int64) @ weights[0].astype(np.int64) == bias[:, 0]).all()


@pytest.mark.parametrize(("low", "high"), [(-122881, 0), (0, 121984), (-(1 << 31), (1 << 31) - 1)])
def test_ranges_that_need_more_digits(low: int, high: int) -> None:
    with pytest.raises(ScheduleError, match=r"\d+ digits, and there are 16"):
        by_digits(ranged(low, high))


@pytest.mark.parametrize(("changes", "block", "axis", "operand", "code"), [
    ([], "D", 3, "bias", "form"),
    ([], "C", 3, "A", "form"),
    ([("T.shift_right(C[vm, vn, vb, vj], 8) + bias[vn", "T.max(C[vm, vn, vb, vj], bias[vn"), ("vj], -100)", "vj]), -100)")],
     "D", 3, "bias", "form"),
    ([("bias[vn, vb, vj], -100)", "bias[vn, vb, vj] + bias[vn, vb, vj], -100)")], "part", 3, "bias", "form"),
    ([], "part", 4, "bias", "argument"),
])
def test_what_is_no_such_sum(changes: list[tuple[str, str]], block: str, axis: int, operand: str, code: str) -> None:
    sch = Schedule(edited(*changes) if changes else dense)
    handle = sch.decompose_value("D", [0, 0]) if block == "part" else sch.get_block(block)
    with refused(ScheduleError, code):
        sch.add_by_gemm(handle, axis, operand)


def test_an_operand_that_the_accelerator_makes() -> None:
    sch = Schedule(dense)
    part = sch.decompose_value("D", [0, 0])
    sch.cache_read(part, "bias", "global")
    with refused(ScheduleError, "form"):
        sch.add_by_gemm(part, 3, "bias_global")


def test_it_means_the_same(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = by_digits(dense)
    same(dense, sch)
    verify_trace_roundtrip(sch, dense)


@pytest.mark.parametrize("rows", [5, 6])
def test_the_form_of_programs_that_uses_it(rows: int) -> None:
    """No accumulator is cleared, nothing is compared with what stood there; points of it run, and none is below the bound."""
    func = edited(("6, 2, 1, 16", f"{rows}, 2, 1, 16"), ("(6, 3", f"({rows}, 3")) if rows != 6 else dense
    assert not any("addend by product" in s.done for s in Space(func, "vta-de10").sketches)
    space = Space(func, "vta-de10-portable")
    (form,) = [k for k, s in enumerate(space.sketches) if s.done == ("addend by product",)]
    points = space.sample(np.random.default_rng(0), 400)
    mine = points[points[:, 0] == form][:8]
    assert len(mine) == 8
    for point in mine:
        for target in ("vta-de10-portable", "vta-fsim"):
            result = measure(Candidate(of_func(func), get_target(target), tuple(space.trace(point).as_json())), execute=True)
            assert result.status == "ok", (space.explain(point), result)
            if target == "vta-de10-portable":
                assert result.cycles is not None and result.cycles >= space.machine_bound()


def test_an_operand_is_read_where_the_block_reads_it(same: Same) -> None:
    """One row of several, which no iterator moves."""
    func = edited(("bias: T.Buffer((3, 1, 16)", "bias: T.Buffer((3, 4, 16)"), ("bias[vn, vb, vj]", "bias[vn, 2, vj]"))
    sch = Schedule(func)
    sch.add_by_gemm(sch.decompose_value("D", [0, 0]), 3, "bias")
    rng = np.random.default_rng(0)
    given = [rng.integers(-128, 128, (6, 2, 1, 16), "int8"), rng.integers(-128, 128, (3, 2, 16, 16), "int8"),
             rng.integers(-16384, 16384, (3, 4, 16), "int32"), np.zeros((6, 3, 1, 16), "int8")]
    assert np.array_equal(run(func, *given)["E"], run(sch.func, *given)["E"])
    assert any(s.done == ("addend by product",) for s in Space(func, "vta-de10-portable").sketches)


def test_an_operand_that_something_else_reads_is_loaded() -> None:
    """What is loaded anyway costs no more where it is added."""
    func = edited(("bias[vn, vb, vj], -100)", "bias[vn, vb, vj], bias[vn, vb, vj])"))
    assert not any("addend by product" in s.done for s in Space(func, "vta-de10-portable").sketches)


@pytest.mark.parametrize("row", ["vi", "7 - vi"])
def test_rows_that_no_iterator_counts_have_the_same_weights(row: str, same: Same) -> None:
    func = parse(f"""
@T.prim_func
def f(C: T.Buffer((8, 16), "int32"), b: T.Buffer((16,), "int32"), D: T.Buffer((8, 16), "int32")):
    T.func_attr({{"autosched.value_ranges": {{"b": [-16384, 16384]}}}})
    for i, j in T.grid(8, 16):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[{row}, vj] = C[vi, vj] + b[vj]
""")
    sch = Schedule(func)
    sch.add_by_gemm("D", 1, "b")
    same(func, sch)


def added(sum_: str, low: int, high: int) -> PrimFunc:
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(C: T.Buffer((16,), "int32"), b: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")):
    T.func_attr({{"autosched.value_ranges": {{"b": [{low}, {high}]}}}})
    for i in range(16):
        with T.sblock("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = {sum_}
''')


@pytest.mark.parametrize(("sum_", "low", "high", "start", "digits"), [
    ("C[vi] + b[vi] + 64", -4096, 4096, "C[vi]", "b[v0] + 64"),
    ("C[vi] + 64 + b[vi]", -4096, 4096, "C[vi]", "b[v0] + 64"),
    ("C[vi] + b[vi]", -4096, 4096, "C[vi]", "b[v0]"),
    ("b[vi] + 64", -4096, 4096, "64", "b[v0]"),  # something has to be added to
    # 15 digits of up to 127 hold a quotient of 1905, and of down to -128 one of -1920.
    ("C[vi] + b[vi] + 63", -122880, 121920, "C[vi]", "b[v0] + 63"),
    ("C[vi] + b[vi] + 64", -122880, 121920, "C[vi] + 64", "b[v0]"),
    ("C[vi] + b[vi] + -1", -122880, 121920, "C[vi] + -1", "b[v0]"),
    ("C[vi] + b[vi] + -1", -122879, 121920, "C[vi]", "b[v0] + -1"),
])
def test_the_host_adds_a_constant_where_digits_hold_it(sum_: str, low: int, high: int, start: str, digits: str) -> None:
    func = added(sum_, low, high)
    sch = Schedule(func)
    sch.add_by_gemm("D", 0, "b")
    text = sch.script()
    assert f"            D[vi] = {start}\n" in text.replace(" - 1\n", " + -1\n")
    assert f"({digits}) % 64" in text.replace(" - 1)", " + -1)") or (digits == "b[v0]" and "b[v0] % 64" in text)
    rng = np.random.default_rng(3)
    for b in (rng.integers(low, high + 1, 16), np.full(16, low), np.full(16, high)):
        c = rng.integers(-(1 << 20), 1 << 20, 16).astype("int32")
        assert np.array_equal(run(sch.func, c, b.astype("int32"))[0], run(func, c, b.astype("int32"))[0])


def test_what_rounds_is_added_by_the_host() -> None:
    func = edited(("T.shift_right(C[vm, vn, vb, vj], 8) + bias[vn, vb, vj]",
                   "T.shift_right(C[vm, vn, vb, vj] + bias[vn, vb, vj] + 64, 7)"))
    nest = next(s.model.nest for s in Space(func, "vta-de10-portable").sketches if s.done == ("addend by product",))
    # A reset, the digits, and shift, maximum and minimum: a cycle each.
    assert nest.init_cycles == 1 and [s.taken for s in nest.stages] == [1, 3]
