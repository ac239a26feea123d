"""push_negation, negate_by_doubling, negate_factor: what is computed is taken away by sums, extrema and shifts alone."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.expr import BinOp, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.minus import known_values
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import normalise
from space.normalise.blocks import device_blocks, store_of

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

LOW, HIGH = -2**31, 2**31 - 1
TEXT = '''
@T.prim_func
def f(a: T.Buffer((64,), "int32"), b: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), D: T.Buffer((64,), "int32")):
    T.func_attr({{"autosched.value_ranges": {{"a": [{low}, {high}]}}}})
    S = T.alloc_buffer((64,), "int32")
    for i in range(64):
        with T.block("S"):
            vi = T.axis.spatial(64, i)
            S[vi] = {stage}
    for i in range(64):
        with T.block("C"):
            vi = T.axis.spatial(64, i)
            C[vi] = {value}
    for i in range(64):
        with T.block("D"):
            vi = T.axis.spatial(64, i)
            D[vi] = {more}
'''
PLAIN = {"low": LOW, "high": HIGH, "stage": "a[vi]", "value": "b[vi] - S[vi]", "more": "S[vi]"}


def program(**changes: object) -> PrimFunc:
    return parse(TEXT.format(**{**PLAIN, **changes}))


def outputs(func: PrimFunc, low: int, high: int) -> list[np.ndarray]:
    """Of values at and beside the ends of a range, at zero and at powers of two, with others as low and as high as can be."""
    ends = [low, low + 1, high, high - 1, *[s * (1 << n) + d for n in range(31) for s in (-1, 1) for d in (-1, 0)]]
    a = np.array([v for v in ends if low <= v <= high] * 64, dtype=np.int64)[:64].astype(np.int32)
    b = np.resize(np.array([LOW, HIGH, 0, -1, 12345], dtype=np.int32), 64)
    outs = [np.zeros(64, np.int32) for _ in range(2)]
    run(func, a, b, *outs)
    return outs


def equal(func: PrimFunc, other: PrimFunc, low: int = LOW, high: int = HIGH) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(outputs(func, low, high), outputs(other, low, high)))


@pytest.mark.parametrize(("value", "made", "least"), [
    ("b[vi] - (a[vi] + 3)", "b[vi] - a[vi] + -3", LOW),
    ("b[vi] - (3 - a[vi])", "b[vi] + a[vi] + -3", LOW),
    ("b[vi] - (a[vi] << 4)", "b[vi] + T.shift_left(0 - a[vi], 4)", LOW),
    ("b[vi] - a[vi] * 8", "b[vi] + T.shift_left(0 - a[vi], 3)", LOW),
    ("0 - (b[vi] - a[vi])", "a[vi] - b[vi]", LOW),
    # The least value whose negative, raised by what is shifted out, is an int32.
    ("b[vi] - (a[vi] >> 4)", "b[vi] + T.shift_right(15 - a[vi], 4)", LOW + 16),
    ("b[vi] - a[vi] // 16", "b[vi] + T.shift_right(15 - a[vi], 4)", LOW + 16),
    ("b[vi] - T.max(a[vi], 0)", "b[vi] + T.min(0 - a[vi], 0)", LOW + 1),
    ("b[vi] - T.min(a[vi], a[vi] >> 1)", "b[vi] + T.max(0 - a[vi], T.shift_right(1 - a[vi], 1))", LOW + 2),
])
def test_a_minus_moves_inwards(value: str, made: str, least: int, verify_trace_roundtrip: Verify) -> None:
    func = program(value=value, low=least)
    sch = Schedule(func)
    sch.push_negation("C")
    assert f"C[vi] = {made}" in sch.script() and equal(func, sch.func, least)
    verify_trace_roundtrip(sch, func)
    if least > LOW:
        beyond = program(value=value, low=least - 1)
        other = Schedule(beyond)
        try:
            other.push_negation("C")
        except ScheduleError as error:
            assert error.code == "range"
        else:  # a part of it stays as it is
            assert made not in other.script() and equal(beyond, other.func, least - 1)


@pytest.mark.parametrize(("value", "code"), [
    ("b[vi] - a[vi]", "form"), ("b[vi] - 3", "form"), ("(b[vi] >> 1) + a[vi]", "form"), ("b[vi] - (a[vi] >> 1)", "range"),
    ("b[vi] - a[vi] * 3", "range"), ('b[vi] - T.Cast("int32", T.Cast("int8", a[vi]))', "range"),
])
def test_a_minus_that_stays(value: str, code: str) -> None:
    func = program(value=value)
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.push_negation("C")
    assert sch.func == func


def steps(bits: int) -> int:
    """Blocks of a negative: a doubling of bits each, and shifts that extend the sign."""
    return bits.bit_length() - 1 + (bits < 32)


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
def test_a_negative_takes_as_many_bits_as_it_needs(bits: int, verify_trace_roundtrip: Verify) -> None:
    low, high = 1 - (1 << bits - 1), 1 << bits - 1
    for one, other, needs in ((low, high, bits), (low - 1, high, 2 * bits), (low, high + 1, 2 * bits)):
        func = program(low=one, high=other)
        sch = Schedule(func)
        sch.negate_by_doubling("S")
        made = [b for b in device_blocks(sch.func) if b.name.startswith("S_")]
        assert len(made) == steps(needs) and made[-1].name == "S_negative"
        assert equal(func, sch.func, one, other), (one, other)
    verify_trace_roundtrip(sch, func)


def test_the_negative_of_any_int32() -> None:
    func = program(value="b[vi] * 2 - S[vi]", more="T.max(b[vi] - S[vi], 0) - S[63 - vi]")
    sch = Schedule(func)
    sch.negate_by_doubling("S")
    assert equal(func, sch.func) and "- S" not in sch.script()


@pytest.mark.parametrize(("block", "changes", "code"), [
    ("S", {"value": "b[vi] + S[vi]"}, "reader"), ("S", {"value": "S[vi] - (S[vi] >> 1)"}, "reader"), ("D", {}, "output"),
])
def test_what_is_not_doubled(block: str, changes: dict[str, str], code: str) -> None:
    sch = Schedule(program(**changes))
    with refused(ScheduleError, code):
        sch.negate_by_doubling(block)


REDUCED = '''
@T.prim_func
def f(b: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    S = T.alloc_buffer((8,), "int32")
    R = T.alloc_buffer((8,), "int32")
    for i, k in T.grid({n}, {loop}):
        with T.block("S"):
            vi = T.axis.spatial({n}, i)
            vk = T.axis.reduce(2, {step})
            with T.init():
                S[vi] = 0
            S[vi] += 1000
    {more}
    for i in range(8):
        with T.block("R"):
            vi = T.axis.spatial(8, i)
            R[vi] = S[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = {value}
'''
OTHER = '''for i in range(4):
        with T.block("other"):
            vi = T.axis.spatial(4, i)
            S[vi + 4] = b[vi]'''
LONG = {"n": 8, "loop": 64, "step": "k // 32", "more": ""}  # 33 steps of two: it starts again at each of the first 32
HALF = {"n": 4, "loop": 2, "step": "k", "more": OTHER}


@pytest.mark.parametrize(("changes", "narrow"), [
    ({"n": 8, "loop": 2, "step": "k", "more": ""}, True), (LONG, False), (HALF, False),
])
def test_only_what_a_reduction_alone_makes_in_so_many_steps_is_known(changes: dict[str, object], narrow: bool) -> None:
    func = parse(REDUCED.format(value="b[vi] - R[vi]", **changes))
    sch = Schedule(func)
    sch.negate_by_doubling("R")
    assert sum(b.name.startswith("R_") for b in device_blocks(sch.func)) == steps(16 if narrow else 32)
    moved = Schedule(parse(REDUCED.format(value="b[vi] - (S[vi] >> 4)", **changes)))
    if narrow:
        moved.push_negation("C")
    else:
        with refused(ScheduleError, "range"):
            moved.push_negation("C")
    for other in (sch, moved):
        first = parse(REDUCED.format(value="b[vi] - R[vi]" if other is sch else "b[vi] - (S[vi] >> 4)", **changes))
        b = np.array([LOW, HIGH, 0, -1, 1000, 1 << 20, LOW + 15, 7], dtype=np.int32)
        results = [np.zeros(8, np.int32) for _ in range(2)]
        run(first, b, results[0])
        run(other.func, b, results[1])
        assert np.array_equal(*results)


FACTORS = '''
@T.prim_func
def f(x: T.Buffer((256,), "int8"), w: T.Buffer((256,), "int8"), C: T.Buffer((256,), "int32")):
    T.func_attr({"autosched.value_ranges": {"w": [%d, 127]}})
    for i in range(256):
        with T.block("C"):
            vi = T.axis.spatial(256, i)
            C[vi] = %s
'''
PRODUCT = 'T.Cast("int32", x[vi]) * T.Cast("int32", w[255 - vi])'


SQUARE = 'T.Cast("int32", w[vi]) * T.Cast("int32", w[vi])'


@pytest.mark.parametrize(("least", "made"), [(-128, "w_complement"), (-127, "w_negative")])
@pytest.mark.parametrize("value", [f"5 - {PRODUCT}", f"({PRODUCT} - {PRODUCT}) >> 1", f"5 - {SQUARE}",
                                   f"{PRODUCT} - {SQUARE} - T.Cast(\"int32\", w[vi]) * T.Cast(\"int32\", w[255 - vi])"])
def test_products_with_a_negative_factor(least: int, made: str, value: str, verify_trace_roundtrip: Verify) -> None:
    func = parse(FACTORS % (least, value))
    sch = Schedule(func)
    sch.host_stage(sch.negate_factor("C", "w"))
    verify_trace_roundtrip(sch, func)
    assert made in sch.script()
    x, w = np.arange(-128, 128).astype(np.int8), np.maximum(np.arange(127, -129, -1), least).astype(np.int8)
    for turn in (0, 100, 255):
        a, b = (np.zeros(256, np.int32) for _ in range(2))
        run(func, np.roll(x, turn), w, a)
        run(sch.func, np.roll(x, turn), w, b)
        assert np.array_equal(a, b)


@pytest.mark.parametrize(("value", "operand", "code"), [
    (f"5 + {PRODUCT}", "w", "form"),
    ('5 - T.Cast("int32", w[vi]) * 3', "w", "form"),
])
def test_what_is_no_factor(value: str, operand: str, code: str) -> None:
    sch = Schedule(parse(FACTORS % (-128, value)))
    with refused(ScheduleError, code):
        sch.negate_factor("C", operand)


def chain(rng: random.Random, depth: int, leaves: list[str]) -> str:
    """A random value with many differences."""
    if not depth:
        return rng.choice(leaves)
    a, b = chain(rng, depth - 1, leaves), chain(rng, depth - 1, leaves)
    kind = rng.random()
    if kind < 0.5 and a != b:
        return f"({a} - {b})"
    op = rng.choice(["min", "max"])
    return rng.choice([f"({a} + {b})", f"T.{op}({a}, {b})", f"T.{op}({a}, {rng.choice([-100, 7])})", f"({a} >> 3)", f"({a} << 1)",
                       f"(5 - {a})"])


USERS = '''
@T.prim_func
def f(A: T.Buffer((2, {depth}), "int8"), W: T.Buffer((16, {depth}), "int8"), x: T.Buffer((2, 16), "int8"),
      z: T.Buffer((2, 16), "int32"), out: T.Buffer((2, 16), "int8")):
    q = T.alloc_buffer((2, 16), "int32")
    s = T.alloc_buffer((2, 16), "int32")
    for i, j, k in T.grid(2, 16, {depth}):
        with T.block("q"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                q[vi, vj] = {init}
            q[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(2, 16):
        with T.block("s"):
            vi, vj = T.axis.remap("SS", [i, j])
            s[vi, vj] = {stage}
    for i, j in T.grid(2, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", {value})
'''


INITS = ["0", "z[vi, vj]", "0 - z[vi, vj]", "z[vi, vj] - 7", "3 - z[vi, vj]", "z[vi, vj] + 7"]


@pytest.mark.parametrize("seed", range(24))
def test_users_differences_become_sums(seed: int) -> None:
    """Whatever is taken away: the accelerator adds, and the results are the same."""
    rng = random.Random(seed)
    leaves = ["q[vi, vj]", "z[vi, vj]", 'x[vi, vj].astype("int32")']
    func = parse(USERS.format(init=INITS[seed % len(INITS)], depth=rng.choice([16, 512]),
                              stage=f"(q[vi, vj] >> 2) - {chain(rng, 2, leaves)}",
                              value=f"s[vi, vj] - {chain(rng, 3, [*leaves, 's[vi, vj]'])}"))
    new, trace = normalise(func, get_target("vta-de10"))
    assert trace
    for block in device_blocks(split_host(new).device):
        values = [store_of(block).value, *([block.init.value] if block.init is not None else [])]
        left = [e for v in values for e in walk_expr(v) if isinstance(e, BinOp) and e.op == "-" and int_value(e.b) is None]
        assert not left, block.name
    inputs = random_inputs(func, seed)
    assert np.array_equal(run(new, *inputs)[0], run(func, *inputs)[0])


def test_squares_are_taken_away() -> None:
    """Of a square of a parameter's elements the host makes one factor negative: a sum over its diagonal is left."""
    square = 'x[vi, vj].astype("int32") * x[vi, vj].astype("int32")'
    func = parse(USERS.format(init="0", depth=16, stage=f"q[vi, vj] - {square}", value="s[vi, vj] >> 3"))
    space = Space(func, "vta-de10")
    for point in space.sample(np.random.default_rng(0), 2):
        result = measure(Candidate(func, "vta-de10", tuple(space.trace(point).as_json())), execute=True, wide=True)
        assert result.ok, result


def test_what_is_known_of_values_is_worked_out_once_and_of_each_its_own() -> None:
    func = program(low=-8, high=7, stage="a[vi] * 2")
    made = next(b for b in device_blocks(func) if b.name == "S").writes[0].buffer
    known = known_values(func)
    assert known.of_buffer(made) == (-16, 14)
    known.know(made, (0, 0))
    assert known.of_buffer(made) == (0, 0) and known_values(func).of_buffer(made) == (-16, 14)
