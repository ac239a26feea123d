"""Stages made of a part of a block stay inside their tensors: conditions of the block, or around the part, do not follow."""

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
def f(A: T.Buffer(({n},), "int32"), C: T.Buffer((8,), "int32")):
    for i, j in T.grid(3, 3):
        with T.sblock("C"):
            v = T.axis.spatial({domain}, i * 3 + j)
            T.where({where})
            C[v] = {value}
"""
STEPS = {
    'sch.decompose_value("C", {path})': ("A[v] + 1", []), 'sch.multiply_by_doubling("C", {path})': ("A[v] * 45", []),
}


@pytest.mark.parametrize(("domain", "where", "n", "code"), [
    (8, "i * 3 + j < 8", 8, None), (9, "i * 3 + j < 8", 9, "domain"), (8, "i * 3 + j < 6", 6, "domain"),
    (8, "i * 3 + j < 6", 8, None),
])
@pytest.mark.parametrize("step", STEPS)
def test_a_condition_of_the_block(step: str, domain: int, where: str, n: int, code: str | None, same: Same) -> None:
    value, path = STEPS[step]
    func = parse(TEXT.format(n=n, domain=domain, where=where, value=value))
    call = step.format(path=path)
    sch = Schedule(func)
    if code is None:
        exec(call, {"sch": sch})
        same(func, sch)
        assert len(sch.state.realizes) > 2
        return
    with refused(ScheduleError, code):
        exec(call, {"sch": sch})


@pytest.mark.parametrize("step", STEPS)
def test_a_condition_around_the_part(step: str, same: Same) -> None:
    value, path = STEPS[step]
    for shift, n in (("v - 1", 8), ("v", 8)):
        guarded = f"T.if_then_else(v >= 1, {value.replace('A[v]', f'A[{shift}]')}, 7)"
        func = parse(TEXT.format(n=n, domain=8, where="i * 3 + j < 8", value=guarded))
        sch = Schedule(func)
        if shift == "v":
            exec(step.format(path=[1, *path]), {"sch": sch})
            same(func, sch)
            continue
        with refused(ScheduleError, "domain"):
            exec(step.format(path=[1, *path]), {"sch": sch})


@pytest.mark.parametrize("start", ["b[vi]", "0"])
def test_what_a_sum_begins_with_is_not_spread_over_its_terms(start: str, same: Same) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((4, 6), "int32"), b: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 6):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {start}
            C[vi] = C[vi] + A[vi, vk] * b[vi]
""")
    sch = Schedule(func)
    if start == "0":
        sch.spread_operand("C", "b", 1)
        same(func, sch)
    else:
        with refused(ScheduleError, "reduction"):
            sch.spread_operand("C", "b", 1)
