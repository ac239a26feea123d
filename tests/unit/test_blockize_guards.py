"""Blocks under conditions that start a loop late: dividing their iterators keeps what they compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir.interp import random_inputs, run
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.workloads import workload
from space import Space

GUARDED = """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32")):
    for i, j in T.grid(6, 8):
        with T.block("c"):
            vi = T.axis.spatial(6, i)
            vj = T.axis.spatial(8, j)
            T.where({})
            C[vi, vj] = A[vi, vj] * 3 + vi * 100 + vj
"""


@pytest.mark.parametrize("guard", ["1 <= i", "2 <= i and i < 3", "1 <= j", "3 <= j and j < 7", "2 <= i and 1 <= j", "i < 4"])
@pytest.mark.parametrize("loop", [0, 1])
@pytest.mark.parametrize("preserve", [True, False])
def test_blockize_of_a_guarded_block_computes_the_same(guard: str, loop: int, preserve: bool) -> None:
    func = parse(GUARDED.format(guard))
    a = np.arange(48, dtype=np.int32).reshape(6, 8)
    expected, found = np.full((6, 8), -1, np.int32), np.full((6, 8), -1, np.int32)
    run(func, a, expected)
    assert (expected == -1).any() and (expected != -1).any()
    sch = Schedule(func)
    sch.blockize(sch.get_loops("c")[loop], preserve_unit_iters=preserve)
    run(sch.func, a, found)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("behind", [1, 3])
def test_an_iterator_that_starts_behind_its_loop_keeps_its_offset(behind: int) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((8, 6), "int32"), C: T.Buffer((8, 5, 6), "int32")):
    for i, j, k in T.grid({8 + behind}, 5, 6):
        with T.block("c"):
            vi = T.axis.spatial(8, i - {behind})
            vj, vk = T.axis.remap("SS", [j, k])
            T.where({behind} <= i and 5 <= i + j * 2)
            C[vi, vj, vk] = A[vi, vk] * 3 + vi
""")
    sch = Schedule(func)
    sch.blockize(sch.get_loops("c")[2])
    assert np.array_equal(run(func, *random_inputs(func, 0)), run(sch.func, *random_inputs(func, 0)))


def test_a_condition_on_both_sides_is_refused() -> None:
    sch = Schedule(parse(GUARDED.format("i + 1 <= j")))
    with refused(ScheduleError, "index"):
        sch.blockize(sch.get_loops("c")[1])


BIAS = """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), x: T.Buffer((6,), "int32"), C: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 8):
        with T.sblock("c"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {start}
            C[vi] = C[vi] + A[vi, vk] * {factor}
"""


@pytest.mark.parametrize(("start", "factor", "first", "inner"), [
    ("0", "2", "", "C[vi_i], A[vi_i, vk_i]"), ("x[vi]", "2", "x[vi_i_init]", "C[vi_i], A[vi_i, vk_i]"),
    ("x[vi]", "x[vi]", "x[vi_i_init]", "C[vi_i], x[vi_i], A[vi_i, vk_i]"),
])
@pytest.mark.parametrize("loop", [0, 1])
def test_the_init_of_the_outer_block_declares_what_it_reads(
    start: str, factor: str, first: str, inner: str, loop: int, same: Callable[..., None],
) -> None:
    func = parse(BIAS.format(start=start, factor=factor))
    sch = Schedule(func)
    sch.blockize(sch.get_loops("c")[loop])
    for name in ("vi_i_init", "vi_i") if loop else ():
        first, inner = first.replace(name, "vi_o"), inner.replace(name, "vi_o")
    blocks = {r.block.name: r.block for r in sch.state.realizes.values()}
    assert [r.buffer.name for r in blocks["c_init"].reads] == ["x"] * bool(first)
    assert f"T.reads({first})" in sch.script() and f"T.reads({inner})" in sch.script()
    same(func, sch)


@pytest.mark.parametrize(
    "name",
    [
        "conv2d:h=2,w=1,ci=16,co=16,k=3,stride=2,pad=1,tail=cast",
        "conv2d:h=9,w=2,ci=32,co=32,k=1,stride=2,pad=1,tail=cast",
        "conv2d:h=1,w=8,ci=32,co=32,k=1,pad=2",
        "conv2d:n=2,h=1,w=2,ci=32,co=32,k=3,stride=2,pad=1",
    ],
)
def test_images_smaller_than_their_padding(name: str) -> None:
    """One output along an axis turns the padding's condition into a later start of the kernel's loop."""
    space = Space(workload(name).func, "vta-de10")
    points = space.sample(np.random.default_rng(0), 60)
    assert len(points)
    for point in points[:12]:
        result = measure(Candidate(name, "vta-de10", tuple(space.trace(point).as_json())), execute=True)
        assert result.ok, (space.explain(point), result)
