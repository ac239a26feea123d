"""Stores outside of blocks, and what bindings read, in loops that change places, part or split: kept in order, or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.script import parse

Same = Callable[..., None]
Step = Callable[[Schedule], object]


def program(body: str) -> PrimFunc:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    func = parse(f'''
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32"), D: T.Buffer((8,), "int32")):
{lines}
''')
    assert isinstance(func, PrimFunc)
    return func


def turned(sch: Schedule) -> None:
    sch.reorder("j", "i")


def nest(body: str, more: str = "") -> str:
    return f"for i in range(7):\n    for j in range(7):\n        {body}\n{more}"


BLOCK = '''
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            {where}
            C[vi, vj] = {value}
'''
KEPT = [
    nest("C[i, j] = A[j, i] * 2"),
    nest("C[i, j] = C[i, j] + A[i, j + 1]"),
    nest("D[j] = D[j] * 3 + A[i, j]"),  # the iterations that share an element stay in their order
    nest("D[j] = A[i, j]", BLOCK.format(where="", value="D[vj] + A[vi, vj]")),
    nest("for k in range(2):\n            D[j + k] = A[i, k]").replace("range(7)", "range(1)", 1),
    nest("C[i, j // 2 * 2 + j % 2] = C[i, j // 2 * 2 + j % 2] - 1"),
    nest("if A[i, j] > 0:\n            C[i, j] = C[i, j] - 1"),
]
TURNED = [
    nest("C[i + 1, j] = C[i, j + 1] + 1"),
    nest("D[(i + j) // 2] = A[i, j]"),  # the last one stays
    nest("D[0] = D[0] * 3 + A[i, j]"),
    nest("D[j] = A[i, j]", BLOCK.format(where="", value="D[vj + 1] + 1")),
    nest("for k in range(C[i, j + 1] % 5):\n            C[i + 1, j] = k"),
    nest("for k in range(2):\n            D[j + k] = A[i, k]"),
    nest("if C[i, j + 1] > 0:\n            C[i + 1, j] = 3"),
    nest("D[0] = 3").replace("j in range(7)", "j in range(D[0] % 5)"),
]


@pytest.mark.parametrize("body", KEPT)
def test_loops_change_places_where_each_element_sees_one_order(body: str, same: Same) -> None:
    func = program(body)
    sch = Schedule(func)
    turned(sch)
    assert sch.func != func
    same(func, sch)


@pytest.mark.parametrize("body", TURNED)
def test_loops_stay_where_an_element_would_see_another_order(body: str) -> None:
    func = program(body)
    sch = Schedule(func)
    with refused(ScheduleError, "loop" if "range(D" in body else "order"):
        turned(sch)
    assert sch.func is func


PAIR = '''
for i in range(7):
    {first}
    with T.block("b"):
        vi = T.axis.spatial(7, {bound})
        {where}
        C[vi, 0] = {value}
    {last}
'''
PLAIN = {"first": "", "where": "", "bound": "i", "value": "D[vi] + C[vi, 0] * 2", "last": ""}


@pytest.mark.parametrize(("changes", "taken"), [
    ({"first": "D[i] = A[i, 0]"}, True),
    ({"first": "D[i] = A[i, 0]", "last": "D[i] = D[i] + C[i, 0]"}, True),
    ({"first": "D[i + 1] = A[i, 0]"}, False),
    ({"last": "D[i + 1] = A[i, 0]"}, False),
    ({"last": "D[i] = A[i, 0]"}, True),
    ({"where": "T.where(D[i] > 0)", "value": "1", "last": "D[i] = A[i, 0]"}, True),
    ({"where": "T.where(D[i] > 0)", "value": "1", "last": "D[i + 1] = A[i, 0]"}, False),
    ({"bound": "T.abs(D[i]) % 7", "value": "A[vi, 0]", "last": "D[i + 1] = 1"}, False),
    ({"value": "1", "first": "for k in range(D[i] % 5):\n        A[i, 0] = A[i, 0] + 1", "last": "D[i + 1] = 2"}, False),
    ({"value": "1", "first": "for k in range(D[i] % 5):\n        A[i, 0] = A[i, 0] + 1", "last": "D[i] = 2"}, True),
])
def test_loops_of_blocks_and_stores_taken_apart(changes: dict[str, str], taken: bool, same: Same) -> None:
    func = program(PAIR.format(**{**PLAIN, **changes}))
    sch = Schedule(func)
    if not taken:
        with refused(ScheduleError, "order"):
            sch.loop_fission("i")
        assert sch.func is func
        return
    assert len(sch.loop_fission("i")) > 1
    same(func, sch)


@pytest.mark.parametrize(("body", "code"), [
    ("for i in range(D[0] % 5 + 3):\n    D[i] = 1\n    C[i, 0] = 2", "loop"),  # how often the second would run
    ("for i in range(7):\n    while D[i] < 3:\n        D[i] = D[i] + 1\n    C[i, 0] = 2", "form"),
])
def test_what_loop_fission_leaves(body: str, code: str) -> None:
    sch = Schedule(program(body))
    with refused(ScheduleError, code):
        sch.loop_fission("i")


@pytest.mark.parametrize("body", [
    "for i in range(7):\n    D[i] = D[i] * 2 + A[i, 0]",
    PAIR.format(**{**PLAIN, "first": "D[i] = A[i, 0]", "last": "if A[i, 1] > 0:\n        D[i] = 3"}),
    "for i in range(7):\n    for k in range(D[i] % 5):\n        C[i, k % 8] = k",
    PAIR.format(**{**PLAIN, "where": "T.where(A[i + 1, 0] > 0)"}),
    PAIR.format(**{**PLAIN, "bound": "T.abs(A[i + 1, 0]) % 7"}),
])
def test_a_split_that_does_not_divide_runs_nothing_more(body: str, same: Same) -> None:
    func = program(body)
    sch = Schedule(func)
    sch.split("i", [None, 4])
    assert "< 7" in sch.script()
    same(func, sch)


def test_a_split_that_divides_adds_no_condition(same: Same) -> None:
    func = program("for i in range(8):\n    D[i] = D[i] * 2 + A[i, 0]")
    sch = Schedule(func)
    sch.split("i", [None, 4])
    assert "if" not in sch.script()
    same(func, sch)
