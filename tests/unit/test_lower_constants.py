"""An accumulator that starts with a constant: made once, and moved from there where the RTL does that in one operation."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
import pytest
from decided import deciding

from autosched import te
from autosched.ir.stmt import PrimFunc
from autosched.kernel import of_schedule, resolve
from autosched.lower import lower_table
from autosched.script import parse
from autosched.target import get_target
from sim import isa
from sim.stats import uops_of
from space import Space

RESET = -1


def filled(rows: int, columns: int, value: int, guard: str = "True") -> PrimFunc:
    """A tile of ``rows`` by ``columns`` vectors of a constant, plus a tensor."""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({rows}, {columns}, 1, 16), "int32"), out: T.Buffer(({rows}, {columns}, 1, 16), "int8")):
    x = T.alloc_buffer(({rows}, {columns}, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer(({rows}, {columns}, 1, 16), "int32", scope="local.acc_buffer")
    for i, j, l in T.grid({rows}, {columns}, 16):
        with T.block("load"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            x[vi, vj, 0, vl] = a[vi, vj, 0, vl]
    for i, j, l in T.grid({rows}, {columns}, 16):
        with T.block("fill"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            T.where({guard})
            z[vi, vj, 0, vl] = T.int32({value})
    for i, j, l in T.grid({rows}, {columns}, 16):
        with T.block("add"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            T.where({guard})
            z[vi, vj, 0, vl] = z[vi, vj, 0, vl] + x[vi, vj, 0, vl]
    for i, j, l in T.grid({rows}, {columns}, 16):
        with T.block("store"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            T.where({guard})
            out[vi, vj, 0, vl] = T.cast(z[vi, vj, 0, vl], "int8")
''')


def fill(func: PrimFunc, target: str) -> list[tuple[int, int]]:
    """(operation, micro-ops) of what makes the constant: all up to the sum of two accumulators."""
    table = lower_table(func, target).table
    work = table[np.isin(table[:, isa.OPCODE], (isa.OP_GEMM, isa.OP_ALU))]
    made = work[: int(np.argmax((work[:, isa.OPCODE] == isa.OP_ALU) & (work[:, isa.USE_IMM] == 0)))]
    kinds = np.where(made[:, isa.OPCODE] == isa.OP_GEMM, RESET, made[:, isa.ALU_OP])
    return list(zip(kinds.tolist(), uops_of(made).tolist()))


@pytest.mark.parametrize(("rows", "columns", "value", "steps"), [
    # Three instructions of a cycle and seven each, or two of all vectors.
    (5, 3, 128, [(RESET, 1), (isa.ALU_ADD, 1), (isa.ALU_SHR, 15)]),
    (2, 5, -128, [(RESET, 1), (isa.ALU_ADD, 1), (isa.ALU_SHR, 10)]),
    (3, 3, -128, [(RESET, 9), (isa.ALU_ADD, 9)]),
    (5, 3, 0, [(RESET, 15)]),
    (5, 3, 100_000, [(RESET, 1), (isa.ALU_ADD, 1), (isa.ALU_SHR, 1), (isa.ALU_ADD, 1), (isa.ALU_SHR, 15)]),
])
def test_a_constant_is_made_once_and_moved(
    rows: int, columns: int, value: int, steps: list[tuple[int, int]], vta_schedules: ModuleType
) -> None:
    func = filled(rows, columns, value)
    vta_schedules.verify(func, "vta-de10")
    assert fill(func, "vta-de10") == steps
    for target in ("vta-fsim", "vta-de10-portable"):
        vta_schedules.verify(func, target)
        assert {count for _, count in fill(func, target)} == {rows * columns}


@pytest.mark.parametrize(("guard", "elements"), [("i < 5", 15), ("j < 2", 12), ("i < 5 and j < 2", 10), ("i > 0", 15)])
def test_the_last_element_is_the_last_that_runs(guard: str, elements: int, vta_schedules: ModuleType) -> None:
    func = filled(6, 3, 128, guard)
    vta_schedules.verify(func, "vta-de10")
    assert fill(func, "vta-de10") == [(RESET, 1), (isa.ALU_ADD, 1), (isa.ALU_SHR, elements)]


def results(func: PrimFunc, target: str, distinct: int) -> tuple[Sequence[np.ndarray], np.ndarray]:
    """Inputs, and the result ``o`` that they have, which takes more than so many values."""
    task = resolve(func, get_target(target))
    inputs = task.inputs(0)
    want = np.asarray(task.results(*inputs)["o"])
    assert len(np.unique(want)) > distinct
    return inputs, want


def rounded(add: int) -> PrimFunc:
    x, w = te.placeholder((1, 64, 16, 16), "int8", name="x"), te.placeholder((64, 64, 3, 3), "int8", name="w")
    k, p, q = te.reduce_axis((0, 64), name="k"), te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
    acc = te.compute((1, 64, 14, 14), lambda n, o, i, j: te.sum(
        x[n, k, i + p, j + q].astype("int32") * w[o, k, p, q].astype("int32"), axis=[k, p, q]), name="acc")
    out = te.compute((1, 64, 14, 14), lambda *i: (acc[i] + add >> 8).astype("int8"), name="o")
    return te.create_prim_func([x, w, out])


@pytest.mark.parametrize("add", [0, 128])
def test_rounding_costs_no_more_than_a_reset(add: int) -> None:
    """One write and one shift of every vector, as the estimate says."""
    space = Space(rounded(add), "vta-de10")
    points = space.sample(np.random.default_rng(0), 600)
    folded = [k for k, sketch in enumerate(space.sketches) if "init by copy" in sketch.done]
    points = points[np.isin(points[:, 0], folded)] if folded else points  # the other form adds the constant behind
    whole = points[~deciding(space, points, ("cut", "cut_again", "head"))]  # each part resets what its padding leaves out
    best = whole[np.argsort(space.draft(whole), kind="stable")[:4]]
    off = []
    for point, draft in zip(best, space.draft(best)):
        lowered = lower_table(space.schedule(point).func, space.target)
        table = lowered.table
        work = (table[:, isa.OPCODE] == isa.OP_ALU) | ((table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] != 0))
        assert 2 * 784 <= uops_of(table)[work].sum() <= 2 * 784 + 80
        off.append(lowered.cycles(None) / draft - 1)
    assert abs(np.median(off)) < 0.03
    # Tiles that leave a rest, or are cut: the last element is another one there.
    inputs, want = results(space.func, "vta-de10", 50)
    for point in points[:6]:
        np.testing.assert_array_equal(of_schedule(space.func, "vta-de10", space.schedule(point))(*inputs), want)


def averaged(tensors: int, shift: int) -> PrimFunc:
    """int8 tensors of 256 vectors, their rounded and shifted sum."""
    read = [te.placeholder((16, 16, 1, 16), "int8", name=n) for n in "abc"[:tensors]]

    def value(*i: object) -> object:
        total = read[0][i].astype("int32")
        for x in read[1:]:
            total = total + x[i].astype("int32")
        return (total + 1 >> shift).astype("int8")

    return te.create_prim_func([*read, te.compute((16, 16, 1, 16), value, name="o")])


@pytest.mark.parametrize(("tensors", "shift"), [(2, 1), (3, 2)])
def test_a_constant_behind_several_products_is_where_the_first_starts(tensors: int, shift: int) -> None:
    """One write, the products and one shift of every vector."""
    func = averaged(tensors, shift)
    space = Space(func, "vta-de10")
    points = space.sample(np.random.default_rng(0), 400)
    point = next(p for p in points[np.argsort(space.draft(points), kind="stable")] if "init by copy" in space.sketches[p[0]].done)
    table = lower_table(space.schedule(point).func, space.target).table
    work = np.isin(table[:, isa.OPCODE], (isa.OP_ALU, isa.OP_GEMM))
    assert (tensors + 2) * 256 <= uops_of(table)[work].sum() <= (tensors + 2) * 256 + 80
    inputs, want = results(func, "vta-de10", 50)
    np.testing.assert_array_equal(of_schedule(func, "vta-de10", space.schedule(point))(*inputs), want)


@pytest.mark.parametrize(("most", "fits"), [(120, True), (121, False)])
def test_where_accumulators_move_nowhere_a_constant_is_a_maximum_of_what_was_clipped(most: int, fits: bool) -> None:
    """Every tile but the first of each accumulator finds at most ``most`` there, and starts with 120."""
    x, w = te.placeholder((1, 64, 16, 16), "int8", name="data"), te.placeholder((64, 64, 1, 1), "int8", name="weight")
    k = te.reduce_axis((0, 64), name="k")
    acc = te.compute((1, 64, 16, 16), lambda n, o, i, j: te.sum(
        x[n, k, i, j].astype("int32") * w[o, k, 0, 0].astype("int32"), axis=[k]), name="acc")
    clipped = te.compute((1, 64, 16, 16), lambda *i: te.min(
        te.max(acc[i] + 120 >> 8, te.const(0, "int32")), te.const(most, "int32")).astype("int8"), name="o")
    func = te.create_prim_func([x, w, clipped])
    space = Space(func, "vta-de10-portable")
    points = [p for p in space.sample(np.random.default_rng(0), 300) if "addend in front" in space.sketches[p[0]].done]
    inputs, want = results(func, "vta-de10-portable", 20)
    fewer = 0
    for point in points[:12]:
        table = lower_table(space.schedule(point).func, space.target).table
        resets = (table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] != 0)
        imm = (table[:, isa.OPCODE] == isa.OP_ALU) & (table[:, isa.USE_IMM] != 0) & (table[:, isa.IMM] == 120)
        started = imm & np.isin(table[:, isa.ALU_OP], (isa.ALU_ADD, isa.ALU_MAX))
        uops = uops_of(table)
        assert uops[started].sum() == 1024
        assert uops[resets].sum() == uops[imm & (table[:, isa.ALU_OP] == isa.ALU_ADD)].sum()
        fewer += int(uops[resets].sum() < 1024)
        if fewer == 1 or not fits:
            np.testing.assert_array_equal(of_schedule(func, space.target, space.schedule(point))(*inputs), want)
    assert (fewer > 3) if fits else not fewer


@pytest.mark.parametrize("widened", [False, True])
def test_what_a_load_widens_is_no_longer_what_was_clipped(widened: bool, vta_schedules: ModuleType) -> None:
    """A constant behind a clip to at most 3, or behind int8 that has taken its place."""
    load = "" if not widened else """
    for i, l in T.grid(4, 16):
        with T.block("widen"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, 0, vl] = T.cast(a[vi, 0, vl], "int32")
    for i, l in T.grid(4, 16):
        with T.block("again"):
            vi, vl = T.axis.remap("SS", [i, l])
            p[vi, 0, vl] = T.cast(x[vi, 0, vl], "int8")"""
    func = parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(w: T.Buffer((4, 1, 16), "int32"), a: T.Buffer((4, 1, 16), "int8"), o: T.Buffer((4, 1, 16), "int8"),
         p: T.Buffer((4, 1, 16), "int8"), q: T.Buffer((4, 1, 16), "int8")):
    x = T.alloc_buffer((4, 1, 16), "int32", scope="local.acc_buffer")
    for i, l in T.grid(4, 16):
        with T.block("load"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, 0, vl] = w[vi, 0, vl]
    for i, l in T.grid(4, 16):
        with T.block("clip"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, 0, vl] = T.min(x[vi, 0, vl], 3)
    for i, l in T.grid(4, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            o[vi, 0, vl] = T.cast(x[vi, 0, vl], "int8"){load}
    for i, l in T.grid(4, 16):
        with T.block("fill"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, 0, vl] = T.int32(5)
    for i, l in T.grid(4, 16):
        with T.block("last"):
            vi, vl = T.axis.remap("SS", [i, l])
            q[vi, 0, vl] = T.cast(x[vi, 0, vl], "int8")
''')
    vta_schedules.verify(func, "vta-fsim")
    table = lower_table(func, "vta-fsim").table
    alu = table[(table[:, isa.OPCODE] == isa.OP_ALU) & (table[:, isa.IMM] == 5)]
    assert alu[:, isa.ALU_OP].tolist() == [isa.ALU_ADD if widened else isa.ALU_MAX]
