"""Programs whose output is cut into parts, each scheduled by itself: how to make them, and what they become.

The recipe, on a packed convolution ``pad -> conv -> requant -> out``:

1. what concerns all parts: ``fold_epilogue``, scopes, ``compute_inline("pad")``;
2. ``partition_block`` on a loop of the output: ``out_y0``, ``out_y1``, ..;
3. ``recompute_at_consumers``, from the last producer to the first: each part has stages of its own;
4. ``cache_read`` of what parts share (the weights), for all readers;
5. per part: split, reorder, ``compute_at``, ``decompose_reduction``, ``drop_zero_terms``, own caches, ``tensorize``;
6. what is shared stays at the root, or goes to a loop of the first part by ``compute_at(.., resident=True)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.lower import lower_table
from autosched.lower.arrange import _packed
from autosched.lower.storage import Storage
from autosched.measure import Candidate, measure
from autosched.schedule import BlockRV, LoopRV, Schedule
from autosched.target import get_target
from autosched.workloads import workload
from autosched.workloads.stage import tensor
from sim import isa

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"


AXES = {"co": 1, "y": 2, "x": 3}
Cut = tuple[int, str, Sequence[int]]


@dataclass(frozen=True)
class Tile:
    """How a part is scheduled.

    Args:
        co: output blocks of a tile.
        y: rows.
        x: columns.
        ci: input blocks of a load.
        order: the loops over tiles, outermost first.
        columns: columns that the epilogue finishes and stores at a time; None: the tile.
        banks: whether what is loaded, and the accumulator, have two banks.
    """

    co: int
    y: int
    x: int
    ci: int
    order: tuple[str, ...] = ("co", "y", "x")
    columns: int | None = None
    banks: bool = True


def in_parts(name: str, cuts: Sequence[Cut], tiles: Sequence[Tile], weights: str) -> Schedule:
    """A named convolution in parts of its output.

    Args:
        name: the workload.
        cuts: which part so far to cut, along which loop, after how many iterations each.
        tiles: one per part.
        weights: ``root`` loads them once, at the start; ``own``, in each part with its input blocks; ``resident``, with the first
            part's input blocks, and the other parts find them.
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
    outs = [out]
    for which, loop, lengths in cuts:
        outs[which:which + 1] = sch.partition_block(sch.get_loops(outs[which])[AXES[loop]], [*lengths, None])
    requants = sch.recompute_at_consumers(requant) if len(outs) > 1 else [requant]
    convs = sch.recompute_at_consumers(conv) if len(outs) > 1 else [conv]
    shared = sch.cache_read(conv, "kernel", WGT) if weights != "own" else None
    made = [one_part(sch, *part, padded, weights == "own") for part in zip(outs, requants, convs, tiles)]
    inits, at = [init for init, _ in made], made[0][1]
    if weights == "resident":
        assert shared is not None
        # Now that the parts follow each other.
        sch.compute_at(shared, at, preserve_unit_loops=True, resident=True if len(outs) > 1 else None)
    # All sums start with the one copy of the bias.
    sch.cache_read(inits[0], "bias", ACC)
    return sch


def one_part(
    sch: Schedule, out: BlockRV, requant: BlockRV, conv: BlockRV, tile: Tile, padded: bool, own: bool
) -> tuple[BlockRV, LoopRV]:
    """Schedules one part; the block that starts its sums, and the loop over its input blocks."""
    n, co, y, x, nb, cb = sch.get_loops(out)
    halves = {a: sch.split(loop, [None, size]) for a, loop, size in (("co", co, tile.co), ("y", y, tile.y), ("x", x, tile.x))}
    outer = [halves[a][0] for a in tile.order]
    sch.reorder(*outer, n, *(halves[a][1] for a in ("co", "y", "x")), nb, cb)
    at = outer[-1]
    if tile.columns is not None:
        slices, rest = sch.split(halves["x"][1], [None, tile.columns])
        sch.reorder(n, halves["co"][1], halves["y"][1], slices, rest)
        sch.compute_at(requant, slices, preserve_unit_loops=True)
    else:
        sch.compute_at(requant, at, preserve_unit_loops=True)
    sch.compute_at(conv, at, preserve_unit_loops=True)
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
    if own:
        wgt = sch.cache_read(conv, "kernel", WGT, consumer_blocks=[conv])
        sch.compute_at(wgt, ci0, preserve_unit_loops=True)
        loaded.append(wgt)
    sch.tensorize(loops[4], "vta.gemm.1x16x16")
    if tile.banks:
        for block in (*loaded, init, requant):
            sch.double_buffer(block, 0)
    return init, ci0


def check(name: str, target: str, sch: Schedule) -> int:
    result = measure(Candidate(name, target, tuple(sch.trace.as_json())), execute=True)
    assert result.status == "ok", result.reason
    assert result.cycles is not None
    return result.cycles


SMALL = "conv2d:h=9,w=10,ci=32,co=48,k=3,pad=1"


