"""Results that are copied back: of a block that stores under a condition only, the copy would store the rest as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.schedule import Schedule
from autosched.script import parse

Same = Callable[..., None]


CHOSEN = """A: T.Buffer((6,), "int32"), C: T.Buffer((6,), "int32")):
    {alloc}
    for i in range(6):
        with T.sblock("first"):
            vi = T.axis.spatial(6, i)
            {first}[vi] = A[vi] * 3
    for i in range(5):
        with T.sblock("part"):
            vi = T.axis.spatial(5, i)
            {body}
    for i in range(3):
        with T.sblock("last"):
            vi = T.axis.spatial(3, i)
            C[vi + 3] = {read} + 1
"""
GIVEN = {"alloc": 'B = T.sblock_alloc_buffer((1,), "int32")', "first": "C", "read": "A[vi]"}
OWN = {"alloc": 'B = T.sblock_alloc_buffer((5,), "int32")', "first": "C", "read": "B[vi]"}
SHARED = {"alloc": 'B = T.sblock_alloc_buffer((6,), "int32")', "first": "B", "read": "B[vi]"}
SUM = """A: T.Buffer((6, 7), "int32"), B: T.Buffer((7,), "int32"), C: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 7):
        with T.sblock("part"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            if A[vi, vk] > B[vk]:
                C[vi] = C[vi] + A[vi, vk]
"""
WAYS: dict[str, Callable[[Schedule], object]] = {
    "pad_einsum": lambda sch: sch.pad_einsum("part", [4, 1][: len(sch.get(sch.get_block("part")).iter_vars)]),
    "reindex": lambda sch: sch.reindex("part", ("write", 0)),
}


def check(text: str, way: str, whole: bool, same: Same) -> None:
    func = parse("@T.prim_func\ndef main(" + text)
    sch = Schedule(func)
    if not whole:
        with refused(ScheduleError, "domain"):
            WAYS[way](sch)
        return
    WAYS[way](sch)
    same(func, sch)


@pytest.mark.parametrize("body, whole", [
    ("C[vi] = A[vi] + 1", True),
    ("if vi < 3:\n                C[vi] = A[vi] + 1", False),
    ("if A[vi] < 3:\n                C[vi] = A[vi] + 1", False),
    ("for r in range(3):\n                C[vi] = A[vi] + r", True),
    ("for r in range(3):\n                if r < vi:\n                    C[vi] = A[vi] + r", False),
])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_copied_back_is_stored_always(way: str, body: str, whole: bool, same: Same) -> None:
    check(CHOSEN.format(body=body, **GIVEN), way, whole, same)


@pytest.mark.parametrize("way", WAYS)
def test_of_a_tensor_that_nobody_else_writes_no_value_is_lost(way: str, same: Same) -> None:
    body = "if vi < 3:\n                B[vi] = A[vi] + 1"
    check(CHOSEN.format(body=body, **OWN), way, True, same)
    check(CHOSEN.format(body=body, **SHARED), way, False, same)


@pytest.mark.parametrize("way", WAYS)
def test_an_init_stores_every_element(way: str, same: Same) -> None:
    check(SUM, way, True, same)


@pytest.mark.parametrize("body, whole", [
    ("C[vi] = A[vi] + 1", True), ("if vi < 3:\n                C[vi] = A[vi] + 1", False),
    ("for r in range(3):\n                C[vi] = A[vi] + r", True),
])
def test_a_copy_of_another_layout_stores_what_was_stored(body: str, whole: bool, same: Same) -> None:
    func = parse(f"""@T.prim_func
def main(A: T.Buffer((5,), "int32"), C: T.Buffer((5,), "int32")):
    for i in range(5):
        with T.sblock("part"):
            vi = T.axis.spatial(5, i)
            {body}
""")
    sch = Schedule(func)
    if not whole:
        with refused(ScheduleError, "domain"):
            sch.reindex_cache_write("part", 0, "shared", lambda i: (4 - i,))
        return
    sch.reindex_cache_write("part", 0, "shared", lambda i: (4 - i,))
    same(func, sch)
