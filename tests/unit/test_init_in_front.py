"""What an initial value, or a block, may not move past: who reads what stood there, stores outside of blocks, no loop at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.schedule import Schedule
from autosched.script import parse

Same = Callable[..., None]

SUM = """@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32")):
    for i in range(4):
        {before}
        for k in range({length}):
            with T.sblock("s"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = {init}
                C[vi] = C[vi] + A[vi, vk]
        with T.sblock("after"):
            vi = T.axis.spatial(4, i)
            D[vi] = C[vi] * 2
"""
READS = """with T.sblock("r"):
            vi = T.axis.spatial(4, i)
            B[vi] = {read}"""


@pytest.mark.parametrize(("before", "init", "code"), [
    ("pass", "0", None), (READS.format(read="A[vi, 0]"), "0", None), (READS.format(read="C[vi]"), "0", "order"),
    (READS.format(read="A[vi, 0]"), "B[vi]", "order"), ("B[i] = i * 5 + 3", "B[vi]", "order"), ("B[i] = C[i]", "0", "order"),
    ("B[i] = i * 5 + 3", "0", None),
])
@pytest.mark.parametrize("loop", [0, 1])
def test_an_initial_value_moves_past_nobody_who_would_notice(
    before: str, init: str, code: str | None, loop: int, same: Same
) -> None:
    func = parse(SUM.format(before=before, init=init, length=8).replace("        pass\n", ""))
    sch = Schedule(func)
    if code is not None and not loop:
        with refused(ScheduleError, code):
            sch.decompose_reduction("s", sch.get_loops("s")[0])
        return
    sch.decompose_reduction("s", sch.get_loops("s")[loop])
    same(func, sch)


@pytest.mark.parametrize(("length", "runs"), [("i", False), ("i + 1", True), ("4 - i", True), ("3 - i", False), ("0", False)])
def test_a_loop_that_does_not_always_run_starts_nothing(length: str, runs: bool, same: Same) -> None:
    func = parse(SUM.format(before="pass", init=0, length=length).replace("        pass\n", ""))
    sch = Schedule(func)
    if not runs:
        with refused(ScheduleError, "domain"):
            sch.decompose_reduction("s", sch.get_loops("s")[1])
        return
    sch.decompose_reduction("s", sch.get_loops("s")[1])
    same(func, sch)


@pytest.mark.parametrize(("begin", "end", "right"), [("2", "8", True), ("i", "i + 4", False), ("0", "i + 1", False)])
def test_partial_results_are_one_tensor(begin: str, end: str, right: bool, same: Same) -> None:
    text = SUM.format(before="pass", init=0, length=8).replace("        pass\n", "")
    func = parse(text.replace("range(8)", f"range({begin}, {end})"))
    sch = Schedule(func)
    if not right:
        with refused(ScheduleError, "domain"):
            sch.rfactor(sch.get_loops("s")[1], 0)
        return
    sch.rfactor(sch.get_loops("s")[1], 0)
    same(func, sch)


UPDATE = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.sblock("a"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
    {between}
    for i in range(8):
        with T.sblock("u"):
            vi = T.axis.spatial(8, i)
            C[vi] = C[vi] + 1
    {behind}
"""
STORES = "for i in range(8):\n        C[i] = C[i] * 2"


def test_an_update_is_not_set_apart_from_stores_before_it(same: Same) -> None:
    def of(between: str, behind: str) -> Schedule:
        text = UPDATE.format(between=between or "DROP", behind=behind or "DROP")
        return Schedule(parse("".join(line for line in text.splitlines(keepends=True) if "DROP" not in line)))

    with pytest.raises(ScheduleError, match="C is stored outside of blocks"):
        of(STORES, "").separate_update("u")
    for behind in ("", STORES):
        sch = of("", behind)
        func = sch.func
        sch.separate_update("u")
        same(func, sch)


REPEATED = """@T.prim_func
def main(A: T.Buffer((2, 4), "int32"), B: T.Buffer((2, 4), "int32"), D: T.Buffer((2, 4), "int32")):
    for x in range(2):
        for j in range(4):
            with T.sblock("B"):
                vx, vj = T.axis.remap("SS", [x, j])
                B[vx, vj] = A[vx, vj]
        for j in range(4):
            with T.sblock("D"):
                vx, vj = T.axis.remap("SS", [x, j])
                D[vx, vj] = {read}
        {stores}
"""


def test_a_block_that_is_repeated_overwrites_no_store_outside_of_blocks() -> None:
    stores = "for y in range(4):\n            B[x, y] = B[x, y] * 2"
    sch = Schedule(parse(REPEATED.format(read="B[vx, vj]", stores=stores)))
    with pytest.raises(ScheduleError, match="B is stored outside of blocks"):
        sch.reverse_compute_at(sch.get_sblock("B"), sch.get_loops("D")[1])
