"""multiply_by_doubling, mask_by_shifts, choose_by_clip: what the ALU lacks, in what it has, exact for every int32."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.functor import walk_expr
from autosched.ir.host import split_host
from autosched.ir.interp import run
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.doubling import additions, recoded
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import normalise
from space.normalise.blocks import device_blocks, store_of
from space.normalise.lacking import lacks

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

LOW, HIGH = -2**31, 2**31 - 1
# Ends, powers of two and what is beside them, and all small values.
X = np.unique([LOW, HIGH, *[s * (1 << n) + d for n in range(31) for s in (-1, 1) for d in (-1, 0, 1)], *range(-70, 71)])
X = np.resize(X, 320).astype(np.int32)
TEXT = '''
@T.prim_func
def f(x: T.Buffer((320,), "int32"), y: T.Buffer((320,), "int32"), C: T.Buffer((320,), "{dtype}")):
    for i in range(320):
        with T.block("C"):
            vi = T.axis.spatial(320, i)
            C[vi] = {value}
'''


def program(value: str, dtype: str = "int32") -> PrimFunc:
    return parse(TEXT.format(value=value, dtype=dtype))


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    """Of values at and beside the ends of int32, zero and powers of two, together with random ones."""
    y = np.random.default_rng(0).integers(LOW, HIGH, X.size, dtype=np.int32, endpoint=True)
    outs = [np.zeros(X.size, func.buffers[2].dtype) for _ in range(4)]
    for f, a, b in ((func, *outs[:2]), (other, *outs[2:])):
        run(f, X, y, a)
        run(f, y, X, b)
    return np.array_equal(outs[0], outs[2]) and np.array_equal(outs[1], outs[3])


def recomposed(constant: int, stages: bool, negative: int) -> int:
    """What steps multiply by, by their own account."""
    recoding = recoded(constant, stages, negative)
    times = -1 if recoding.negative else 1
    for digit in recoding.digits:
        times = (times << digit.shift) + (times if digit.own else digit.sign)
    return times % (1 << 32)


CONSTANTS = [*range(1, 600), *range(-300, 0), LOW, LOW + 1, HIGH, HIGH - 1, 0x55555555, 1518500249, -1518500249, 65537, 16777215]


@pytest.mark.parametrize("negative", [0, 1, 5, 32])
@pytest.mark.parametrize("stages", [True, False])
def test_steps_make_the_constant_in_few_additions(stages: bool, negative: int) -> None:
    rng = random.Random(0)
    for constant in CONSTANTS + [rng.randint(LOW, HIGH) for _ in range(300)]:
        assert recomposed(constant, stages, negative) == constant % (1 << 32), constant
        found = recoded(constant, stages, negative)
        assert all(0 <= d.shift < 32 and (d.sign or d.shift) for d in found.digits)
        cost = additions(found.digits) + negative * found.takes_away
        # Never more than binary digits need, nor than digits of -1 too with the negative that these take.
        plain, below = bin(constant % (1 << 32)).count("1") - 1, bin(abs(constant)).count("1") - 1 + negative
        signed = bin(abs(constant) ^ (3 * abs(constant))).count("1") - 1 + negative
        assert cost <= min(plain, signed, below if constant < 0 else plain), constant


def test_an_all_ones_constant_goes_by_factors_or_by_a_negative() -> None:
    assert additions(recoded(255).digits) == 3 and not recoded(255).takes_away  # 3 * 5 * 17
    assert additions(recoded(255, negative=1).digits) == 1 and recoded(255, negative=1).takes_away  # 256 - 1
    assert additions(recoded(255, stages=False, negative=32).digits) == 7
    assert recoded(LOW).digits[0].shift == 31 and not recoded(LOW).takes_away
    assert not recoded(LOW + 1).takes_away and recoded(-3).takes_away


@pytest.mark.parametrize("constant", [3, 77, 15, 45, 255, -3, -1, -16, -77, 1000, LOW, LOW + 1, HIGH, -HIGH, 1518500249])
@pytest.mark.parametrize("negative", [0, 5])
def test_a_product_wraps_as_int32_does(constant: int, negative: int, verify_trace_roundtrip: Verify) -> None:
    func = program(f"T.max(x[vi] * {constant}, y[vi]) + {constant} * x[vi]")
    sch = Schedule(func)
    sch.multiply_by_doubling("C", [0, 0], negative)
    sch.multiply_by_doubling("C", [1], negative)
    assert equal(func, sch.func)
    assert not any(getattr(e, "op", "") == "*" for b in device_blocks(sch.func) for e in walk_expr(store_of(b).value))
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("value", "path", "code"), [
    ("x[vi] * y[vi]", [], "form"), ("x[vi] * 8", [], "form"), ("(x[vi] >> 1) * 3", [], "form"), ("x[vi] + 3", [], "form"),
    ("x[vi] * 3", [2], "argument"), ('T.Cast("int32", T.Cast("int8", x[vi]) * T.int8(3))', [0], "form"),
])
def test_what_is_not_multiplied(value: str, path: list[int], code: str) -> None:
    func = program(value)
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.multiply_by_doubling("C", path)
    assert sch.func == func


SHARED = '''
@T.prim_func
def f(x: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = x[vi] * 3
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = x[vi] * 15
'''


def test_stages_need_loops_of_their_own() -> None:
    sch = Schedule(parse(SHARED))
    sch.multiply_by_doubling("B")
    with refused(ScheduleError, "place"):
        sch.multiply_by_doubling("C")


MASKS = [1, 3, 7, 8, 24, 255, 0x7FFFFFFF, -1, -2, -8, LOW, 0x7FFF0000, -65536, 0x40000000]


@pytest.mark.parametrize("value", [
    *[f"T.bitwise_and(x[vi], {m})" for m in MASKS], "T.bitwise_and(7, x[vi])", "x[vi] % 2", "x[vi] % 8", "x[vi] % 1073741824",
])
def test_bits_in_a_row(value: str, verify_trace_roundtrip: Verify) -> None:
    func = program(f"y[vi] + {value}")
    sch = Schedule(func)
    sch.mask_by_shifts("C", [1])
    assert equal(func, sch.func) and "bitwise" not in sch.script() and "%" not in sch.script().replace("% 1", "")
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("value", [
    "T.bitwise_and(x[vi], 5)", "T.bitwise_and(x[vi], y[vi])", "T.bitwise_and(x[vi], -3)", "x[vi] % 7", "x[vi] % -8", "x[vi] // 8",
    "T.truncmod(x[vi], 8)", "T.bitwise_or(x[vi], 7)", "T.bitwise_and(x[vi], 0)",
])
def test_bits_that_stay(value: str) -> None:
    func = program(value)
    sch = Schedule(func)
    with refused(ScheduleError, "form"):
        sch.mask_by_shifts("C")
    assert sch.func == func


@pytest.mark.parametrize("condition", [
    "x[vi] < 0", "x[vi] >= 0", "x[vi] > 0", "0 < x[vi]", "x[vi] <= -5", "x[vi] < 7", "x[vi] < 2147483647", "x[vi] <= -2147483648",
    "x[vi] >> 1 < 3", "x[vi] == 0", "x[vi] != 0", "x[vi] == -5", "7 == x[vi]", "not x[vi] == 7", "x[vi] != 2147483646",
    "x[vi] == -2147483647", "x[vi] >> 20 == 3",
])
@pytest.mark.parametrize(("yes", "no"), [
    (-1, 1), (1, -1), (0, 1), (1, 0), (3, 10), (10, 3), (-2**30, 2**30), (5, 5), (0, 2**30 + 1), (2**30, -2**30), (LOW, -1),
    (HIGH, 0), (0, HIGH),
])
def test_a_step_between_constants(condition: str, yes: int, no: int, verify_trace_roundtrip: Verify) -> None:
    func = program(f"T.Select({condition}, {yes}, {no})")
    sch = Schedule(func)
    sch.choose_by_clip("C")
    assert equal(func, sch.func) and "Select" not in sch.script()
    verify_trace_roundtrip(sch, func)


def test_a_step_of_int8() -> None:
    func = program('T.if_then_else(T.Cast("int8", x[vi]) > T.int8(3), T.int8(-128), T.int8(127))', "int8")
    sch = Schedule(func)
    sch.choose_by_clip("C")
    assert equal(func, sch.func) and "if_then_else" not in sch.script()


@pytest.mark.parametrize("value", [
    "T.Select(x[vi] == 2147483647, 1, 2)", "T.Select(x[vi] == -2147483648, 1, 2)",
    "T.Select(x[vi] < 0, y[vi], 2)", "T.Select(vi < 3, 1, 2)",
    "T.Select(x[vi] < -2147483648, 1, 2)", "T.Select(x[vi] < 0, -2147483648, 1)", "T.max(x[vi], 0)",
])
def test_a_choice_that_stays(value: str) -> None:
    func = program(value)
    sch = Schedule(func)
    with refused(ScheduleError, "form"):
        sch.choose_by_clip("C")
    assert sch.func == func


NARROW = '''
@T.prim_func
def f(A: T.Buffer((256,), "int8"), C: T.Buffer((256, 9), "int32")):
    for i, j in T.grid(256, 9):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.Select({condition}, {yes}, {no})
'''
A = 'T.Cast("int32", A[vi])'


def narrow(condition: str, yes: int = 1, no: int = 0) -> PrimFunc:
    return parse(NARROW.format(condition=condition, yes=yes, no=no))


@pytest.mark.parametrize(("yes", "no"), [(1, 0), (-3, 40)])
@pytest.mark.parametrize("condition", [
    f"{A} == vj", f"{A} != vj * 30 - 120", f"vj == {A}", f"{A} < vj", f"vj * 7 <= {A}", f"{A} - 5 > vi - 128",
    f"not {A} + 3 == vj", f"{A} >= vi * 4000000 - vj", f"{A} * 2 == vj", f"({A} >> 5) + 4 == vj", f"vj != T.max({A}, 3)",
    f"{A} < {A}",
])
def test_an_element_of_int8_is_compared_with_its_place(condition: str, yes: int, no: int) -> None:
    func = narrow(condition, yes, no)
    sch = Schedule(func)
    sch.choose_by_clip("C")
    values = np.arange(-128, 128, dtype=np.int8)
    assert "Select" not in sch.script() and all(map(np.array_equal, run(func, values), run(sch.func, values)))


@pytest.mark.parametrize("condition", [
    f"{A} == vi * 8000000", f"{A} + 1100000000 < vj", f"{A} * 8388608 < vj",
])
def test_an_element_is_compared_with_what_may_be_further_away_than_a_difference_says(condition: str) -> None:
    func = narrow(condition)
    sch = Schedule(func)
    sch.choose_by_clip("C")
    values = np.arange(-128, 128, dtype=np.int8)
    assert "Select" not in sch.script() and all(map(np.array_equal, run(func, values), run(sch.func, values)))


PAIRS = '''
@T.prim_func
def f(A: T.Buffer((256,), "{dtype}"), B: T.Buffer((256,), "{dtype}"), C: T.Buffer((256, 256), "int32")):
    for i, j in T.grid(256, 256):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.Select({condition}, {yes}, {no})
'''


@pytest.mark.parametrize(("yes", "no"), [(1, 0), (-3, 40)])
@pytest.mark.parametrize("condition", [
    *[f"A[vi] {op} B[vj]" for op in ("<", "<=", ">", ">=", "==", "!=")], "not A[vi] < B[vj]", "not B[vj] == A[vi]",
    'T.Cast("int32", A[vi]) - 70 <= T.Cast("int32", B[vj]) * 2', 'T.min(T.Cast("int32", B[vj]), vi) > T.Cast("int32", A[vi])',
])
def test_two_elements_of_int8_are_compared_with_each_other(condition: str, yes: int, no: int) -> None:
    func = parse(PAIRS.format(dtype="int8", condition=condition, yes=yes, no=no))
    sch = Schedule(func)
    sch.choose_by_clip("C")
    values = np.arange(-128, 128, dtype=np.int8)  # all of them with all of them
    assert "Select" not in sch.script()
    assert all(map(np.array_equal, run(func, values, values), run(sch.func, values, values)))


@pytest.mark.parametrize(("more", "near"), [(1, True), (2, False)])
def test_two_values_are_compared_by_their_difference_where_that_is_an_int32(more: int, near: bool) -> None:
    """Of halves of int32 it reaches from -2**31 + 1 to 2**31 - 1; elsewhere the smaller of both tells."""
    func = parse(PAIRS.format(dtype="int32", condition=f"A[vi] >> 1 < (B[vj] >> 1) + {more}", yes=1, no=0))
    sch = Schedule(func)
    sch.choose_by_clip("C")
    assert near == ("T.min(T.shift_right(A[vi], 1)" not in sch.script())
    values = np.resize(X, 256)
    assert all(map(np.array_equal, run(func, values, values[::-1]), run(sch.func, values, values[::-1])))


@pytest.mark.parametrize("condition", [
    *[f"A[vi] {op} B[vj]" for op in ("<", "<=", ">", ">=", "==", "!=")], *[f"A[vi] {op} vj * 16777216 - 2147483647" for op in (
        "<", "<=", ">", ">=", "==", "!=")], "not A[vi] < B[vj]", "vi * 16777216 - 2147483647 >= B[vj]",
])
def test_any_int32_are_compared(condition: str) -> None:
    func = parse(PAIRS.format(dtype="int32", condition=condition, yes=-3, no=40))
    sch = Schedule(func)
    sch.choose_by_clip("C")
    values, others = np.resize(X, 256), np.resize(X[::-1], 256)
    assert "Select" not in sch.script()
    assert all(map(np.array_equal, run(func, values, others), run(sch.func, values, others)))


USERS = '''
@T.prim_func
def f(A: T.Buffer((4, 32), "int8"), W: T.Buffer((16, 32), "int8"), z: T.Buffer((4, 16), "int32"), b: T.Buffer((16,), "int32"),
      out: T.Buffer((4, 16), "int8")):
    q = T.alloc_buffer((4, 16), "int32")
    for i, j, k in T.grid(4, 16, 32):
        with T.block("q"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                q[vi, vj] = 0
            q[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(4, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", %s)
'''
Q, Z, B = "q[vi, vj]", "z[vi, vj]", "b[vj]"
FORMS = [f"{Q} * 3", f"{Z} * -77 + {Q}", f"({Q} * 77 + 256) >> 9", f"T.max({Q}, ({Q} * 13) >> 7)", f"T.max({Q} * -31, 0) * 5",
         f"({Q} + {B} * 3) >> 2", f"{Q} * 1518500249 >> 24", f"T.bitwise_and({Q}, 7) * 3", f"{Z} % 8 - {Q} * 3",
         f"T.Select({Q} < 0, -1, 1)", f"T.Select({Z} >= 5, 100, -100) + {Q} * 7 + 1", f"{Q} * -1", f"{Q} * 255"]


def on_one(values: list[str], targets: tuple[str, ...]) -> list[Any]:
    """Each value on one target, one after the other; on the others in the long run."""
    return [pytest.param(value, target, marks=() if (i + k) % len(targets) == 0 else pytest.mark.slow)
            for i, value in enumerate(values) for k, target in enumerate(targets)]


@pytest.mark.parametrize(("value", "target"), on_one(FORMS, ("vta-de10", "vta-de10-portable", "vta-fsim")))
def test_users_programs_run_on_machines_that_lack_it(value: str, target: str) -> None:
    func = parse(USERS % value)
    space = Space(func, target)
    for point in space.sample(np.random.default_rng(0), 2):
        result = measure(Candidate(func, target, tuple(space.trace(point).as_json())), execute=True, wide=True)
        assert result.ok, result


def test_a_machine_that_multiplies_keeps_the_product(user_programs: ModuleType) -> None:
    func = user_programs.program("times_three")
    assert not any(s.op == "multiply_by_doubling" for s in normalise(func, get_target("vta-fsim"))[1])
    new, steps = normalise(func, get_target("vta-de10"))
    assert any(s.op == "multiply_by_doubling" for s in steps) and not lacks(split_host(new).device, get_target("vta-de10"))


def test_a_product_of_int8_and_a_constant_stays_a_sum() -> None:
    """The GEMM does it; a constant that is no int8 is beyond it."""
    text = USERS.replace('z: T.Buffer((4, 16), "int32")', 'z: T.Buffer((4, 16), "int8")')
    for by, doubled in ((127, False), (-128, False), (128 + 1, True), (-129, True)):
        func = parse(text % f"q[vi, vj] + z[vi, vj].astype(\"int32\") * {by}")
        ops = {s.op for s in normalise(func, get_target("vta-de10"))[1]}
        assert ("multiply_by_doubling" in ops) == doubled, by


STARTS = '''
@T.prim_func
def f(A: T.Buffer((4, 32), "int8"), W: T.Buffer((16, 32), "int8"), V: T.Buffer((16, 32), "int8"), z: T.Buffer((4, 16), "int32"),
      out: T.Buffer((4, 16), "int8")):
    p = T.alloc_buffer((4, 16), "int32")
    q = T.alloc_buffer((4, 16), "int32")
    for i, j, k in T.grid(4, 16, 32):
        with T.block("p"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                p[vi, vj] = 0
            p[vi, vj] += A[vi, vk].astype("int32") * V[vj, vk].astype("int32")
    for i, j, k in T.grid(4, 16, 32):
        with T.block("q"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                q[vi, vj] = %s
            q[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(4, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", q[vi, vj] >> 4)
'''
P = "p[vi, vj]"


@pytest.mark.parametrize(("value", "target"), on_one([
    f"{Z} - ({P} >> 2)", f"0 - T.max({P}, 0)", f"T.max({P}, 0) * 3", f"{P} - T.max({Z}, {P}) * 7", f"T.bitwise_and({P}, 7) + {Z}",
], ("vta-de10", "vta-de10-portable")))
def test_what_a_sum_starts_with(value: str, target: str) -> None:
    func = parse(STARTS % value)
    space = Space(func, target)
    for point in space.sample(np.random.default_rng(0), 2):
        result = measure(Candidate(func, target, tuple(space.trace(point).as_json())), execute=True, wide=True)
        assert result.ok, result


def test_a_start_that_needs_nothing_keeps_its_form() -> None:
    func = parse(STARTS % f"{Z} - {P}")
    assert not any(s.op == "decompose_reduction" for s in normalise(func, get_target("vta-de10"))[1])
    func = parse(STARTS % f"{Z} * {P}")
    assert not any(s.op == "decompose_reduction" for s in normalise(func, get_target("vta-de10"))[1])


@pytest.mark.parametrize("value", ["z[vi, vj] - {}", "5 - {}", "(z[vi, vj] >> 3) - {} * 2 - {}"])
def test_a_sum_that_starts_with_less_than_a_computed_int8(value: str) -> None:
    """Of elements that the program narrows itself no factor is a parameter's: their negatives are doubled."""
    text = STARTS.replace('p = T.alloc_buffer((4, 16), "int32")', 'p = T.alloc_buffer((4, 16), "int8")')
    product = "    for i, j, k in T.grid(4, 16, 32):\n"
    first = text.index(product), text.index(product + '        with T.block("q")')
    stage = '''    for i, j in T.grid(4, 16):
        with T.block("p"):
            vi, vj = T.axis.remap("SS", [i, j])
            p[vi, vj] = (z[vi, vj] >> 5).astype("int8")
'''
    text = text[: first[0]] + stage + text[first[1] :]
    func = parse(text.replace('V: T.Buffer((16, 32), "int8"), ', "") % value.replace("{}", 'p[vi, vj].astype("int32")'))
    space = Space(func, "vta-de10")
    for point in space.sample(np.random.default_rng(0), 2):
        result = measure(Candidate(func, "vta-de10", tuple(space.trace(point).as_json())), execute=True, wide=True)
        assert result.ok, result


