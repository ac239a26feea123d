"""The lower bound against brute force: whole small spaces, and programs whose operands are copied in unusual ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.ir.stmt import PrimFunc
from autosched.lower import lower_table
from autosched.measure import Candidate, measure
from autosched.script import parse
from autosched.target import Target, get_target
from autosched.workloads import workload
from sim import isa, timing
from space import Space
from space.bound import compute_floor
from space.least_elements import least_elements
from space.rules import NUMERIC, STRUCTURAL

Tensor = Any
# Spaces small enough to be listed: without the parts of the output, of which there are as many as places to cut.
UNCUT = [rule for rule in (*STRUCTURAL, *NUMERIC) if rule.name not in ("cuts", "residency")]


def matmul(copy: Callable[[Tensor], Tensor] | None, post: Callable[[Tensor, Tensor], Tensor], shape: tuple[int, ...]) -> PrimFunc:
    """A (4, 4, 2) blocked product whose data is copied by ``copy`` and whose sums go through ``post``."""
    m, n, k = 4, 4, 2
    source = te.placeholder((*shape, 1, 16), "int8", name="A")
    weight = te.placeholder((n, k, 16, 16), "int8", name="W")
    bias = te.placeholder((n, 1, 16), "int32", name="bias")
    a = te.compute((m, k, 1, 16), copy(source), name="copy") if copy else source
    ko, ki = te.reduce_axis((0, k), name="ko"), te.reduce_axis((0, 16), name="ki")
    c = te.compute((m, n, 1, 16), lambda i, j, p, q: te.sum(
        a[i, ko, p, ki].astype("int32") * weight[j, ko, q, ki].astype("int32"), axis=[ko, ki]), name="C")
    d = te.compute((m, n, 1, 16), lambda i, j, p, q: post(c[i, j, p, q], bias[j, p, q]), name="D")
    out = te.compute((m, n, 1, 16), lambda i, j, p, q: d[i, j, p, q].astype("int8"), name="out")
    return te.create_prim_func([source, weight, bias, out])


COPIES = {
    "transposed": (lambda s: lambda i, k, p, q: s[k, i, p, q], (2, 4)),
    "cropped": (lambda s: lambda i, k, p, q: s[i + 3, k + 1, p, q], (9, 4)),
    "mostly padding": (
        lambda s: lambda i, k, p, q: te.if_then_else(i < 1, s[i + 5, k, p, q], te.const(0, "int8")), (16, 2)),
    "padding that is no box": (
        lambda s: lambda i, k, p, q: te.if_then_else(i + k < 3, s[i, k, p, q], te.const(0, "int8")), (4, 2)),
}


def holds(func: PrimFunc, points: int) -> int:
    """Simulates points and compares with their bounds; returns how many ran."""
    space = Space(func, "vta-de10")
    ran = 0
    for point in space.sample(np.random.default_rng(0), points):
        result = measure(Candidate(func, "vta-de10", tuple(space.trace(point).as_json())))
        ran += 1
        assert result.cycles is not None, (space.explain(point), result)
        assert result.cycles >= space.bound(point[None])[0] >= space.floor(), space.explain(point)
    return ran


@pytest.mark.parametrize("name", COPIES)
def test_only_what_must_be_read_is_counted(name: str) -> None:
    copy, shape = COPIES[name]
    func = matmul(copy, lambda c, b: (c >> 8) + b, shape)
    assert holds(func, 5), f"no point of {name} ran"
    space = Space(func, "vta-de10", UNCUT)
    points = space.sample(np.random.default_rng(1), 64)
    points = points[points[:, 0] == len(space.sketches) - 1]
    sketch, plan = space.meaning(points)
    model = sketch.model
    operand = next(o for o in model.nest.operands if o.producer)
    fills = model.fills(plan, plan.body, 0)
    read = least_elements(model, plan, 0)
    assert len(points) and (read <= fills * model.footprint(plan, plan.body, 0)).all(), operand
    if name == "mostly padding":
        assert read.min() == 2, "one row of two elements is no padding"


def test_what_needs_no_instruction_costs_nothing() -> None:
    plain = Space(matmul(None, lambda c, b: (c >> 8) + b, (4, 2)), "vta-de10")
    idle = matmul(None, lambda c, b: ((c * 1) >> 8) + (b + (te.const(3, "int32") - te.const(3, "int32"))), (4, 2))

    def least(space: Space) -> int:
        model = space.sketches[-1].model
        return int(compute_floor(model, model.neutral(1))[0])

    assert least(Space(idle, "vta-de10")) == least(plain)
    assert holds(idle, 6)
    more = Space(matmul(None, lambda c, b: te.max((c >> 8) + b, 0), (4, 2)), "vta-de10")
    assert least(more) == least(plain) + 16, "one operation on each of 16 elements"


@pytest.mark.parametrize("name", ["dense:m=1,k=64,n=64", "conv2d:h=3,w=2,ci=16,co=16,k=3,pad=1,bias=0,tail=cast"])
def test_the_bound_holds_over_a_whole_space(name: str) -> None:
    space = Space(workload(name).func, "vta-de10", UNCUT)
    points = np.concatenate(list(space.enumerate()))[::7]
    assert (space.bound(points) >= space.floor()).all()
    for point, bound in zip(points[:16], space.bound(points)):
        result = measure(Candidate(name, "vta-de10", tuple(space.trace(point).as_json())))
        assert result.cycles is not None and result.cycles >= bound, space.explain(point)


@pytest.mark.parametrize("name", ["t2", "dense:m=1,k=128,n=128", "t3"])
def test_the_drafts_favourites_hold_the_best(name: str) -> None:
    """The 16 favourites come within one in a hundred of 40 random points' best, and the order of those is right."""
    space = Space(workload(name).func, "vta-de10", UNCUT)
    everything = np.concatenate(list(space.enumerate()))
    order = np.argsort(space.draft(everything), kind="stable")
    rest = np.random.default_rng(0).choice(order[16:], 40, replace=False)

    def cycles(rows: np.ndarray) -> np.ndarray:
        found = [measure(Candidate(name, "vta-de10", tuple(space.trace(p).as_json()))).cycles for p in everything[rows]]
        return np.array([c for c in found if c is not None])

    others = cycles(rest)
    assert cycles(order[:16]).min() <= 1.01 * others.min()
    ranks = np.argsort(np.argsort(others)), np.argsort(np.argsort(space.draft(everything[rest])))
    assert np.corrcoef(*ranks)[0, 1] > 0.9


