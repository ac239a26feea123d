"""Bytes moved and micro-ops run by the schedules of VTA's tutorials and of AutoTVM's published winners, in our primitives.

The figures are those that VTA's functional simulator counted for the same schedules in the old stack. They depend on the
schedule alone, so lowering them must move and compute exactly as much; micro-ops may be loaded less often, never more.
"""

from __future__ import annotations

import pytest

from autosched.kernel import Kernel, of_schedule
from autosched.schedule import Schedule
from autosched.workloads import workload
from sim.machine import run

INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
GEMM = "vta.gemm.1x16x16"
TARGETS = ("vta-de10", "vta-fsim")
NAMES = (
    "inp_load_nbytes", "wgt_load_nbytes", "acc_load_nbytes", "uop_load_nbytes", "out_store_nbytes", "gemm_counter", "alu_counter",
)


def counters(kernel: Kernel, seed: int = 0) -> tuple[int, ...]:
    """Runs a kernel, expects the reference's bytes and no finding, and returns the functional simulator's counters."""
    inputs = kernel.workload.inputs(seed)
    wanted = kernel.workload.reference(*inputs)
    named = {b.name: a for b, a in zip(kernel.inputs, inputs)}
    expected = {b.name: wanted for b in kernel.lowered.written}
    ran = run(kernel.lowered.program(named, expected), kernel.target.semantics, check=True)
    assert ran.outputs_match and not ran.races and not ran.diagnostics
    return tuple(ran.counters[name] for name in NAMES)


def expect(found: tuple[int, ...], inp: int, wgt: int, acc: int, uop: int, out: int, gemm: int, alu: int) -> None:
    """All equal but the micro-ops' bytes, which may be fewer."""
    assert found[:3] + found[4:] == (inp, wgt, acc, out, gemm, alu)
    assert 0 < found[3] <= uop


def vector_add() -> Schedule:
    """T1: explicit copies into the accumulator, one addition, no tiling."""
    sch = Schedule(workload("t1").func)
    add = sch.get_block("add")
    sch.cache_read(add, 0, ACC)
    sch.cache_read(add, 1, ACC)
    sch.set_scope(add, 0, ACC)
    return sch


def matrix_multiply() -> Schedule:
    """T2: both operands loaded at the outer reduction loop, one block of both at a time."""
    sch = Schedule(workload("t2").func)
    dense = sch.get_block("dense")
    data, weight = sch.cache_read(dense, 0, INP), sch.cache_read(dense, 1, WGT)
    sch.set_scope(dense, 0, ACC)
    m, n, mb, nb, k, kb = sch.get_loops(dense)
    sch.reorder(k, m, n, mb, nb, kb)
    sch.compute_at(data, k)
    sch.compute_at(weight, k)
    sch.decompose_reduction(dense, k)
    sch.tensorize(mb, GEMM)
    return sch


def blocked_multiply() -> Schedule:
    """T3: output tiles of 16 blocks, the reduction split by 16 blocks, loads at the outer reduction loop."""
    sch = Schedule(workload("t3").func)
    dense, requant, out = (sch.get_block(name) for name in ("dense", "requant", "out"))
    data, weight = sch.cache_read(dense, 0, INP), sch.cache_read(dense, 1, WGT)
    sch.set_scope(dense, 0, ACC)
    sch.set_scope(requant, 0, ACC)
    m, n, *lanes = sch.get_loops(out)
    n0, n1 = sch.split(n, [None, 16])
    sch.reorder(n0, m, n1, *lanes)
    sch.compute_at(requant, n0)
    sch.compute_at(dense, n0, preserve_unit_loops=True)
    m, n, mb, nb, k, kb = sch.get_loops(dense)[1:]
    k0, k1 = sch.split(k, [None, 16])
    sch.reorder(k0, m, n, k1, mb, nb, kb)
    sch.compute_at(data, k0)
    sch.compute_at(weight, k0)
    sch.decompose_reduction(dense, k0)
    sch.tensorize(mb, GEMM)
    return sch


def conv2d(name: str, height: int, width: int, ci: int, co: int, thread: str, rows_first: bool = True) -> Schedule:
    """T4 and AutoTVM's template: tiles in blocks, loads at the outer reduction loop, two virtual threads over ``thread``."""
    sch = Schedule(workload(name).func)
    conv, requant, out = (sch.get_block(block) for block in ("conv", "requant", "out"))
    if any(block.name == "pad" for block in map(sch.get, sch.get_child_blocks(sch.get_block("root")))):
        data = sch.get_block("pad")
        sch.set_scope(data, 0, INP)
    else:
        data = sch.cache_read(conv, 0, INP)
    kernel = sch.cache_read(conv, 1, WGT)
    sch.set_scope(conv, 0, ACC)
    sch.set_scope(requant, 0, ACC)
    n, c, y, x, *lanes = sch.get_loops(out)
    (c0, c1), (y0, y1), (x0, x1) = (sch.split(loop, [None, tile]) for loop, tile in ((c, co), (y, height), (x, width)))
    if thread == "oc":
        c0, vt = sch.split(c0, [None, 2])
    else:
        y0, vt = sch.split(y0, [None, 2])
    sch.reorder(vt, n, *((y0, c0) if rows_first else (c0, y0)), x0, c1, y1, x1, *lanes)
    sch.bind(vt, "cthread")
    sch.compute_at(requant, x0)
    sch.compute_at(conv, x0, preserve_unit_loops=True)
    _, c, y, x, nb, cb, k, ky, kx, kb = sch.get_loops(conv)[-10:]
    k0, k1 = sch.split(k, [None, ci])
    sch.reorder(k0, k1, x, kx, ky, c, y, nb, cb, kb)
    sch.compute_at(data, k0)
    sch.compute_at(kernel, k0)
    sch.decompose_reduction(conv, k0)
    sch.tensorize(nb, GEMM)
    return sch


