"""Element-wise work on the GEMM: diagonal operands, identities, and copies that are int32 already."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused
from spaces import computes

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.constant import values
from autosched.ir.host import split_host
from autosched.kernel import of_schedule
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import T, parse
from autosched.target import get_target
from autosched.workloads import of_func
from space import Space
from space.normalise import normalise

Same = Callable[..., None]

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim")


@T.prim_func
def depthwise(X: T.Buffer((2, 8, 1, 16), "int8"), W: T.Buffer((2, 3, 16), "int8"), out: T.Buffer((2, 6, 1, 16), "int8")):
    C = T.alloc_buffer((2, 6, 1, 16), "int32")
    for c, y, b, a, p in T.grid(2, 6, 1, 16, 3):
        with T.block("C"):
            vc, vy, vb, vl, vp = T.axis.remap("SSSSR", [c, y, b, a, p])
            with T.init():
                C[vc, vy, vb, vl] = 0
            C[vc, vy, vb, vl] = C[vc, vy, vb, vl] + T.Cast("int32", X[vc, vy + vp, vb, vl]) * T.Cast("int32", W[vc, vp, vl])
    for c, y, b, a in T.grid(2, 6, 1, 16):
        with T.block("out"):
            vc, vy, vb, vl = T.axis.remap("SSSS", [c, y, b, a])
            out[vc, vy, vb, vl] = T.Cast("int8", C[vc, vy, vb, vl])


@T.prim_func
def residual(X: T.Buffer((4, 2, 1, 16), "int8"), R: T.Buffer((4, 2, 1, 16), "int8"), out: T.Buffer((4, 2, 1, 16), "int8")):
    A = T.alloc_buffer((4, 2, 1, 16), "int32")
    B = T.alloc_buffer((4, 2, 1, 16), "int32")
    D = T.alloc_buffer((4, 2, 1, 16), "int32")
    for m, n, b, a in T.grid(4, 2, 1, 16):
        with T.block("A"):
            vm, vn, vb, vl = T.axis.remap("SSSS", [m, n, b, a])
            A[vm, vn, vb, vl] = T.Cast("int32", X[vm, vn, vb, vl])
    for m, n, b, a in T.grid(4, 2, 1, 16):
        with T.block("B"):
            vm, vn, vb, vl = T.axis.remap("SSSS", [m, n, b, a])
            B[vm, vn, vb, vl] = A[vm, vn, vb, vl] + T.Cast("int32", R[vm, vn, vb, vl]) * 4
    for m, n, b, a in T.grid(4, 2, 1, 16):
        with T.block("D"):
            vm, vn, vb, vl = T.axis.remap("SSSS", [m, n, b, a])
            D[vm, vn, vb, vl] = T.min(T.max(B[vm, vn, vb, vl], -128), 127)
    for m, n, b, a in T.grid(4, 2, 1, 16):
        with T.block("out"):
            vm, vn, vb, vl = T.axis.remap("SSSS", [m, n, b, a])
            out[vm, vn, vb, vl] = T.Cast("int8", D[vm, vn, vb, vl])


@T.prim_func
def pool(X: T.Buffer((2, 8, 1, 16), "int8"), out: T.Buffer((2, 4, 1, 16), "int8")):
    C = T.alloc_buffer((2, 4, 1, 16), "int32")
    for c, y, b, a, p in T.grid(2, 4, 1, 16, 2):
        with T.block("C"):
            vc, vy, vb, vl, vp = T.axis.remap("SSSSR", [c, y, b, a, p])
            with T.init():
                C[vc, vy, vb, vl] = -128
            C[vc, vy, vb, vl] = T.max(C[vc, vy, vb, vl], T.Cast("int32", X[vc, vy * 2 + vp, vb, vl]))
    for c, y, b, a in T.grid(2, 4, 1, 16):
        with T.block("out"):
            vc, vy, vb, vl = T.axis.remap("SSSS", [c, y, b, a])
            out[vc, vy, vb, vl] = T.Cast("int8", C[vc, vy, vb, vl])


def gemm(sch: Schedule, block: str, inp: str, wgt: str) -> None:
    """Operands on the chip, the sum in the accumulator, the lanes tensorized: all of it in one tile."""
    sch.cache_read(block, inp, INP)
    sch.cache_read(block, wgt, WGT)
    sch.set_scope(block, 0, ACC)
    handle = sch.get_block(block)
    loops, kinds = sch.get_loops(handle), [iv.kind for iv in sch.get(handle).iter_vars]
    lanes = [*[x for x, kind in zip(loops, kinds) if kind == "spatial"][-2:], loops[-1]]
    sums = [x for x, kind in zip(loops, kinds) if kind == "reduce" and x is not loops[-1]]
    rest = [x for x in loops if x not in lanes and x not in sums]
    sch.reorder(*sums, *rest, *lanes)
    sch.decompose_reduction(handle, (sums or rest)[0])
    sch.tensorize(lanes[0], "vta.gemm.1x16x16")


def runs(sch: Schedule, func: PrimFunc, targets: tuple[str, ...] = TARGETS) -> None:
    trace = tuple(sch.trace.as_json())
    for target in targets:
        result = measure(Candidate(of_func(func), get_target(target), trace), execute=True)
        assert result.status == "ok", (target, result)


def test_depthwise_through_a_diagonal_operand(verify_trace_roundtrip: Verify, same: Same) -> None:
    get_target("vta-de10")
    sch = Schedule(depthwise)
    made = sch.diagonalize("C", 3, "W")
    assert sch.get(made).name == "W_diagonal"
    assert "W_diagonal[v0, v1, v2, v3] = T.if_then_else(v2 == v3, W[v0, v1, v2], T.int8(0))" in sch.script()
    assert [p.name for p in split_host(sch.func).pack] == ["W_diagonal"]
    same(depthwise, sch)
    verify_trace_roundtrip(sch, depthwise)
    gemm(sch, "C", "X", "W_diagonal")
    runs(sch, depthwise)


def test_an_operand_that_the_accelerator_makes_is_no_host_stage(same: Same) -> None:
    text = depthwise.script().replace("    for c, y, b, a, p in", '''    V = T.sblock_alloc_buffer((2, 3, 16), "int8")
    for c, p, a in T.grid(2, 3, 16):
        with T.sblock("V"):
            vc, vp, vl = T.axis.remap("SSS", [c, p, a])
            V[vc, vp, vl] = W[vc, vp, vl]
    for c, y, b, a, p in''').replace("W[vc, vp, vl])", "V[vc, vp, vl])").replace(
        "W[vc, vp, vl]\n            T.writes(C", "V[vc, vp, vl]\n            T.writes(C")
    func = parse(text.replace("T.reads(X[vc, vy + vp, vb, vl], W[vc, vp, vl])", "T.reads(X[vc, vy + vp, vb, vl], V[vc, vp, vl])"))
    sch = Schedule(func)
    sch.diagonalize("C", 3, "V")
    assert not split_host(sch.func).pack
    same(func, sch)


@pytest.mark.parametrize(("axis", "buffer", "code"), [
    (4, "W", "argument"), (1, "W", "index"),
    (5, "W", "argument"), (2, "W", "index"),
])
def test_what_no_diagonal_helps(axis: int, buffer: str, code: str) -> None:
    with refused(ScheduleError, code):
        Schedule(depthwise).diagonalize("C", axis, buffer)


SQUARES = """
@T.prim_func
def f(X: T.Buffer((4, 16), "int8"), out: T.Buffer((4, 16), "int32")):
    Y = T.alloc_buffer((4, 16), "int8")
    for i, j in T.grid(4, 16):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = T.max(X[vi, vj], T.int8(3))
    for i, j in T.grid(4, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int32", %s) * T.Cast("int32", %s)
"""


@pytest.mark.parametrize("other", ["X[vi, vj]", "X[3 - vi, vj]"])
def test_a_parameter_times_itself(other: str, verify_trace_roundtrip: Verify, same: Same) -> None:
    func = parse(SQUARES % ("X[vi, vj]", other))
    sch = Schedule(func)
    sch.diagonalize("out", 1, "X")
    # The accelerator reads one copy, and the host makes the other.
    assert {r.buffer.name for r in sch.get(sch.get_sblock("out")).reads} == {"X_factor", "X_diagonal"}
    same(func, sch)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("other", ["X[vi, vj]", "Y[vi, vj]"])
def test_of_what_is_computed_a_product_makes_the_diagonal(other: str, verify_trace_roundtrip: Verify, same: Same) -> None:
    func = parse(SQUARES % ("Y[vi, vj]", other))
    sch = Schedule(func)
    made = sch.diagonalize("out", 1, "Y")
    assert not split_host(sch.func).pack
    total, rows = sch.diagonal_by_gemm(made)
    assert (sch.get(total).name, sch.get(rows).name) == ("Y_diagonal_sum", "Y_diagonal_row")
    (eye,) = sch.func.constants
    assert np.argwhere(values(eye)).tolist() == [[i, i, i] for i in range(16)] and values(eye).shape == (16, 16, 16)
    assert sch.script().count("= Y_diagonal_row[") == 1  # what the block was for it copies now
    same(func, sch)
    verify_trace_roundtrip(sch, func)
    with refused(ScheduleError, "form"):
        sch.diagonal_by_gemm("Y_diagonal")  # it copies now


SPREAD = """
@T.prim_func
def f(A: T.Buffer((17,), "int8"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int8"), D: T.Buffer((16, 16), "int8"),
      E: T.Buffer((16, 17), "int8"), G: T.Buffer((2, 16), "int8"), H: T.Buffer((4, 16, 16), "int8")):
    for i, k in T.grid(16, 16):
        with T.block("D"):
            vi, vk = T.axis.remap("SS", [i, k])
            %s
"""


@pytest.mark.parametrize(("stored", "code"), [
    ("D[vi, vk] = T.if_then_else(vi == vk, C[vi], T.int8(0))", ""),
    ("D[vi, vk] = T.if_then_else(vi == vk, A[vi], T.int8(0))", "form"),  # of more lanes than there are rows
    ("D[vi, vk] = T.if_then_else(vi == vk, C[vk], T.int8(0))", "form"),
    ("D[vi, vk] = T.if_then_else(vi == vk, C[vi], T.int8(1))", "form"),
    ("D[vi, vk] = T.if_then_else(vi <= vk, C[vi], T.int8(0))", "form"),
    ("D[vi, vk] = T.if_then_else(vi == vk, C[(vi + 1) % 16], T.int8(0))", "form"),
    ("D[vi, vk] = T.if_then_else(vi == vk, T.Cast(\"int8\", B[vi]), T.int8(0))", "form"),
    ("D[vi, vk] = T.if_then_else(vi == vk, D[0, vi], T.int8(0))", "form"),  # in place
    ("D[vi, vk] = C[vi]", "form"),
    ("E[vi, vk] = T.if_then_else(vi == vk, C[vi], T.int8(0))", "form"),
    ("H[2, vi, vk] = T.if_then_else(vi == vk, C[vi], T.int8(0))", "domain"),  # a part of what it stores into
    ("T.where(i < 9); D[vi, vk] = T.if_then_else(vi == vk, C[vi], T.int8(0))", "domain"),
])
def test_what_is_a_diagonal(stored: str, code: str, same: Same) -> None:
    func = parse(SPREAD % stored.replace("; ", "\n            "))
    sch = Schedule(func)
    if code:
        with refused(ScheduleError, code):
            sch.diagonal_by_gemm("D")
        return
    sch.diagonal_by_gemm("D")
    same(func, sch)


def test_a_block_that_is_no_product() -> None:
    with refused(ScheduleError, "form"):
        Schedule(pool).diagonalize("C", 3, "X")


def test_int8_operands_enter_by_an_identity(verify_trace_roundtrip: Verify, same: Same) -> None:
    get_target("vta-de10")
    sch = Schedule(residual)
    sch.cast_by_gemm("A", 3, "X")
    sch.cast_by_gemm("B", 3, 1)
    assert "B[vm, vn, vb, vl] = A[vm, vn, vb, vl]" in sch.script()
    one, four = (values(c) for c in sch.func.constants)
    assert np.array_equal(one, np.eye(16)) and np.array_equal(four, 4 * np.eye(16))
    same(residual, sch)
    verify_trace_roundtrip(sch, residual)
    gemm(sch, "A", "X", "eye")
    gemm(sch, "B", "R", "eye_4")
    sch.set_scope("D", 0, ACC)
    runs(sch, residual)


def test_a_live_sum_needs_no_instruction_to_start() -> None:
    from autosched.kernel import of_schedule

    get_target("vta-de10")
    sch = Schedule(residual)
    sch.cast_by_gemm("A", 3, "X")
    sch.cast_by_gemm("B", 3, 1)
    gemm(sch, "A", "X", "eye")
    gemm(sch, "B", "R", "eye_4")
    sch.set_scope("D", 0, ACC)
    made = {s.block: s.instructions for s in of_schedule(residual, "vta-de10", sch).lowered.sites}
    assert made["B_init"] == 0


def test_an_identity_is_shared() -> None:
    sch = Schedule(parse(residual.script().replace(" * 4", "")))
    sch.cast_by_gemm("A", 3, "X")
    sch.cast_by_gemm("B", 3, "R")
    assert len(sch.func.constants) == 1


def test_what_is_subtracted_has_a_negative_factor(same: Same) -> None:
    func = parse(residual.script().replace('+ T.Cast("int32", R[vm, vn, vb, vl]) * 4', '- T.Cast("int32", R[vm, vn, vb, vl])'))
    sch = Schedule(func)
    sch.cast_by_gemm("B", 3, "R")
    assert np.array_equal(values(sch.func.constants[0]), -np.eye(16))
    same(func, sch)


@pytest.mark.parametrize(("factor", "reason"), [
    (" * 64", None), (" * 127", None), (" * 128", "factor 128 is more than an int8 holds"), (" * 3", None), (" * -128", None),
    (" * -129", "factor -129 is more than"), (" * X[vm, vn, vb, vl]", "does not add cast"),
])
def test_factors(factor: str, reason: str | None, same: Same) -> None:
    func = parse(residual.script().replace(" * 4", factor))
    sch = Schedule(func)
    if reason is None:
        sch.cast_by_gemm("B", 3, "R")
        same(func, sch)
        return
    with pytest.raises(ScheduleError, match=reason):
        sch.cast_by_gemm("B", 3, "R")
    assert sch.func == func


@pytest.mark.parametrize(("block", "axis", "buffer", "code"), [
    ("B", 3, "A", "form"), ("D", 3, "B", "form"), ("B", 0, "X", "name"),
])
def test_no_int8_operand(block: str, axis: int, buffer: str, code: str) -> None:
    with refused(ScheduleError, code):
        Schedule(residual).cast_by_gemm(block, axis, buffer)


def test_a_window_reads_a_copy_that_is_wide(verify_trace_roundtrip: Verify, same: Same) -> None:
    get_target("vta-de10")
    sch = Schedule(pool)
    with refused(ScheduleError, "form"):
        sch.cast_by_gemm("C", 3, "X")
    wide = sch.cache_cast("C", "X")
    assert 'X_int32[v0, v1, v2, v3] = T.Cast("int32", X[v0, v1, v2, v3])' in sch.script()
    assert "T.max(C[vc, vy, vb, vl], X_int32[vc, vy * 2 + vp, vb, vl])" in sch.script()
    same(pool, sch)
    sch.cast_by_gemm(wide, 3, "X")
    same(pool, sch)
    verify_trace_roundtrip(sch, pool)
    gemm(sch, sch.get(wide).name, "X", "eye")
    sch.set_scope("C", 0, ACC)
    *lanes, window = sch.get_loops("C")
    sch.reorder(window, *lanes)
    sch.decompose_reduction("C", window)
    runs(sch, pool)


def test_a_use_that_is_not_widened() -> None:
    func = parse(pool.script().replace('T.Cast("int32", X[vc, vy * 2 + vp, vb, vl])',
                                       'T.Cast("int32", T.max(X[vc, vy * 2 + vp, vb, vl], T.int8(3)))'))
    with pytest.raises(ScheduleError, match="block C uses X as int8 as well"):
        Schedule(func).cache_cast("C", "X")


def test_a_window_that_is_summed_is_a_sum_of_products(verify_trace_roundtrip: Verify, same: Same) -> None:
    get_target("vta-de10")
    func = parse(pool.script().replace("T.max(C[vc, vy, vb, vl], ", "(C[vc, vy, vb, vl] + "))
    sch = Schedule(func)
    sch.cast_by_gemm("C", 3, "X")
    assert not [b for b in sch.get_child_blocks(sch.get_sblock("root")) if "X" in sch.get(b).name]
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def gated(places: int, channels: int = 32) -> PrimFunc:
    """Channels of a parameter, each times what the program makes of all of its places."""
    x = te.placeholder((places, channels), "int8", name="x")
    p = te.reduce_axis((0, places), name="p")
    total = te.compute((channels,), lambda c: te.sum(x[p, c].astype("int32"), axis=[p]), name="total")
    gate = te.compute((channels,), lambda c: te.max(te.min(total[c] >> 3, 127), -128).astype("int8"), name="gate")
    return te.create_prim_func([x, te.compute(x.shape, lambda i, c: (
        (x[i, c].astype("int32") * gate[c].astype("int32")) >> 7).astype("int8"), name="y")])


@pytest.mark.parametrize(("places", "made"), [(8, True), (7, False), (40, True)])
def test_the_smaller_factor_is_the_diagonal_also_where_the_program_makes_it(places: int, made: bool) -> None:
    """The host's diagonal is a weight to load for every vector. Boundary: eight times as many are more than to make one."""
    func = gated(places)
    for target in ("vta-de10", "vta-de10-portable"):
        steps = [step.op for step in normalise(func, get_target(target))[1]]
        assert steps.count("diagonalize") == 1 and ("diagonal_by_gemm" in steps) == made
        computes(func, target, 2)


def test_a_diagonal_that_is_made_takes_less() -> None:
    """The least of four schedules that are drawn, and what loads of the host's diagonals took alone."""
    places, cycles = 64, []
    space = Space(gated(places), "vta-de10")
    for point in space.sample(np.random.default_rng(0), 4):
        cycles.append(of_schedule(gated(places), get_target("vta-de10"), space.schedule(point)).cycles)
    vectors = places * 2
    assert space.machine_bound() <= min(cycles) < vectors * 32


def test_a_sum_and_its_negative_count_once() -> None:
    """The one may be made of the other: a bound counts the products of one, though the space forms both."""
    rows, window, wide = 9, 4, 480
    x = te.placeholder((rows + window - 1, wide), "int8", name="x")
    k = te.reduce_axis((0, window), name="k")
    s = te.compute((rows, wide), lambda i, j: te.sum(x[i + k, j].astype("int32"), axis=[k]), name="s")
    a = te.compute(s.shape, lambda i, j: (s[i, j] >> 3).astype("int8"), name="a")
    b = te.compute(s.shape, lambda i, j: ((3 - s[i, j]) >> 2).astype("int8"), name="b")
    one, both = (te.create_prim_func([x, *results]) for results in ((a,), (a, b)))
    assert "scale_terms" in [step.op for step in normalise(both, get_target("vta-de10"))[1]]
    products = [Space(func, "vta-de10").machine.terms["products"] for func in (one, both)]
    assert products == [(rows + window - 1) * wide // 16] * 2, "each element once"


@pytest.mark.parametrize("alike", [True, False])
def test_the_host_lays_out_once_what_several_products_read_alike(alike: bool) -> None:
    """Two halves of a sum times one factor by place: one diagonal. Boundary: of two factors there are two."""
    x, m, n = (te.placeholder(shape, "int8", name=name) for shape, name in (((9, 32), "x"), ((6, 32), "m"), ((6, 32), "n")))
    k = te.reduce_axis((0, 4), name="k")
    s = te.compute((6, 32), lambda i, j: te.sum(x[i + k, j].astype("int32"), axis=[k]), name="s")
    a = te.compute(s.shape, lambda *i: (s(*i) >> 2).astype("int8"), name="a")
    b = te.compute(s.shape, lambda *i: te.max(s(*i) >> 3, -3).astype("int8"), name="b")
    y = te.compute(s.shape, lambda *i: ((a(*i).astype("int32") * m(*i).astype("int32") + b(*i).astype("int32") * (
        m if alike else n)(*i).astype("int32")) >> 8).astype("int8"), name="y")
    func = te.create_prim_func([x, m, n, y])
    device = split_host(normalise(func, get_target("vta-de10"))[0]).device
    assert sum("diagonal" in b.name for b in device.buffers) == 2 - alike
    computes(func, "vta-de10", 2)
