"""split_offset: what a zero point contributes to a sum of products, apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import random_inputs, run
from autosched.schedule import Schedule
from autosched.script import parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((6, 9), "int8"), W: T.Buffer((5, 9), "int8"), b: T.Buffer((5,), "int32"), C: T.Buffer((6, 5), "int32")):
    for {loops}:
        with T.block("C"):
            vi, vj, vk = T.axis.remap("{kinds}", [i, j, k])
            {init}
            C[vi, vj] = {value}
'''
PLAIN = {"loops": "i, j, k in T.grid(6, 5, 4)", "kinds": "SSR", "init": "with T.init():\n                C[vi, vj] = 0",
         "value": "C[vi, vj] + {a} * {w}"}
A, W = 'T.Cast("int32", A[vi, vk * 2])', 'T.Cast("int32", W[vj, vk + 1])'


def program(value: str, **changes: str) -> PrimFunc:
    return parse(TEXT.format(**{**PLAIN, "value": value, **changes}))


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    return all(np.array_equal(a, b) for seed in (0, 1) for a, b in zip(run(func, *random_inputs(func, seed)),
                                                                    run(other, *random_inputs(func, seed)), strict=True))


@pytest.mark.parametrize("value", [
    f"C[vi, vj] + ({A} - 3) * {W}", f"C[vi, vj] + {W} * (128 + {A})", f"{A} * ({W} + 7) + C[vi, vj]",
    f"C[vi, vj] + ({A} - 2147483647) * ({W} * 65536)",  # both sides wrap around alike
    f"C[vi, vj] + ({A} - b[vj]) * {W}", f"C[vi, vj] + {W} * (b[vi % 5] + {A})", f"C[vi, vj] + ({A} - b[3] * 2) * {W}",
    f'C[vi, vj] + ({A} - vi * T.Cast("int32", W[0, vj])) * {W}', f"C[vi, vj] + ({A} - b[vj]) * ({W} + {W})",
    f'C[vi, vj] + (T.Cast("int32", A[vi, vj]) - b[vj]) * {W}',
    f"C[vi, vj] + ({A} - b[vk]) * {W}", f"C[vi, vj] + {W} * (b[vk] + {A})",
    # What is taken away: the sum takes its products away, or the other factor the other way round.
    f"C[vi, vj] + (b[vj] - {A}) * {W}", f"C[vi, vj] + (3 - {A}) * {W}", f"{W} * (b[vk] - {A}) + C[vi, vj]",
    f"C[vi, vj] + (b[vj] - {A}) * ({W} * 2)", f"C[vi, vj] + (-2147483648 - {A}) * {W}",
])
def test_the_sum_starts_with_it(value: str, verify_trace_roundtrip: Verify) -> None:
    for init in (PLAIN["init"], "with T.init():\n                C[vi, vj] = b[vj] + 1"):
        func = program(value, init=init)
        sch = Schedule(func)
        made = sch.split_offset("C")
        assert sch.get(made).name == "C_offset" and equal(func, sch.func)
        verify_trace_roundtrip(sch, func)
        with refused(ScheduleError, "form"):
            sch.split_offset("C")


def test_of_two_offsets_the_first_is_taken_out_first() -> None:
    func = program(f"C[vi, vj] + ({A} - 3) * ({W} + 2)")
    sch = Schedule(func)
    assert [sch.get(sch.split_offset("C")).name for _ in range(2)] == ["C_offset", "C_offset_1"] and equal(func, sch.func)
    assert f"C_offset[vj] + ({W} + 2) * -3" in sch.script() and f"C_offset_1[vi] + {A} * 2" in sch.script()
    with refused(ScheduleError, "form"):
        sch.split_offset("C")


def test_constants_are_taken_out_before_what_is_read() -> None:
    func = program(f"C[vi, vj] + ({A} - b[vj]) * ({W} + 2)")
    sch = Schedule(func)
    assert [sch.get(sch.split_offset("C")).name for _ in range(2)] == ["C_offset", "C_offset_1"] and equal(func, sch.func)
    script = sch.script()
    assert f"C_offset[vi, vj] + ({A} - b[vj]) * 2" in script and f"C_offset_1[vj] + {W} * (0 - b[vj])" in script
    with refused(ScheduleError, "form"):
        sch.split_offset("C")


@pytest.mark.parametrize(("value", "op"), [
    (f"({A} - b[vi % 5]) * (b[vj] - {W})", "-"), (f"(b[vi % 5] - {A}) * ({W} - 7)", "-"),
    (f"(b[vi % 5] - {A}) * (b[vj] - {W})", "+"), (f"(b[vk] - {A}) * (b[vj] + {W})", "-"),
    (f"(b[vk] - {A}) * (9 - {W})", "+"), (f"({A} - b[vk]) * ({W} + b[vj])", "+"),
])
def test_two_offsets_are_taken_out_whatever_is_taken_away(value: str, op: str) -> None:
    """Products are taken away in the end where one of the two factors was, and not where both were."""
    func = program(f"C[vi, vj] + {value}")
    sch = Schedule(func)
    assert [sch.get(sch.split_offset("C")).name for _ in range(2)] == ["C_offset", "C_offset_1"] and equal(func, sch.func)
    with refused(ScheduleError, "form"):
        sch.split_offset("C")
    last = sch.get(sch.get_sblock("C"))
    assert last.body.value.op == op


@pytest.mark.parametrize(("value", "changes", "code"), [
    (f"C[vi, vj] + (0 - {A}) * {W}", {}, "form"),
    (f"C[vi, vj] + (b[vj] - {A}) * 5", {}, "form"),
    (f'C[vi, vj] + ({A} - T.Cast("int32", W[0, vk])) * {W}', {}, "form"),  # both are int8: products of their own
    (f"C[vi, vj] + ({A} - C[vi, vk]) * {W}", {}, "form"),
    (f"C[vi, vj] + ({A} - C[0, vj]) * {W}", {}, "form"),
    (f'C[vi, vj] + (T.Cast("int32", A[vi, vj]) * 2 - b[vj]) * {W}', {}, "form"),
    (f"C[vi, vj] + {A} * {W}", {}, "form"),
    (f"T.max(C[vi, vj], ({A} - 3) * {W})", {}, "form"),
    (f"C[vi, vj] + ({A} - 3) * 5", {}, "form"),
    (f'C[vi, vj] + ({A} - 3) * T.Cast("int32", W[1, vk])', {}, "index"),
    (f"C[vi, vj] + ({A} - 3) * {W}", {"init": ""}, "form"),
    (f"C[vi, vj] + ({A} - 3) * {W}", {"init": "T.where(k < 3)\n            with T.init():\n                C[vi, vj] = 0"},
     "domain"),
])
def test_what_has_no_single_offset(value: str, changes: dict[str, str], code: str) -> None:
    func = program(value, **changes)
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.split_offset("C")
    assert sch.func == func


@pytest.mark.parametrize(("loops", "extent", "taken"), [("i, k, j", 5, False), ("i, j, k", 5, False), ("i, k, j", 1, True)])
def test_an_element_that_several_iterations_write_is_started_by_each(loops: str, extent: int, taken: bool) -> None:
    """With the last loop innermost all but the last of them are lost in the initial value, their products are not."""
    grid = {"i": 6, "j": extent, "k": 4}
    sizes = ", ".join(str(grid[v]) for v in loops.split(", "))
    func = program(f"C[vi, 0] + ({A} - 3) * {W}", loops=f"{loops} in T.grid({sizes})",
                   init="with T.init():\n                C[vi, 0] = 0")
    func = parse(func.script().replace("C[v_i, v_j]", "C[v_i, 0]").replace("C[vi, vj]", "C[vi, 0]"))
    sch = Schedule(func)
    if taken:
        sch.split_offset("C")
        assert equal(func, sch.func)
        return
    with refused(ScheduleError, "index") as caught:
        sch.split_offset("C")
    assert caught.value.code == "index" and sch.func == func


@pytest.mark.filterwarnings("ignore:.*is inside the sum:UserWarning")
@settings(max_examples=40)
@given(st.data())
def test_whatever_is_split_computes_the_same(data: st.DataObject) -> None:
    index = {"A": ["A[vi, vk]", "A[vi, 8 - vk]", "A[vk, vj]"], "W": ["W[vj, vk]", "W[vj, vi]", "W[vk, vi + vj // 3]"]}
    sides = [f'T.Cast("int32", {data.draw(st.sampled_from(index[name]))})' for name in ("A", "W")]
    offset = data.draw(st.integers(-300, 300))
    added = ["", f" + {offset}", " - b[vj]", " + b[vi % 5] * vj", " - b[vk]"]
    for side in range(2):
        sides[side] += data.draw(st.sampled_from(added))
        if data.draw(st.booleans()):
            sides[side] = f"{data.draw(st.sampled_from([str(offset), 'b[vj]', 'b[vi % 5] * vj', 'b[vk]']))} - ({sides[side]})"
    value = f"({sides[0]}) * ({sides[1]})"
    order = data.draw(st.permutations("ijk"))
    extent = {"i": 6, "j": 5, "k": 4}
    func = program(f"C[vi, vj] + {value}", loops=f"{', '.join(order)} in T.grid({', '.join(str(extent[v]) for v in order)})")
    sch = Schedule(func, error_render_level="fast")
    for _ in range(4):
        try:
            sch.split_offset("C")
        except ScheduleError:
            return
        assert equal(func, sch.func), func.script()


@pytest.mark.parametrize("loops", ["i, j, k in T.grid(6, 5, 2)", "i, j, k, r in T.grid(6, 5, 4, 2)"])
def test_a_sum_that_is_not_formed_once_stays_as_it_is(loops: str) -> None:
    """A part of the products, or all of them twice: the offset's share would be another."""
    text = TEXT.format(**{**PLAIN, "loops": loops, "value": f"C[vi, vj] + ({A} - 3) * {W}"})
    text = text.replace('vi, vj, vk = T.axis.remap("SSR", [i, j, k])', """vi, vj = T.axis.remap("SS", [i, j])
            vk = T.axis.reduce(4, k)""")
    with refused(ScheduleError, "domain"):
        Schedule(parse(text)).split_offset("C")