@pytest.mark.parametrize("target", TARGETS)
def test_the_tutorials_move_what_they_did(target: str) -> None:
    expect(counters(of_schedule(workload("t1"), target, vector_add())), 0, 0, 8192, 4, 1024, 0, 64)
    expect(counters(of_schedule(workload("t2"), target, matrix_multiply())), 256, 65536, 0, 8, 256, 256, 0)
    expect(counters(of_schedule(workload("t3"), target, blocked_multiply())), 4096, 1048576, 0, 20, 1024, 4096, 192)
    # Two halves of the channels times two tiles of rows: 8 of 9 rows of each tile are data, and the kernel comes in twice.
    t4 = of_schedule(workload("t4"), target, conv2d("t4", 7, 14, 1, 8, "oc", rows_first=False))
    expect(counters(t4), 114688, 1179648, 0, 1144, 50176, 451584, 9408)


# Layer (without bias); tile of rows, columns, input and output blocks, threaded axis; bytes of inp, wgt, uop and out,
# micro-ops of GEMM and of ALU.
WINNERS = {
    "c2": ("h=56,w=56,ci=64,co=64,k=3,pad=1", (8, 56, 1, 2, "oc"), (487424, 258048, 472, 200704, 451584, 37632)),
    "c3": ("h=56,w=56,ci=64,co=128,k=3,pad=1,stride=2", (7, 28, 1, 4, "oc"), (422912, 294912, 752, 100352, 225792, 18816)),
    "c4": ("h=56,w=56,ci=64,co=128,k=1,stride=2", (7, 28, 1, 4, "h"), (366080, 32768, 136, 100352, 25088, 18816)),
    "c5": ("h=28,w=28,ci=128,co=128,k=3,pad=1", (14, 28, 1, 2, "h"), (430080, 294912, 808, 100352, 451584, 18816)),
    "c6": ("h=28,w=28,ci=128,co=256,k=3,pad=1,stride=2", (14, 14, 1, 4, "oc"), (401408, 294912, 1480, 50176, 225792, 9408)),
    "c7": ("h=28,w=28,ci=128,co=256,k=1,stride=2", (7, 14, 1, 8, "oc"), (179712, 65536, 136, 50176, 25088, 9408)),
    "c8": ("h=14,w=14,ci=256,co=256,k=3,pad=1", (14, 14, 1, 4, "oc"), (200704, 589824, 1480, 50176, 451584, 9408)),
    "c9": ("h=14,w=14,ci=256,co=512,k=3,pad=1,stride=2", (7, 7, 1, 16, "oc"), (100352, 1179648, 2768, 25088, 225792, 4704)),
    "c10": ("h=14,w=14,ci=256,co=512,k=1,stride=2", (7, 7, 1, 16, "oc"), (86528, 131072, 136, 25088, 25088, 4704)),
    "c11": ("h=7,w=7,ci=512,co=512,k=3,pad=1", (7, 7, 1, 16, "oc"), (50176, 2359296, 2768, 25088, 451584, 4704)),
}


@pytest.mark.parametrize("layer", WINNERS)
def test_the_published_winners_move_what_they_did(layer: str) -> None:
    shape, tile, (inp, wgt, uop, out, gemm, alu) = WINNERS[layer]
    name = f"conv2d:{shape},bias=0"
    kernel = of_schedule(workload(name), "vta-de10", conv2d(name, *tile))
    expect(counters(kernel), inp, wgt, 0, uop, out, gemm, alu)


def test_smaller_tiles_move_more_and_padding_nothing() -> None:
    """Counters tell schedules apart: two tiles of rows load their common rows twice."""
    name = "conv2d:h=14,w=14,ci=32,co=32,k=3,pad=1,bias=0"
    whole = counters(of_schedule(workload(name), "vta-de10", conv2d(name, 14, 14, 2, 1, "oc")))
    tiled = counters(of_schedule(workload(name), "vta-de10", conv2d(name, 7, 14, 2, 1, "oc")))
    assert whole[0] == 2 * 2 * 14 * 14 * 16  # both halves of the channels load all of the data, and no padding
    assert tiled[0] == 2 * 2 * (8 + 8) * 14 * 16
    assert whole[5] == tiled[5] == 2 * 2 * 14 * 14 * 9
