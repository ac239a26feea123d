"""Blocks with an init that read other elements of their result than the one they write are no reductions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.schedule import Schedule
from autosched.script import parse

Same = Callable[..., None]

TEXT = """
@T.prim_func
def f(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 4):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            {body}
"""
WAYS: dict[str, Callable[[Schedule], object]] = {
    "decompose_reduction": lambda sch: sch.decompose_reduction("C", sch.get_loops("C")[0]),
    "rfactor": lambda sch: sch.rfactor(sch.get_loops("C")[1], 0),
    "blockize": lambda sch: sch.blockize(sch.get_loops("C")[0]),
    "reorder": lambda sch: sch.reorder(*sch.get_loops("C")[::-1]),
    "cache_write": lambda sch: sch.cache_write("C", 0, "shared"),
    "reindex_cache_write": lambda sch: sch.reindex_cache_write("C", 0, "shared", lambda vi, vk: (vi,)),
    "parallel": lambda sch: sch.parallel(sch.get_loops("C")[0]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", ["C[vi] = C[vk] + A[vi, vk]", "C[vi] = C[vi] + A[vi, vk] * C[vk]"])
def test_what_reads_other_elements_is_no_reduction(way: str, body: str) -> None:
    sch = Schedule(parse(TEXT.format(body=body)))
    with refused(ScheduleError, "order" if way == "parallel" else "reduction") as caught:
        WAYS[way](sch)
    assert "it reads C[vk], which it does not write" in caught.value.reason


@pytest.mark.parametrize("way", ["decompose_reduction", "rfactor", "blockize", "reorder"])
def test_what_writes_at_its_reduction_iterator_is_no_reduction(way: str) -> None:
    sch = Schedule(parse(TEXT.format(body="C[vk] = C[vi] + A[vi, vk]")))
    with refused(ScheduleError, "reduction") as caught:
        WAYS[way](sch)
    assert "a reduction iterator indexes its output C" in caught.value.reason


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", [
    "C[vi] = C[vi] + A[vi, vk]",
    "C[vi] = T.max(A[vi, vk] * A[vi, vi], C[vi])",
    "if A[vi, vk] > 0:\n                C[vi] = C[vi] + A[vi, vk]",
    "C[vi] = C[vi + 0 * vk] + A[vi, vk]",
])
def test_what_goes_on_with_its_own_element_is_one(way: str, body: str, same: Same) -> None:
    func = parse(TEXT.format(body=body))
    sch = Schedule(func)
    if way == "rfactor" and "max" in body:
        return  # 0 is no neutral value
    if "if" in body and way not in ("decompose_reduction", "blockize", "reorder", "parallel"):
        return  # no known reducer, and nothing known to be stored
    WAYS[way](sch)
    same(func, sch)


def test_what_is_reordered_as_it_was_stays() -> None:
    sch = Schedule(parse(TEXT.format(body="C[vi] = C[vk] + A[vi, vk]")))
    sch.reorder(*sch.get_loops("C"))
