"""simplify_value, expand_choice: the same value in other operations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.expr import BinOp, Expr
from autosched.ir.functor import walk
from autosched.ir.interp import run
from autosched.ir.patterns import has_loads
from autosched.ir.stmt import BufferStore
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.cancelling import _Cancelling, without_cancelled
from autosched.script import parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((96,), "int32"), B: T.Buffer((96,), "int8"), C: T.Buffer((96,), "{dtype}")):
    T.func_attr({{"autosched.value_ranges": {{"A": [{low}, {high}]}}}})
    for i in range(96):
        with T.block("C"):
            vi = T.axis.spatial(96, i)
            C[vi] = {value}
'''
WHOLE = (-(2**31), 2**31 - 1)


def program(value: str, dtype: str = "int32", span: tuple[int, int] = WHOLE) -> PrimFunc:
    return parse(TEXT.format(value=value, dtype=dtype, low=span[0], high=span[1]))


def value_of(func: PrimFunc) -> Expr:
    (store,) = [s for s in walk(func.body) if isinstance(s, BufferStore)]
    return store.value


def outputs(func: PrimFunc, span: tuple[int, int] = WHOLE) -> np.ndarray:
    """With every small value, the ends of the range and the last ones before them."""
    corners = [x for x in (*range(-40, 40), *(e + d for e in span for d in (-1, 0, 1))) if span[0] <= x <= span[1]]
    a = np.resize(np.array(corners), 96).astype("int32")
    b = np.resize(np.arange(-128, 128, 3), 96).astype("int8")
    return run(func, a, b, np.zeros(96, func.buffers[2].dtype))["C"]


@pytest.mark.parametrize(("value", "plain"), [
    ("T.Select(A[vi] < 0, 0, A[vi])", "T.max(A[vi], 0)"),
    ("T.shift_right(A[vi], 0)", "A[vi]"),
    ("T.shift_left(T.shift_right(A[vi], 0), 0)", "A[vi]"),
    ("T.shift_right(T.if_then_else(vi < 5, A[vi], 0), 0)", "T.if_then_else(vi < 5, A[vi], 0)"),
    ("T.if_then_else(A[vi] > 0, A[vi], 0)", "T.max(A[vi], 0)"),
    ("T.if_then_else(0 <= A[vi], T.shift_right(A[vi], 4), 0)", "T.max(T.shift_right(A[vi], 4), 0)"),
    ("T.Select(A[vi] >= 128, 127, A[vi])", "T.min(A[vi], 127)"),
    ("T.Select(A[vi] > 127, 127, T.Select(A[vi] < -128, -128, A[vi]))", "T.min(T.max(A[vi], -128), 127)"),
    ("T.Select(T.Not(A[vi] < 0), T.min(A[vi], 6), 0)", "T.max(T.min(A[vi], 6), 0)"),
    ("T.Select(A[vi] < 0, T.shift_right(A[vi], 3), A[vi])", "T.max(T.shift_right(A[vi], 3), A[vi])"),
    ("T.Select(A[vi] < 0, A[vi], T.shift_right(A[vi], 3))", "T.min(A[vi], T.shift_right(A[vi], 3))"),
    ("T.Select(A[vi] < 0, 0 - A[vi], A[vi])", "T.max(A[vi], 0 - A[vi])"),
    ("T.Select(A[vi] < 0, T.shift_right(A[vi], 9), T.min(T.shift_right(A[vi], 6), 127))",
     "T.min(T.max(T.shift_right(A[vi], 9), T.shift_right(A[vi], 6)), 127)"),
    ("T.Select(A[vi] < 0, T.max(A[vi], -3), T.shift_right(A[vi], 1))", "T.max(T.min(A[vi], T.shift_right(A[vi], 1)), -3)"),
    ("T.Select(A[vi] < 0, T.shift_right(A[vi], 9), T.min(T.shift_right(A[vi], 6), -1))",
     "T.min(T.max(T.shift_right(A[vi], 9), T.shift_right(A[vi], 6)), -1)"),
    ('T.Cast("int32", T.Cast("int8", T.Cast("uint8", A[vi])))', 'T.Cast("int32", T.Cast("int8", A[vi]))'),
    ("T.if_then_else(vi >= 90 or vi < 5, 0, A[vi])", "T.if_then_else(vi < 90 and vi >= 5, A[vi], 0)"),
    ("T.Select(vi < 90, A[T.min(vi, 89)], 0)", "T.if_then_else(vi < 90, A[vi], 0)"),
    ("T.if_then_else(vi < 90, T.if_then_else(vi > 2, A[vi], 0), 0)", "T.if_then_else(vi < 90 and vi > 2, A[vi], 0)"),
    ("T.if_then_else(vi < 96, A[vi], 0)", "A[vi]"),
    ('T.Cast("int32", T.Cast("int16", B[vi]) * T.Cast("int16", B[vi]))', 'T.Cast("int32", B[vi]) * T.Cast("int32", B[vi])'),
    ('T.Cast("int32", T.Cast("int16", B[vi]))', 'T.Cast("int32", B[vi])'),
    ("T.truncdiv(A[vi], 8)", "T.max(T.shift_right(A[vi], 3), T.shift_right(T.min(A[vi], 0) + 7, 3))"),
    ("T.truncdiv(A[vi], 1073741824)", "T.max(T.shift_right(A[vi], 30), T.shift_right(T.min(A[vi], 0) + 1073741823, 30))"),
    ("~A[vi]", "-1 - A[vi]"),
    ("A[vi] - (A[vi] + A[95 - vi])", "0 - A[95 - vi]"),
    ("T.shift_right(A[vi] - (A[0] + (3 - (A[0] - A[vi]))), 2)", "T.min(T.max(A[vi], -1), -1)"),
    ("A[0] + (A[vi] - T.max(A[0], A[vi])) + T.max(A[0], A[vi])", "A[0] + A[vi]"),
    ("T.min(A[vi] - A[vi], A[vi])", "T.min(0, A[vi])"),
    ("A[vi] + A[vi] - A[vi]", "A[vi]"),
    ('T.Cast("int32", B[vi] - B[vi]) - A[vi]', "0 - A[vi]"),
    ("A[vi] - A[vi]", "T.min(T.max(A[vi], 0), 0)"),
    ("(A[vi] - A[vi]) + 300", "T.min(T.max(A[vi], 300), 300)"),
    ('T.Cast("int32", B[vi]) - T.Cast("int32", B[vi])', 'T.min(T.max(T.Cast("int32", B[vi]), 0), 0)'),
    ("~(A[vi] - A[vi])", "T.min(T.max(A[vi], -1), -1)"),
    ("T.bitwise_and(~(A[vi] - A[vi]), 6)", "T.min(T.max(A[vi], 6), 6)"),
    ("T.abs(A[vi] - A[vi] - 3) - A[0]", "3 - A[0]"),
    ("T.abs(A[vi] - A[vi] + (-2147483647 - 1)) - A[0]", "-2147483648 - A[0]"),
    ("T.shift_right(A[vi] - (A[vi] + 64), 31) + A[0]", "-1 + A[0]"),
])
def test_in_fewer_words(value: str, plain: str, verify_trace_roundtrip: Verify) -> None:
    func = program(value)
    sch = Schedule(func)
    sch.simplify_value("C")
    assert f"C[vi] = {plain}\n" in sch.script()
    assert np.array_equal(outputs(func), outputs(sch.func))
    verify_trace_roundtrip(sch, func)
    with refused(ScheduleError, "form"):
        sch.simplify_value("C")


@pytest.mark.parametrize(("value", "span"), [
    ("T.shift_right(A[vi] + 1, 0)", WHOLE),  # an operation makes what is shifted
    ("T.shift_right(A[vi], 1)", WHOLE),
    ("T.Select(A[vi] < 1, 0, A[vi] - 2)", WHOLE),  # falls back to -1 behind the threshold
    ("T.Select(A[vi] < 0, 1, A[vi])", WHOLE),
    ("T.Select(A[vi] > 127, 126, A[vi])", WHOLE),
    ("T.Select(A[vi] < 0, 0, A[vi] * 3)", WHOLE),  # wraps
    ("T.Select(A[vi] < 0, T.shift_left(A[vi], 2), A[vi])", WHOLE),
    ("T.Select(A[vi] < 0, 0 - A[vi], T.shift_right(A[vi], 1))", WHOLE),  # -(-2**31) is no positive number
    ("T.Select(A[vi] < 2, T.shift_right(A[vi], 3), A[vi])", WHOLE),
    ("T.Select(A[vi] < 0, 0, 0 - A[vi])", WHOLE),  # falls
    ("T.Select(A[vi] < 0, T.shift_right(A[vi], 9), T.min(T.shift_right(A[vi], 6), -2))", WHOLE),  # -1 passes the clip
    ("T.Select(A[vi] < 0, A[vi], T.min(T.shift_right(A[vi], 1), -2))", WHOLE),  # -1 passes it, -2 does not
    ("T.Select(A[vi] < 0, A[vi] * -1, T.min(A[vi], 7))", (-100, 100)),  # falls past the clip
    ("T.Select(A[vi] < 5, 0, A[vi] - 5)", WHOLE),  # wraps at the other end
    ("T.Select(A[vi] < 5, 9, A[vi])", (0, 5)),
    ("T.Select(A[vi] == 0, 0, A[vi])", WHOLE),
    ("T.Select(A[vi] < 0, 0, A[95 - vi])", WHOLE),  # of another element
    ('T.Cast("int32", T.Cast("int8", A[vi]))', (-129, 127)),
    ('T.Cast("int32", B[vi] + B[vi])', WHOLE),
    ('T.Cast("int32", T.Cast("int16", A[vi]) + T.Cast("int16", B[vi]))', (-32768, 32640)),
    ("T.truncdiv(A[vi], 6)", WHOLE), ("T.truncdiv(A[vi], -8)", WHOLE),
    ("A[vi] - (A[95 - vi] + A[0])", WHOLE),  # other elements
    ("A[vi] - T.shift_right(A[vi], 0)", WHOLE), ("A[vi] * 2 - A[vi]", WHOLE),  # not by the text
    ("A[vi] + T.min(vi, 3) - T.min(vi, 3)", WHOLE),  # reads nothing
    ("T.max(A[vi], 3) - T.max(A[vi], 4)", WHOLE),
    # A division by what is always zero, a shift by what is no count.
    ("T.truncdiv(5, A[vi] - A[vi])", WHOLE), ("5 % (A[vi] - A[vi])", WHOLE),
    ("T.shift_right(5, A[vi] - A[vi] - 1)", WHOLE), ("T.shift_left(1, A[vi] - (A[vi] - 32))", WHOLE),
    ("A[vi] - (A[vi] - T.min(vi, 4))", WHOLE), ("T.min(A[vi] - A[vi] - vi, 3)", WHOLE),  # only places are left
    # Nothing is left, and no element is read that is there whatever holds.
    ("T.if_then_else(vi > 0, A[vi - 1], 0) - T.if_then_else(vi > 0, A[vi - 1], 0)", WHOLE),
])
def test_what_is_another_value(value: str, span: tuple[int, int]) -> None:
    sch = Schedule(program(value, span=span))
    with refused(ScheduleError, "form"):
        sch.simplify_value("C")


@pytest.mark.parametrize(("value", "span", "plain"), [
    ("T.Select(A[vi] < 0, 0, A[vi] * 3)", (-100, 100), "T.max(A[vi] * 3, 0)"),
    ("T.Select(A[vi] < 0, 0 - A[vi], T.shift_right(A[vi], 1))", (-(2**31) + 1, 9), "T.max(T.shift_right(A[vi], 1), 0 - A[vi])"),
    ('T.Cast("int32", T.Cast("int8", A[vi]))', (-128, 127), "A[vi]"),
    ("T.truncdiv(A[vi], 8)", (0, 99), "T.shift_right(A[vi], 3)"),
    ("T.truncdiv(A[vi], 8)", (-1, 99), "T.max(T.shift_right(A[vi], 3), T.shift_right(T.min(A[vi], 0) + 7, 3))"),
    ('T.Cast("int32", T.Cast("int16", A[vi]) + T.Cast("int16", B[vi]))', (-32640, 32640), 'A[vi] + T.Cast("int32", B[vi])'),
    ("T.Select(A[vi] < 5, 0, A[vi] - 5)", (-100, 100), "T.max(A[vi] - 5, 0)"),
    ("T.Select(A[vi] < -7, 3, A[vi])", (-7, 50), "A[vi]"),
])
def test_declared_ranges_count(value: str, span: tuple[int, int], plain: str) -> None:
    func = program(value, span=span)
    sch = Schedule(func)
    sch.simplify_value("C")
    assert f"C[vi] = {plain}\n" in sch.script()
    assert np.array_equal(outputs(func, span), outputs(sch.func, span))


CHAINS = ("{}", "T.shift_right({}, 2)", "{} + 3", "T.min({}, 9)", "T.max({}, -4)", "{} * 4", "{} // 8", "{} * -1", "0 - {}",
          "T.shift_left({}, 1)", 'T.Cast("int32", T.Cast("int8", {}))', 'T.Cast("int32", T.Cast("int16", {}))')


@settings(max_examples=120)
@given(st.data())
def test_whatever_changes_keeps_its_values(data: st.DataObject) -> None:
    def chain(x: str) -> str:
        for _ in range(data.draw(st.integers(0, 2))):
            x = data.draw(st.sampled_from(CHAINS)).format(x)
        return x

    def value(depth: int) -> str:
        x = chain("A[vi]")
        if not depth:
            return x
        sides = [str(data.draw(st.integers(-9, 9))), chain(x), f"T.min({chain(x)}, 7)", value(depth - 1)]
        yes, no = data.draw(st.sampled_from(list(product(sides, sides[1:])))), data.draw(st.booleans())
        test = f"{x} {data.draw(st.sampled_from(['<', '<=', '>', '>=']))} {data.draw(st.integers(-5, 5))}"
        test = data.draw(st.sampled_from([test, f"T.Not({test})", "vi % 5 < 3 or vi >= 60"]))
        pair = yes[::-1] if no else yes
        return f"{data.draw(st.sampled_from(['T.Select', 'T.if_then_else']))}({test}, {pair[0]}, {pair[1]})"

    span = data.draw(st.sampled_from([WHOLE, (-30, 30), (0, 200), (-(2**31) + 1, 2**20)]))
    func = program(value(data.draw(st.integers(1, 2))), span=span)
    sch = Schedule(func, error_render_level="fast")
    try:
        sch.simplify_value("C")
    except ScheduleError:
        return
    assert np.array_equal(outputs(func, span), outputs(sch.func, span)), func.script()


@settings(max_examples=60)
@given(st.data())
def test_what_is_added_and_taken_away_is_neither(data: st.DataObject) -> None:
    sides = [data.draw(st.sampled_from(["A[vi]", "A[0]", "T.min(A[vi], 7)", 'T.Cast("int32", B[vi])', "5"]))
             for _ in range(data.draw(st.integers(2, 7)))]
    while len(sides) > 1:
        at = data.draw(st.integers(0, len(sides) - 2))
        op = data.draw(st.sampled_from(["-", "-", "+"]))
        sides[at : at + 2] = [f"({sides[at]} {op} {sides[at + 1]})"]
    func = program(sides[0])
    sch = Schedule(func, error_render_level="fast")
    with suppress(ScheduleError):
        sch.simplify_value("C")
    assert np.array_equal(outputs(func), outputs(sch.func)), func.script()
    ahead, found = [(value_of(sch.func), False)], set[tuple[Expr, bool]]()
    while ahead:
        e, away = ahead.pop()
        if isinstance(e, BinOp) and e.op in "+-":
            ahead += [(e.a, away), (e.b, away != (e.op == "-"))]
        elif has_loads(e):
            found.add((e, away))
    assert not [e for e, away in found if (e, not away) in found], sch.script()


def test_terms_within_terms_are_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Expr] = []
    visit = _Cancelling.visit_expr
    monkeypatch.setattr(_Cancelling, "visit_expr", lambda self, expr: [seen.append(expr), visit(self, expr)][1])

    def visits(deep: int) -> int:
        seen.clear()
        value = "A[vi]"
        for _ in range(deep):
            value = f"(T.max({value}, 3) + B[vi])"
        func = program(value)
        assert without_cancelled(value_of(func)) is value_of(func)
        return len(seen)

    assert visits(16) < 3 * visits(8)


def test_of_a_reduction_what_it_has_so_far_is_kept() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + (A[vi, vk] - (A[vi, vk] + A[7 - vi, vk]))
""")
    sch = Schedule(func)
    sch.simplify_value("C")
    assert "C[vi] = C[vi] - A[7 - vi, vk]\n" in sch.script()
    other = Schedule(parse(func.script().replace("(A[vi, vk] - (A[vi, vk] + A[7 - vi, vk]))", "(A[vi, vk] - C[vi])")))
    with refused(ScheduleError, "form"):
        other.simplify_value("C")


