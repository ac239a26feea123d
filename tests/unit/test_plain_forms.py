"""renest, compose_reduction: programs in the plain form that other primitives expect."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.schedule import Schedule
from autosched.script import parse

Same = Callable[..., None]
Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

LOOPS = '''
@T.prim_func
def f(A: T.Buffer((14, 8), "int32"), C: T.Buffer((14, 8), "int32")):
    for %s:
        with T.block("C"):
            %s
            C[vi, vj] = A[vi, vj] + 1
'''


@pytest.mark.parametrize(("loops", "binding"), [
    ("f in range(112)", "vi = T.axis.spatial(14, f // 8)\n            vj = T.axis.spatial(8, f % 8)"),
    ("a, b, j in T.grid(2, 7, 8)", "vi = T.axis.spatial(14, a * 7 + b)\n            vj = T.axis.spatial(8, j)"),
    ("a, b, j in T.grid(4, 4, 8)", "T.where(a * 4 + b < 14)\n            vi = T.axis.spatial(14, a * 4 + b)\n"
                                   "            vj = T.axis.spatial(8, j)"),
    ("j, i in T.grid(8, 14)", "vi, vj = T.axis.remap('SS', [i, j])"),
])
def test_a_loop_for_each_iterator(loops: str, binding: str, verify_trace_roundtrip: Verify, same: Same) -> None:
    func = parse(LOOPS % (loops, binding))
    sch = Schedule(func)
    sch.renest("C")
    assert "for i, j in T.grid(14, 8):" in sch.script() and 'T.axis.remap("SS", [i, j])' in sch.script()
    assert "T.where" not in sch.script()
    same(func, sch)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("init", [False, True])
def test_iterators_begin_at_0(init: bool, verify_trace_roundtrip: Verify, same: Same) -> None:
    reduction = """
@T.prim_func
def f(A: T.Buffer((20, 9), "int32"), C: T.Buffer((20,), "int32")):
    for i in range(3, 11):
        for k in range(2, 7):
            with T.block("C"):
                vi = T.axis.spatial((3, 11), i)
                vk = T.axis.reduce((2, 7), k)
                with T.init():
                    C[vi - 3] = vi * 2
                C[vi - 3] = C[vi - 3] + A[vi + 5, vk] * vk
