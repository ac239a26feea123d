"""Flattening: physical dimensions, banks, and the same meaning as before."""

from __future__ import annotations

import random
from types import ModuleType

import numpy as np
import pytest

from autosched.ir import interp
from autosched.ir.stmt import Block, PrimFunc
from autosched.lower import flatten
from autosched.schedule import AXIS_SEPARATOR, Schedule
from autosched.script import parse

BEFORE = '''
from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((128, 32), "float32"), B: T.Buffer((128, 32), "float32")):
    C = T.alloc_buffer((128, 32))
    for i, j in T.grid(128, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2.0)
    for i, j in T.grid(128, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[vi, vj] * T.float32(2.0)
'''


def shapes(func: PrimFunc) -> dict[str, tuple[int, ...]]:
    """The function's own buffers."""
    root = func.body.block  # type: ignore[attr-defined]
    assert isinstance(root, Block)
    return {b.name: tuple(s.value for s in b.shape) for b in root.alloc_buffers}  # type: ignore[attr-defined]


def same_meaning(func: PrimFunc, flat: PrimFunc, seed: int = 0) -> None:
    """Both programs give the same bytes."""
    rng = np.random.default_rng(seed)
    arrays = []
    for b in func.buffers:
        shape = [s.value for s in b.shape]  # type: ignore[attr-defined]
        arrays.append(rng.integers(-100, 100, shape).astype(b.dtype))
    first = interp.run(func, *[a.copy() for a in arrays])
    second = interp.run(flat, *[a.copy() for a in arrays])
    assert len(first) == len(second) > 0
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a, b)


def test_one_dimension_each() -> None:
    func = parse(BEFORE)
    flat = flatten(func)
    assert shapes(flat) == {"C": (4096,)}
    same_meaning(func, flat)


def test_axis_separator_keeps_physical_dimensions() -> None:
    sch = Schedule(parse(BEFORE))
    sch.transform_layout("C", "C", lambda i, j: [i % 2, AXIS_SEPARATOR, i // 2, j])
    flat = flatten(sch.mod["main"])
    assert shapes(flat) == {"C": (2, 2048)}
    same_meaning(parse(BEFORE), flat)


def tiled(separated: bool) -> Schedule:
    """C is filled per tile of rows, in two buffers by turns."""
    sch = Schedule(parse(BEFORE))
    if separated:
        sch.transform_layout("C", "C", lambda i, j: [j // 16, AXIS_SEPARATOR, i, j % 16])
    outer, _ = sch.split(sch.get_loops("B")[0], [None, 32])
    sch.compute_at("C", outer)
    sch.double_buffer("C", 0)
    return sch


@pytest.mark.parametrize(("separated", "shape"), [(False, (2, 4096)), (True, (2, 2, 2048))])
def test_double_buffers_of_several_dimensions(separated: bool, shape: tuple[int, ...]) -> None:
    sch = tiled(separated)
    flat = flatten(sch.mod["main"])
    assert shapes(flat) == {"C": shape}
    same_meaning(parse(BEFORE), flat)
    assert "i_0 % 2" in flat.script()


def test_no_banks_without_a_loop() -> None:
    sch = Schedule(parse(BEFORE))
    sch.double_buffer("C", 0)
    with pytest.warns(UserWarning, match="double_buffer of C has no effect: no loop of several iterations refills it"):
        assert shapes(flatten(sch.mod["main"])) == {"C": (4096,)}


def test_copies_run_one_iteration_ahead() -> None:
    sch = tiled(True)
    flat = flatten(sch.mod["main"], pipeline=True)
    text = flat.script()
    assert "if i_0 < 3:" in text and "C[(i_0 + 1) % 2, " in text and "C[i_0 % 2, " in text
    assert text.index("C[0, ") < text.index("for i_0 in range(4):") < text.index("C[(i_0 + 1) % 2, ") < text.index("C[i_0 % 2, ")
    assert text.replace("C[i_0 % 2", "").count("i_0 % 2") == 0
    same_meaning(parse(BEFORE), flat)
    assert parse(text) == flat


IN_PLACE = '''
from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((8, 16), "int32"), B: T.Buffer((8, 16), "int32")):
    C = T.alloc_buffer((8, 16), "int32")
    for i in range(8):
        for j in range(16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"double_buffer_scope": 0})
                C[vi, vj] = B[(vi + 7) % 8, vj] + A[vi, vj]
        for j in range(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = C[vi, vj]
'''


def test_a_copy_of_what_the_loop_writes_stays() -> None:
    # Iteration i reads what iteration i - 1 stored.
    func = parse(IN_PLACE)
    flat = flatten(func, compact=True, pipeline=True)
    assert flat == flatten(func, compact=True)
    same_meaning(func, flat)
    free = parse(IN_PLACE.replace("B[(vi + 7) % 8, vj] + A[vi, vj]", "A[vi, vj] * 3"))
    flat = flatten(free, compact=True, pipeline=True)
    assert "(i + 1) % 2" in flat.script()
    same_meaning(free, flat)


@pytest.mark.parametrize("layer", ["conv2d:n=1,h=6,w=6,ci=32,co=32,k=3,pad=1", "dense:m=4,k=64,n=32"])
def test_pipelined_points_of_a_space_mean_the_same(layer: str) -> None:
    from autosched.workloads import workload
    from space import Space

    space = Space(workload(layer).func, "vta-de10")
    ahead = 0
    for point in space.sample(np.random.default_rng(7), 12):
        func = space.schedule(point).func
        flat = flatten(func, compact=True, pipeline=True)
        ahead += flat != flatten(func, compact=True)
        same_meaning(func, flat)
    assert ahead


@pytest.mark.parametrize("seed", range(6))
def test_scheduled_convolutions(seed: int, vta_schedules: ModuleType) -> None:
    """Views, predicates, external calls and virtual threads survive."""
    choose = random.Random(seed).choice
    func = vta_schedules.conv2d(choose, "conv2d:h=5,w=4,ci=32,co=32,k=3,pad=1").mod["main"]
    flat = flatten(func)
    assert all(len(s) <= 2 for s in shapes(flat).values())
    same_meaning(func, flat, seed)


def test_inits_in_place() -> None:
    from autosched.workloads import workload

    func = workload("dense:m=2,k=32,n=16").func
    same_meaning(func, flatten(func))
