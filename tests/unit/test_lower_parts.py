"""Programs whose output is cut into parts, each scheduled by itself: how to make them, and what they become.

The recipe, on a packed convolution ``pad -> conv -> requant -> out``:

1. what concerns all parts: ``fold_epilogue``, scopes, ``compute_inline("pad")``;
2. ``partition_block`` on a loop of the output: ``out_y0``, ``out_y1``, ..;
3. ``recompute_at_consumers``, from the last producer to the first: each part has stages of its own;
4. ``cache_read`` of what parts share (the weights, at the root), before or after; it serves all readers;
5. per part: split, reorder, ``compute_at``, ``decompose_reduction``, ``drop_zero_terms``, own caches, ``tensorize``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from autosched.ir import IRModule, PrimFunc
from autosched.lower import lower_table
from autosched.measure import Candidate, measure
from autosched.schedule import BlockRV, Schedule
from autosched.target import get_target
from autosched.workloads import workload
from sim import isa

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"


@dataclass(frozen=True)
class Tile:
    """How a part is tiled: output blocks, rows and columns of a tile, and input blocks of a load."""

    co: int
    y: int
    x: int
    ci: int


def in_parts(name: str, loop: str, lengths: Sequence[int], tiles: Sequence[Tile], shared: bool, banks: bool = True) -> Schedule:
    """A named convolution in parts along a loop of its output.

    Args:
        name: the workload.
        loop: ``co``, ``y`` or ``x``.
        lengths: iterations of the parts but for the last.
        tiles: one per part.
        shared: load the weights once, at the root; else per part and input blocks.
        banks: whether what is loaded, and the accumulator, have two banks.
    """
    get_target("vta-de10")  # registers the intrinsic
    sch = Schedule(workload(name).func)
    out, requant, conv = (sch.get_block(n) for n in ("out", "requant", "conv"))
    sch.fold_epilogue(requant)
    for block in (conv, requant):
        sch.set_scope(block, 0, ACC)
    padded = "pad" in sch.state.block_names()
    if padded:
        sch.compute_inline("pad")
    outs = sch.partition_block(sch.get_loops(out)[{"co": 1, "y": 2, "x": 3}[loop]], [*lengths, None])
    requants = sch.recompute_at_consumers(requant)
    convs = sch.recompute_at_consumers(conv)
    if shared:
        sch.cache_read(conv, "kernel", WGT)
    for part in zip(outs, requants, convs, tiles):
        one_part(sch, *part, padded, shared, banks)
    # All sums start with the one copy of the bias.
    inits = [b for b in sch.state.block_names() if b.startswith("conv") and b.endswith("_init")]
    sch.cache_read(inits[0], "bias", ACC)
    return sch


def one_part(
    sch: Schedule, out: BlockRV, requant: BlockRV, conv: BlockRV, tile: Tile, padded: bool, shared: bool, banks: bool
) -> None:
    n, co, y, x, nb, cb = sch.get_loops(out)
    (co0, co1), (y0, y1), (x0, x1) = (sch.split(a, [None, b]) for a, b in ((co, tile.co), (y, tile.y), (x, tile.x)))
    sch.reorder(co0, y0, x0, n, co1, y1, x1, nb, cb)
    sch.compute_at(requant, x0, preserve_unit_loops=True)
    sch.compute_at(conv, x0, preserve_unit_loops=True)
    loops = sch.get_loops(conv)[3:]
    ci, ky, kx, cib = loops[6:]
    ci0, ci1 = sch.split(ci, [None, tile.ci])
    sch.reorder(ci0, ky, kx, ci1, *loops[:6], cib)
    init = sch.decompose_reduction(conv, ci0)
    if padded:
        sch.drop_zero_terms(conv)
    inp = sch.cache_read(conv, "data", INP, consumer_blocks=[conv])
    sch.compute_at(inp, ci0, preserve_unit_loops=True)
    loaded = [inp]
    if not shared:
        wgt = sch.cache_read(conv, "kernel", WGT, consumer_blocks=[conv])
        sch.compute_at(wgt, ci0, preserve_unit_loops=True)
        loaded.append(wgt)
    sch.tensorize(loops[4], "vta.gemm.1x16x16")
    if banks:
        for block in (*loaded, init, requant):
            sch.double_buffer(block, 0)


def check(name: str, target: str, sch: Schedule) -> int:
    result = measure(Candidate(name, target, tuple(sch.trace.as_json())), execute=True)
    assert result.status == "ok", result.reason
    assert result.cycles is not None
    return result.cycles


SMALL = "conv2d:h=9,w=10,ci=32,co=48,k=3,pad=1"


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable", "vta-fsim"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("loop", "lengths", "tiles"), [
    ("y", [6], [Tile(2, 3, 5, 1), Tile(3, 1, 10, 2)]),
    ("x", [8], [Tile(3, 2, 4, 2), Tile(1, 9, 2, 1)]),
    ("co", [2], [Tile(1, 4, 10, 1), Tile(1, 3, 5, 2)]),
    ("y", [1, 7], [Tile(3, 1, 10, 1), Tile(2, 3, 7, 1), Tile(1, 1, 3, 2)]),
])
def test_parts_are_scheduled_by_themselves(
    loop: str, lengths: list[int], tiles: list[Tile], shared: bool, target: str, verify_trace_roundtrip: Verify
) -> None:
    sch = in_parts(SMALL, loop, lengths, tiles, shared)
    check(SMALL, target, sch)
    verify_trace_roundtrip(sch, workload(SMALL).func)


def test_a_border_concerns_the_tiles_at_it_alone() -> None:
    # Four tiles of three whole rows, all input and output blocks at once. Of the taps of a row, the outer two run over 7 columns
    # and share an instruction, the middle one over 8. The first and the last tile have a row of taps of two rows as well.
    name = "conv2d:h=12,w=8,ci=32,co=32,k=3,pad=1"
    sch = in_parts(name, "y", [6], [Tile(2, 3, 8, 2), Tile(2, 3, 8, 2)], True)
    check(name, "vta-de10", sch)
    table = lower_table(sch.func, "vta-de10").table
    gemm = table[(table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] == 0)]
    runs = [(int(r[isa.UOP_END] - r[isa.UOP_BGN]) * int(r[isa.ITER_OUT]) * int(r[isa.ITER_IN])) for r in gemm]
    inside = [2 * 2 * 3 * 2 * 3 * 7, 2 * 2 * 3 * 3 * 8]
    border = [2 * 2 * 2 * 2 * 7, 2 * 2 * 2 * 2 * 3 * 7, 2 * 2 * 2 * 8, 2 * 2 * 2 * 3 * 8]
    assert sorted(runs) == sorted(2 * inside + 2 * border)