"""
    func = parse(reduction if init else LOOPS % ("i, j in T.grid(5, 8)", "vi = T.axis.spatial((9, 14), i + 9)\n            "
                                                 "vj = T.axis.spatial(8, j)"))
    sch = Schedule(func)
    sch.renest("C")
    block = sch.get(sch.get_sblock("C"))
    assert [(iv.dom.min.value, iv.dom.extent.value) for iv in block.iter_vars] == ([(0, 8), (0, 5)] if init else [(0, 5), (0, 8)])
    assert all(loop.min.value == 0 for loop in map(sch.get, sch.get_loops("C")))
    assert ("C[vi] = C[vi] + A[vi + 8, vk + 2]" if init else "C[vi + 9, vj] = A[vi + 9, vj] + 1") in sch.script()
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_indices_of_iterators_that_stay_are_plain_as_well() -> None:
    text = LOOPS % ("i, j in T.grid(5, 8)", "vi = T.axis.spatial((9, 14), i + 9)\n            vj = T.axis.spatial(8, j)")
    sch = Schedule(parse(text.replace("A[vi, vj]", "A[vi, vj * 2 - vj]")))
    sch.renest("C")
    assert "C[vi + 9, vj] = A[vi + 9, vj] + 1" in sch.script()


@pytest.mark.parametrize(("loops", "binding", "reason"), [
    ("a, b, j in T.grid(4, 4, 8)", "T.where(a * 4 + b < 13)\n            vi = T.axis.spatial(14, a * 4 + b)\n"
                                   "            vj = T.axis.spatial(8, j)", "not known to run every combination"),
    ("i, j, r in T.grid(14, 8, 2)", "vi, vj = T.axis.remap('SS', [i, j])", "not known to run every combination"),
    ("j in range(8)", "vi = T.axis.spatial(14, 3)\n            vj = T.axis.spatial(8, j)", "not known to run every combination"),
    ("i, j in T.grid(7, 8)", "vi = T.axis.spatial(14, i * 2)\n            vj = T.axis.spatial(8, j)",
     "not known to run every combination"),
])
def test_what_does_not_run_each_combination_once(loops: str, binding: str, reason: str) -> None:
    func = parse(LOOPS % (loops, binding))
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match=reason):
        sch.renest("C")
    assert sch.func == func


def test_marked_loops_stay() -> None:
    sch = Schedule(parse(LOOPS % ("i, j in T.grid(14, 8)", "vi, vj = T.axis.remap('SS', [i, j])")))
    sch.parallel(sch.get_loops("C")[0])
    with refused(ScheduleError, "loop"):
        sch.renest("C")


SUM = '''
@T.prim_func
def f(A: T.Buffer((6, 5), "int32"), b: T.Buffer((6,), "int32"), D: T.Buffer((6,), "int32")):
    C = T.alloc_buffer((6,), "int32")
    for i in range({rows}):
        with T.block("begin"):
            vi = T.axis.spatial({rows}, i)
            C[{at}] = {start}
    {between}
    for k, i in T.grid(5, 6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            vk = T.axis.{kind}(5, k)
            C[vi] = C[{own}] + A[vi, vk]
    for i in range(6):
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = C[vi] * 2
'''
PLAIN = {"rows": "6", "at": "vi", "start": "b[vi] + 1", "between": "", "kind": "reduce", "own": "vi"}
READS = '''for i in range(6):
        with T.block("E"):
            vi = T.axis.spatial(6, i)
            D[vi] = C[vi]'''


@pytest.mark.parametrize("start", ["0", "b[vi] + 1", "b[5 - vi]"])
def test_what_another_block_sets_is_the_initial_value(start: str, verify_trace_roundtrip: Verify, same: Same) -> None:
    func = parse(SUM.format(**{**PLAIN, "start": start}))
    sch = Schedule(func)
    sch.compose_reduction("begin", "C")
    assert "begin" not in sch.script() and f"with T.init():\n                C[vi] = {start}\n" in sch.script()
    same(func, sch)
    verify_trace_roundtrip(sch, func)
    sch.reorder(*sch.get_loops("C")[::-1])
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    same(func, sch)


@pytest.mark.parametrize(("changes", "reason"), [
    ({"rows": "5"}, "does not set, one for one"),
    ({"at": "vi // 2 * 2"}, "does not set, one for one"),
    ({"kind": "spatial"}, "iterator vk of block C is spatial, and C is not indexed by it"),
    ({"between": READS}, "block E touches C"),
    ({"own": "(vi + 1) % 6"}, "does not update the elements of C in place"),
])
def test_blocks_that_are_no_reduction_together(changes: dict[str, str], reason: str) -> None:
    func = parse(SUM.format(**{**PLAIN, **changes}))
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match=reason):
        sch.compose_reduction("begin", "C")
    assert sch.func == func


def test_in_the_other_order_there_is_nothing_to_compose() -> None:
    sch = Schedule(parse(SUM.format(**PLAIN)))
    with refused(ScheduleError, "form"):
        sch.compose_reduction("C", "begin")
    with refused(ScheduleError, "form"):
        sch.compose_reduction("begin", "D")
    with refused(ScheduleError, "argument"):
        sch.compose_reduction("begin", "begin")


@pytest.mark.parametrize("steps", [0, 1])
def test_an_initial_value_of_no_sum_stays(steps: int, same: Same) -> None:
    text = SUM.format(**PLAIN).replace("T.grid(5, 6)", f"T.grid({steps}, 6)").replace("reduce(5, k)", f"reduce({steps}, k)")
    func = parse(text)
    sch = Schedule(func)
    if steps:
        sch.compose_reduction("begin", "C")
        same(func, sch)
        return
    with refused(ScheduleError, "domain"):
        sch.compose_reduction("begin", "C")