@pytest.mark.parametrize("start", ["T.min({Z}, 1000) - {P}", "T.bitwise_and({P}, 2147483647)", "T.max({P}, 0) + {Z}"])
@pytest.mark.parametrize("value", ["T.min({Q}, 0 - {Q}) * 7", "{Q} * -1", "100 - ({Q} >> 4)"])
def test_a_sum_that_is_taken_away_starts_with_the_negative_of_a_computed_start(start: str, value: str) -> None:
    names = {"{Z}": Z, "{P}": P, "{Q}": Q}
    for name, text in names.items():
        start, value = start.replace(name, text), value.replace(name, text)
    func = parse((STARTS % start).replace("q[vi, vj] >> 4", value))
    space = Space(func, "vta-de10")
    for point in space.sample(np.random.default_rng(0), 2):
        result = measure(Candidate(func, "vta-de10", tuple(space.trace(point).as_json())), execute=True, wide=True)
        assert result.ok, result


@pytest.mark.parametrize(("value", "target"), on_one([
    "{} * 3", "{} * -3 >> 1", "{} * -128 + T.max({} * 77, 5)", "5 - T.max({} * -77, -5)", "q[vi, vj] * -3 - ({} * 127 >> 3)",
], ("vta-de10", "vta-de10-portable")))
def test_a_computed_int8_times_an_int8_constant_is_none_of_the_gemms(value: str, target: str) -> None:
    """What a program narrows itself is in the accumulator, where no product finds it; wider constants went already."""
    stage = '''    for i, j in T.grid(4, 16):
        with T.block("h"):
            vi, vj = T.axis.remap("SS", [i, j])
            h[vi, vj] = (q[vi, vj] >> 3).astype("int8")
'''
    at = USERS.index("    for i, j in T.grid(4, 16):\n")
    text = USERS[:at].replace("    q = T", '    h = T.alloc_buffer((4, 16), "int8")\n    q = T') + stage + USERS[at:]
    func = parse(text % value.replace("{}", 'h[vi, vj].astype("int32")'))
    space = Space(func, target)
    for point in space.sample(np.random.default_rng(0), 2):
        result = measure(Candidate(func, target, tuple(space.trace(point).as_json())), execute=True, wide=True)
        assert result.ok, result