WAYS: list[tuple[list[Cut], list[Tile]]] = [
    ([(0, "y", [6])], [Tile(3, 3, 5, 1), Tile(2, 1, 10, 2, ("y", "co", "x"))]),
    ([(0, "x", [8])], [Tile(3, 2, 4, 2, columns=2), Tile(1, 9, 2, 1)]),
    ([(0, "y", [1, 7])], [Tile(3, 1, 10, 1), Tile(2, 3, 7, 1, ("x", "y", "co")), Tile(1, 1, 3, 2)]),
    ([(0, "y", [4]), (1, "co", [2]), (2, "x", [7])],
     [Tile(3, 4, 5, 1), Tile(2, 2, 10, 2), Tile(1, 5, 7, 1), Tile(1, 1, 3, 2, columns=1)]),
]
TARGETS, WEIGHTS = ("vta-de10", "vta-de10-portable", "vta-fsim"), ("root", "own", "resident")


# Every way of the weights in every way to cut, and on every machine; each of them on each is for the long run.
@pytest.mark.parametrize(("way", "weights", "target"), [
    pytest.param(way, weights, target, marks=() if (way + i + j) % 3 == 0 else pytest.mark.slow)
    for way in range(4) for i, weights in enumerate(WEIGHTS) for j, target in enumerate(TARGETS)
])
def test_parts_are_scheduled_by_themselves(way: int, weights: str, target: str, verify_trace_roundtrip: Verify) -> None:
    sch = in_parts(SMALL, *WAYS[way], weights)
    check(SMALL, target, sch)
    verify_trace_roundtrip(sch, workload(SMALL).func)


def test_a_border_concerns_the_tiles_at_it_alone() -> None:
    # Four tiles of three whole rows, all input and output blocks at once. Of the taps of a row, the outer two run over 7 columns
    # and share an instruction, the middle one over 8. In the first and the last tile one of three rows of taps runs over two rows
    # instead of three: the rows are written out there, eight in all.
    name = "conv2d:h=12,w=8,ci=32,co=32,k=3,pad=1"
    sch = in_parts(name, [(0, "y", [6])], [Tile(2, 3, 8, 2), Tile(2, 3, 8, 2)], "root")
    check(name, "vta-de10", sch)
    table = lower_table(sch.func, "vta-de10").table
    gemm = table[(table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] == 0)]
    runs = [(int(r[isa.UOP_END] - r[isa.UOP_BGN]) * int(r[isa.ITER_OUT]) * int(r[isa.ITER_IN])) for r in gemm]
    inside = [2 * 2 * 3 * 2 * 3 * 7, 2 * 2 * 3 * 3 * 8]
    border = [2 * 2 * 2 * 7 * (2 + 3 + 3), 2 * 2 * 8 * (2 + 3 + 3)]
    assert sorted(runs) == sorted(2 * inside + 2 * border)


def test_parts_along_the_output_blocks() -> None:
    # Each part has weights of its own: none is loaded twice, and the second part's follow the first's.
    sch = in_parts(SMALL, [(0, "co", [2])], [Tile(1, 4, 10, 1), Tile(1, 3, 5, 2)], "own")
    check(SMALL, "vta-de10", sch)
    with pytest.raises(ScheduleError, match=r"reads more of kernel_local\.wgt_buffer than"):
        in_parts(SMALL, [(0, "co", [2])], [Tile(1, 4, 10, 1), Tile(1, 3, 5, 2)], "resident")


def test_the_parts_of_a_layer_come_near_a_program_by_hand() -> None:
    # By hand it takes 493 014 cycles: a first tile that loads the weights as it needs them, large ones that find them, and small
    # ones at the end, so that little is left to finish and store when the last product is made.
    tiles = [Tile(4, 4, 56, 1), Tile(4, 4, 56, 2), Tile(4, 3, 56, 2), Tile(3, 1, 56, 4), Tile(1, 1, 56, 4, columns=14)]
    name = "resnet18.c2"
    assert check(name, "vta-de10", in_parts(name, [(0, "y", [4, 48, 3]), (3, "co", [3])], tiles, "resident")) == 493_415


@pytest.mark.parametrize(("sizes", "places"), [
    ([70, 30, 30], [0, 70, 0]),  # the third follows the second, and stays clear of it
    ([70, 70, 30, 30], [30, 0, 70, 0]),  # two that end long before it do not outweigh the one that it follows
    ([60, 60], [40, 0]),  # the second waits for the beginning of the first alone, which is done soonest
])
def test_what_shares_memory_stays_clear_of_what_came_just_before(sizes: list[int], places: list[int]) -> None:
    buffers = [tensor(f"b{k}", [size], "int32") for k, size in enumerate(sizes)]
    stores = [Storage(b, (), (), (size,), 1, size, 1, (), (k, k)) for k, (b, size) in enumerate(zip(buffers, sizes))]
    assert _packed(stores, 100, {id(store): store.life for store in stores}, True, False).high <= 100
    assert [s.address for s in stores] == places
