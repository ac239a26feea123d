"""Stages that the host unpacks, cut into parts: by partition_block, and by the points of spaces of programs in plain layouts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from decided import within_bounds
from refusals import refused

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir import PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.kit.base import BlockRV
from autosched.script import parse
from space import Space
from space.normalise.blocks import device_blocks

Same = Callable[..., None]


def program(host: str = 'T.sblock_attr({"host_stage": "unpack"})') -> PrimFunc:
    """A stage that another one, on the host or not, reads."""
    return parse(f'''
@T.prim_func
def main(A: T.Buffer((16, 16), "int8"), D: T.Buffer((256,), "int8")):
    B = T.sblock_alloc_buffer((16, 16), "int32")
    C = T.sblock_alloc_buffer((16, 16), "int8")
    for i, j in T.grid(16, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.Cast("int32", A[vi, vj]) + 3
    for i, j in T.grid(16, 16):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.Cast("int8", B[vi, vj])
    for i in T.serial(256):
        with T.sblock("D"):
            vi = T.axis.spatial(256, i)
            {host}
            D[vi] = C[vi // 16, vi % 16]
''')


def parts(sch: Schedule) -> list[BlockRV]:
    """Cut at row 5, and what is behind at column 7."""
    first, rest = sch.partition_block(sch.get_loops("C")[0], [5, None])
    return [first, *sch.partition_block(sch.get_loops(rest)[1], [7, None])]


def test_what_the_host_unpacks_is_cut(verify_trace_roundtrip: Callable[..., Schedule], same: Same) -> None:
    sch = Schedule(program())
    blocks = parts(sch)
    made = sch.recompute_at_consumers("B")
    sch.compute_at(made[0], sch.get_loops(blocks[0])[0])
    outer, _ = sch.split(sch.get_loops(blocks[2])[1], [None, 4])  # tiles of 4 columns over the last 9
    sch.compute_at(made[2], outer)
    same(program(), sch, 0)
    verify_trace_roundtrip(sch, program())


def test_what_the_program_itself_reads_is_not_cut() -> None:
    sch = Schedule(program(host=""))
    with refused(ScheduleError, "reader"):
        sch.partition_block(sch.get_loops("C")[0], [5, None])


def test_no_part_is_taken_for_the_whole(same: Same) -> None:
    """Each primitive leaves the program what it was, or refuses a block that others write with."""
    for n in range(3):
        for change in (
            lambda sch, block: sch.recompute_at_consumers(block), lambda sch, block: sch.compute_inline(block),
            lambda sch, block: sch.cache_write(block, 0, "local.acc_buffer"), lambda sch, block: sch.recompute_at_reads(block),
            lambda sch, block: sch.compute_at(block, sch.get_loops("D")[0]), lambda sch, _: sch.reverse_compute_inline("D"),
            lambda sch, block: sch.reverse_compute_at("D", sch.get_loops(block)[0]),
            lambda sch, block: sch.pad_block(block, [16, 16]), lambda sch, _: sch.cache_read("D", 0, "global"),
        ):
            sch = Schedule(program())
            with pytest.raises(ScheduleError):
                change(sch, parts(sch)[n])
        for change in (
            lambda sch, block: sch.transform_layout(block, ("write", 0), lambda i, j: (j, i)),
            lambda sch, block: sch.reindex(block, ("write", 0)), lambda sch, block: sch.decompose_value(block, [0]),
            lambda sch, block: sch.partition_block(sch.get_loops(block)[1], [3, None]),
        ):
            sch = Schedule(program())
            change(sch, parts(sch)[n])
            same(program(), sch, 1)


def dense(m: int, n: int, k: int) -> PrimFunc:
    """A product in plain layout."""
    a, w = te.placeholder((m, k), "int8", name="a"), te.placeholder((n, k), "int8", name="w")
    r = te.reduce_axis((0, k), name="r")
    s = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype("int32") * w[j, r].astype("int32"), axis=r), name="s")
    return te.create_prim_func([a, w, te.compute(
        (m, n), lambda i, j: te.min(te.max(s[i, j] >> 6, -128), 127).astype("int8"), name="out")])


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable", "vta-fsim"])
def test_points_cut_what_the_host_unpacks(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("space.sketch.CUT", 0)
    func = dense(22, 75, 40)
    space = Space(func, target)
    assert {"head", "cut", "cut_again", "tail_last"} <= {*space.names}
    points = space.sample(np.random.default_rng(3), 150)
    cut = points[(points[:, [space.names.index(n) for n in ("head", "cut", "cut_again")]] > 0).sum(axis=1) > 1]
    within_bounds(space, func, cut, 12)


@pytest.mark.parametrize(("rows", "cut"), [(512, True), (511, False)])
def test_little_work_is_not_cut(rows: int, cut: bool) -> None:
    """From 8192 micro-ops on: 512 rows by 4 blocks by 4."""
    assert ("cut" in Space(dense(rows, 64, 64), "vta-de10").names) is cut


def pair(m: int, n: int, k: int) -> PrimFunc:
    """Two results of one product, of which the second one has an addend."""
    a, w = te.placeholder((m, k), "int8", name="a"), te.placeholder((n, k), "int8", name="w")
    b, r = te.placeholder((n,), "int32", name="b"), te.reduce_axis((0, k), name="r")
    s = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype("int32") * w[j, r].astype("int32"), axis=r), name="s")
    return te.create_prim_func([
        a, w, b, te.compute((m, n), lambda i, j: te.min(te.max(s[i, j] >> 6, -128), 127).astype("int8"), name="out"),
        te.compute((m, n), lambda i, j: te.max(te.min((s[i, j] + b[j]) >> 4, 99), 0).astype("int8"), name="more")])


@pytest.mark.parametrize("target", ["vta-de10", pytest.param("vta-de10-portable", marks=pytest.mark.slow)])
def test_points_cut_several_results_of_one_sum_alike(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("space.sketch.CUT", 0)
    func = pair(22, 75, 40)
    space = Space(func, target)
    assert len(space.sketches[0].models) == 1 and space.sketches[0].model.nest.also
    points = space.sample(np.random.default_rng(4), 150)
    cut = points[(points[:, [space.names.index(n) for n in ("head", "cut", "cut_again")]] > 0).sum(axis=1) > 1]
    within_bounds(space, func, cut, 12)


def crossing(rows: int, read: str = "A[vi, vj]") -> PrimFunc:
    """Two nests with one between them, which stores the rows from ``rows`` on of what the first one does the first 8 of."""
    return parse(f'''
@T.prim_func
def main(A: T.Buffer((16, 16), "int8"), C: T.Buffer((16, 16), "int8"), D: T.Buffer((8, 16), "int8")):
    for i, j in T.grid(8, 16):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
    for i, j in T.grid({16 - rows}, 16):
        with T.sblock("E"):
            vi = T.axis.spatial(({rows}, 16), i + {rows})
            vj = T.axis.spatial(16, j)
            C[vi, vj] = T.int8(0)
    for i, j in T.grid(8, 16):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = {read}
''')


@pytest.mark.parametrize(("rows", "order"), [(8, "ECD"), (7, "CDE")])  # boundary: a row that both store
def test_loops_merge_over_what_stores_elsewhere(rows: int, order: str, same: Same) -> None:
    sch = Schedule(crossing(rows))
    sch.merge([sch.get_loops("C")[0], sch.get_loops("D")[0]])
    assert [b.name for b in device_blocks(sch.func)] == list(order)
    same(crossing(rows), sch, 0)


def test_loops_do_not_merge_over_what_the_later_one_reads() -> None:
    sch = Schedule(crossing(7, "C[vi + 8, vj]"))
    with refused(ScheduleError, "place"):
        sch.merge([sch.get_loops("C")[0], sch.get_loops("D")[0]])


@pytest.mark.parametrize("order", ["CDF", "FCD", "DCF"])
def test_loops_given_in_another_order_do_not_merge_over_what_reads_one(order: str, same: Same) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), E: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32"),
         F: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] + 1
    for i in range(8):
        with T.sblock("E"):
            vi = T.axis.spatial(8, i)
            E[vi] = C[vi] * 2
    for i in range(8):
        with T.sblock("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi] + 3
    for i in range(8):
        with T.sblock("F"):
            vi = T.axis.spatial(8, i)
            F[vi] = A[vi] + 4
""")
    sch = Schedule(func)
    loops = [sch.get_loops(name)[0] for name in order]
    if order == "CDF":
        sch.merge(loops)
        same(func, sch, 0)
        return
    with refused(ScheduleError, "place"):
        sch.merge(loops)