@settings(max_examples=40)
@given(st.data())
def test_a_choice_as_a_sum_is_the_same(data: st.DataObject) -> None:
    def choice(depth: int) -> str:
        if not depth:
            return data.draw(st.sampled_from(["0", "A[vi]", "A[95 - vi]", "A[vi % 7] + 3", "5"]))
        op = data.draw(st.sampled_from(["<", ">=", "<=", ">", "=="]))
        test = f"vi {op} {data.draw(st.integers(0, 96))}"
        test = data.draw(st.sampled_from([test, f"{test} and vi % 3 < 2", f"{test} or vi // 9 == 4", f"T.Not({test})"]))
        kind = data.draw(st.sampled_from(["T.Select", "T.if_then_else"]))
        return f"{kind}({test}, {choice(depth - 1)}, {choice(data.draw(st.integers(0, depth - 1)))})"

    func = program(choice(data.draw(st.integers(1, 3))))
    sch = Schedule(func, error_render_level="fast")
    try:
        sch.expand_choice("C")
    except ScheduleError:
        return
    assert np.array_equal(outputs(func), outputs(sch.func)), func.script()


@pytest.mark.parametrize(("value", "plain"), [
    ('T.Cast("int8", T.shift_right(T.Cast("int16", B[vi]) + T.int16(1), T.int16(1)))',
     'T.Cast("int8", T.shift_right(T.Cast("int32", B[vi]) + 1, 1))'),
    ('T.Cast("int8", T.max(T.Cast("int16", B[vi]) * T.int16(200), T.int16(-128)))',
     'T.Cast("int8", T.max(T.Cast("int32", B[vi]) * 200, -128))'),
    ('T.Select(A[vi] > 0, T.Cast("int8", T.min(A[vi], 127)), T.int8(0))', 'T.Cast("int8", T.max(T.min(A[vi], 127), 0))'),
])
def test_what_is_narrowed_is_int32_before(value: str, plain: str, verify_trace_roundtrip: Verify) -> None:
    func = program(value, "int8")
    sch = Schedule(func)
    sch.simplify_value("C")
    assert f"C[vi] = {plain}\n" in sch.script() and np.array_equal(outputs(func), outputs(sch.func))
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("value", [
    'T.Cast("int8", T.max(T.Cast("int16", B[vi]) * T.int16(300), T.int16(-128)))',  # -128 * 300 wraps around
    'T.Cast("int8", T.shift_right(T.Cast("int16", A[vi]), T.int16(1)))',
    'T.Select(A[vi] > 0, T.Cast("int8", A[vi]), T.int8(5))',
])
def test_what_a_narrow_type_does_not_hold_stays(value: str) -> None:
    with refused(ScheduleError, "form"):
        Schedule(program(value, "int8")).simplify_value("C")


@pytest.mark.parametrize("value", ["A[vi]", "T.Select(vi < 5, A[vi], 0)", "T.Select(A[vi] < 5, A[vi], A[95 - vi])"])
def test_what_is_no_choice_of_several(value: str) -> None:
    sch = Schedule(program(value))
    with refused(ScheduleError, "form"):
        sch.expand_choice("C")


def test_conditions_on_data_stay_apart_from_those_on_places() -> None:
    """``A * 3 >= 0`` is not ``A >= 0``: the product wraps around."""
    func = program("T.if_then_else(vi < 95, T.if_then_else(A[vi] * 3 >= 0, A[vi] - 5, 0), 0)")
    with refused(ScheduleError, "form"):
        Schedule(func).simplify_value("C")