@pytest.mark.parametrize(("name", "loads", "instructions"), [
    # A load of each tensor and of micro-ops, a reset and a product, a store, FINISH.
    ("dense:m=2,k=32,n=48,tail=cast,bias=0", [(isa.MEM_INP, 2 * 2), (isa.MEM_WGT, 3 * 2)], 2 + 1 + 2 + 2),
    ("dense:m=2,k=32,n=48,tail=cast,bias=1", [(isa.MEM_INP, 2 * 2), (isa.MEM_WGT, 3 * 2), (isa.MEM_ACC, 3)], 3 + 1 + 2 + 2),
    ("add:m=2,n=48", [(isa.MEM_ACC, 2 * 3)] * 2, 2 + 1 + 1 + 2),
])
def test_the_chains_of_a_small_program_are_its_sums(name: str, loads: list[tuple[int, int]], instructions: int) -> None:
    config = get_target("vta-de10").config
    found = Space(workload(name).func, "vta-de10").machine
    cycles = [(memory, int(timing.load_cycles_floor(memory, 0, 1, n, n, config=config))) for memory, n in loads]
    operands = [c for memory, c in cycles if memory != isa.MEM_ACC]
    assert found.terms["addends"] == sum(c for memory, c in cycles if memory == isa.MEM_ACC)
    # After the last operand one product is still to come.
    assert found.terms["load chain"] == (sum(operands) + 1 + 6 if operands else 0)
    moved = sum(n * int(isa.element_bytes(config)[memory]) for memory, n in loads)
    assert found.terms["bus chain"] == (moved + 16 * instructions) // config.bus_bytes
    assert found.cycles == found.terms["start"] + found.terms[f"{found.binds} chain"] + found.terms["drain"]


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """A machine with 64 places in the accumulator."""
    path: Path = tmp_path_factory.mktemp("machine") / "narrow.json"
    path.write_text(json.dumps({"LOG_ACC_BUFF_SIZE": 12, "name": "vta-narrow"}))
    return get_target(path)


