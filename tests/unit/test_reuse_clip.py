"""reuse_clip: a result that is clipped further is made of the one that is clipped less."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from decided import within_bounds
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.ir.printer import script
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.reclips import clipped
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import normalise
from space.normalise.blocks import device_blocks, store_of
from space.sites import alu_ops

Same = Callable[..., None]
Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), W: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32"),
      D: T.Buffer(({shape}), "{dtype}")):
    for i, j in T.grid(6, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {first}
    {between}
    for {loops}:
        with T.block("D"):
            {binding}
            D[{at}] = {second}
'''
SHIFTED = "T.shift_right(A[{0}], 3)"
PLAIN = {
    "shape": "6, 8", "dtype": "int32", "first": f"T.min(T.max({SHIFTED.format('vi, vj')}, -128), 127)", "between": "",
    "loops": "y, x in T.grid(6, 8)", "binding": 'vy, vx = T.axis.remap("SS", [y, x])', "at": "vy, vx",
    "second": f"T.min(T.max({SHIFTED.format('vy, vx')}, 0), 127)",
}
WRITES = '''for i, j in T.grid(6, 8):
        with T.block("again"):
            vi, vj = T.axis.remap("SS", [i, j])
            {0}[vi, vj] = W[vi, vj]'''


def program(**changes: str) -> PrimFunc:
    func = parse(TEXT.format(**{**PLAIN, **changes}))
    assert isinstance(func, PrimFunc)
    return func


def clip(low: str, high: str, at: str = "vy, vx") -> str:
    return f"T.min(T.max({SHIFTED.format(at)}, {low}), {high})"


@pytest.mark.parametrize(("changes", "made"), [
    ({}, "T.max(C[y, x], 0)"), ({"second": clip("-128", "100")}, "T.min(C[y, x], 100)"),
    ({"second": clip("-128", "127")}, "C[y, x]"),
    ({"second": clip("-3", "5")}, "T.min(T.max(C[y, x], -3), 5)"),
    ({"second": f"T.max(T.min({SHIFTED.format('vy, vx')}, 5), -128)"}, "T.min(C[y, x], 5)"),  # in another order
    ({"first": f"T.max({SHIFTED.format('vi, vj')}, -7)", "second": clip("-7", "5")}, "T.min(C[y, x], 5)"),  # on one side
    ({"loops": "x, y in T.grid(8, 6)"}, "T.max(C[y, x], 0)"),
])
def test_only_what_is_missing_is_done(changes: dict[str, str], made: str, same: Same, verify_trace_roundtrip: Verify) -> None:
    func = program(**changes)
    sch = Schedule(func)
    sch.reuse_clip("D", "C")
    at = made.replace("y, x", "vy, vx")
    assert f"D[vy, vx] = {at}\n" in script(sch.func) + "\n"
    same(func, sch)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("changes", "code"), [
    ({"second": clip("-129", "127")}, "range"), ({"second": clip("-128", "128")}, "range"),  # boundary
    ({"second": SHIFTED.format("vy, vx"), "first": SHIFTED.format("vi, vj")}, "range"),  # neither is clipped
    ({"second": clip("0", "127").replace("3)", "4)")}, "form"), ({"second": clip("0", "127", "5 - vy, vx")}, "form"),
    ({"shape": "7, 8"}, "form"), ({"dtype": "int64", "second": f"T.Cast('int64', {clip('0', '127')})"}, "form"),
    ({"between": WRITES.format("A")}, "writer"), ({"between": WRITES.format("C")}, "writer"),
    ({"first": clip("-128", "127", "vi, vj").replace("A", "C"), "second": clip("0", "127").replace("A", "C")},
     "writer"),  # it works in place
    ({"loops": "y, x in T.grid(4, 8)"}, "form"),  # of a part
])
def test_refusals(changes: dict[str, str], code: str) -> None:
    with refused(ScheduleError, code):
        Schedule(program(**changes)).reuse_clip("D", "C")


def test_the_later_one_is_no_source() -> None:
    with refused(ScheduleError, "order"):
        Schedule(program()).reuse_clip("C", "D")


@given(st.lists(st.tuples(st.sampled_from(["min", "max"]), st.integers(-6, 6)), max_size=5), st.integers(-9, 9))
def test_limits_are_what_the_operations_leave(chain: list[tuple[str, int]], x: int) -> None:
    text = "A[vi, vj]"
    for op, limit in chain:
        text = f"T.{op}({text}, {limit})"
    func = program(first=text)
    inner, (low, high) = clipped(store_of(device_blocks(func)[0]).value)
    a, w = np.full((6, 8), x, dtype=np.int32), np.zeros((6, 8), dtype=np.int32)
    assert low <= high and (run(func, a, w)["C"] == min(max(x, low), high)).all()
    assert not chain or inner != store_of(device_blocks(func)[0]).value


def two_results(low: int, high: int, plain: bool = False) -> PrimFunc:
    """A product with two results that differ in their clips; ``plain``: with nothing else done to them, from below alone."""
    first = "T.max(s[vi, vj], -100)" if plain else "T.min(T.max(T.shift_right(s[vi, vj], 6), -128), 127)"
    second = f"T.max(s[vi, vj], {low})" if plain else f"T.min(T.max(T.shift_right(s[vi, vj], 6), {low}), {high})"
    func = parse(f'''
@T.prim_func
def f(x: T.Buffer((20, 32), "int8"), w: T.Buffer((16, 32), "int8"), y: T.Buffer((20, 16), "int8"), z: T.Buffer((20, 16), "int8")):
    s = T.alloc_buffer((20, 16), "int32")
    for i, j, k in T.grid(20, 16, 32):
        with T.block("s"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                s[vi, vj] = 0
            s[vi, vj] += T.Cast("int32", x[vi, vk]) * T.Cast("int32", w[vj, vk])
    for i, j in T.grid(20, 16):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("int8", {first})
    for i, j in T.grid(20, 16):
        with T.block("z"):
            vi, vj = T.axis.remap("SS", [i, j])
            z[vi, vj] = T.Cast("int8", {second})
''')
    assert isinstance(func, PrimFunc)
    return func


def test_what_is_no_less_work_stays() -> None:
    packed, _ = normalise(two_results(0, 0, plain=True), get_target("vta-de10"))
    sums = {store_of(b).buffer for b in device_blocks(packed) if b.init is not None}
    readers = [b for b in device_blocks(packed) if b.init is None and {r.buffer for r in b.reads} & sums]
    assert len(readers) == 2


@pytest.mark.parametrize(("low", "high", "target", "operations"), [
    (0, 127, "vta-de10", 4), (0, 100, "vta-de10", 5),
    (0, 127, "vta-de10-portable", 6),  # where nothing moves by itself
])
def test_programs_with_two_results(low: int, high: int, target: str, operations: int) -> None:
    func = two_results(low, high)
    space = Space(func, target)
    packed, _ = normalise(func, space.target)
    values = [store_of(b).value for b in device_blocks(packed) if b.init is None]
    assert sum(alu_ops(v)[0] for v in values) == operations
    within_bounds(space, func, space.sample(np.random.default_rng(0), 6), 6)