@pytest.mark.parametrize(("name", "vectors", "after"), [
    ("dense:m=16,k=32,n=64,tail=cast,bias=0", 64, 0), ("dense:m=65,k=32,n=16,tail=cast,bias=0", 65, 0),
    ("dense:m=43,k=32,n=48,bias=1", 129, 3), ("dense:m=16,k=32,n=64,bias=1", 64, 3), ("dense:m=17,k=16,n=64,bias=0", 68, 3),
    # All but one of padding alone, however many products that one has.
    ("conv2d:h=1,w=1,ci=16,co=16,k=1,pad=4,bias=0,tail=cast", 1, 0), ("conv2d:h=1,w=1,ci=2048,co=16,k=1,pad=8,bias=0", 1, 3),
    ("conv2d:h=9,w=9,ci=16,co=16,k=3,pad=1,bias=0", 81, 3), ("conv2d:h=7,w=7,ci=16,co=16,k=3,pad=3,bias=0", 81, 3),
])
def test_an_instruction_makes_one_value_at_a_place(name: str, vectors: int, after: int, narrow: Target) -> None:
    """So many products, and so many operations or initial values, each program has at least, whatever its tiles."""
    space = Space(workload(name).func, narrow)
    terms = space.machine.terms
    multiply, written = -(-vectors // 64), max(1 + after, -(-max(1, after) * vectors // 64))
    assert narrow.config.acc_depth == 64 and terms["instructions"] == 6 * (multiply + written - 2 - after)
    points = space.sample(np.random.default_rng(0), 10)
    assert len(points) == 10
    least = np.full(2, np.inf)
    for point in points:
        table = lower_table(space.schedule(point).func, narrow).table
        work = table[:, isa.OPCODE] == isa.OP_GEMM
        others = (work & (table[:, isa.RESET] > 0)) | (table[:, isa.OPCODE] == isa.OP_ALU)
        least = np.minimum(least, [(work & (table[:, isa.RESET] == 0)).sum(), others.sum()])
    assert least[0] >= multiply and least[1] >= written, (least, multiply, written)


@pytest.mark.parametrize(("value", "written", "after"), [
    ("(C[vi, vj] + R[vi, vj]) >> 8", 0, 1), ("C[vi, vj] + R[vi, vj]", 0, 0), ("(C[vi, vj] + b[vj]) >> 8", 256 - 4, 1),
    ("(C[vi, vj] >> 8) + R[vi, vj]", 256, 1), ("T.max(C[vi, vj] + R[vi, vj], 0) + b[vj]", 0, 1),
    ("(C[vi, vj] + T.max(R[vi, vj], 0)) >> 8", 256, 1),
])
def test_a_load_may_write_what_a_sum_starts_with(value: str, written: int, after: int) -> None:
    """An addend of the sum as it is: its load writes the accumulator, and is counted by its beats already."""
    machine = Space(parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((64, 64), "int8"), W: T.Buffer((64, 64), "int8"), R: T.Buffer((64, 64), "int32"),
         b: T.Buffer((64,), "int32"), out: T.Buffer((64, 64), "int8")):
    C = T.alloc_buffer((64, 64), "int32")
    for i, j, k in T.grid(64, 64, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(64, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", {value})
'''), "vta-de10").machine
    assert machine.terms["initial"] == (written + 6 if written else 0)
    assert machine.vector == bool(written) + after


def test_an_operation_on_an_addend_is_none_on_the_sum() -> None:
    """A bias that is the same for every row may be clipped once; what is clipped is not the sum."""
    plain, clipped, after = (Space(matmul(None, post, (4, 2)), "vta-de10").machine for post in (
        lambda c, b: (c >> 8) + b, lambda c, b: (c >> 8) + te.max(b, 0), lambda c, b: te.max((c >> 8) + b, 0)))
    assert clipped == plain
    assert after.vector == plain.vector + 1


@pytest.mark.parametrize(("start", "update", "ends"), [
    (-(2**31), "T.max(B[vi, vb, vl], A[vi, vk, vb, vl])", (-10, 20)),
    (2**31 - 1, "T.min(B[vi, vb, vl], A[vi, vk, vb, vl])", (-10, 20)),
    (0, "B[vi, vb, vl] + A[vi, vk, vb, vl]", (-30, 60)),
])
def test_a_clip_counts_where_what_was_reduced_reaches_past_it(start: int, update: str, ends: tuple[int, int]) -> None:
    def operations(clip: str) -> int:
        return Space(parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, 3, 1, 16), "int32"), out: T.Buffer((4, 1, 16), "int8")):
    T.func_attr({{"autosched.value_ranges": {{"A": [-10, 20]}}}})
    B = T.alloc_buffer((4, 1, 16), "int32")
    C = T.alloc_buffer((4, 1, 16), "int32")
    for i, b, l, k in T.grid(4, 1, 16, 3):
        with T.block("B"):
            vi, vb, vl, vk = T.axis.remap("SSSR", [i, b, l, k])
            with T.init():
                B[vi, vb, vl] = {start}
            B[vi, vb, vl] = {update}
    for i, b, l in T.grid(4, 1, 16):
        with T.block("C"):
            vi, vb, vl = T.axis.remap("SSS", [i, b, l])
            C[vi, vb, vl] = {clip.format("B[vi, vb, vl]")}
    for i, b, l in T.grid(4, 1, 16):
        with T.block("out"):
            vi, vb, vl = T.axis.remap("SSS", [i, b, l])
            out[vi, vb, vl] = T.Cast("int8", C[vi, vb, vl])
'''), "vta-de10").machine.vector

    least, most = ends
    assert [operations(f"T.max({{}}, {n})") for n in (least, least + 1)] == [0, 1]
    assert [operations(f"T.min({{}}, {n})") for n in (most, most - 1)] == [0, 1]


def test_where_nothing_is_added_a_sum_starts_with_a_reset() -> None:
    """What is added the RTL moves there at the same cost; elsewhere it is a tensor operation."""
    def vectors(bias: int) -> list[int]:
        func = workload(f"dense:m=4,k=16,n=32,tail=cast,bias={bias}").func
        return [Space(func, target).machine.vector for target in ("vta-de10", "vta-de10-portable")]

    assert (vectors(0), vectors(1)) == ([1, 1], [1, 2])
