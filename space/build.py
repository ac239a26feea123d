"""From a point to a trace: the primitives that make its schedule, written down without applying them.

The skeleton follows the plan: tile the output, move the stages and the sum into its loops, tile the sum, move the loads in,
tensorize. Rules add theirs before, between and after. A point of several parts does so for every part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.ir.index_map import IndexMap
from autosched.ir.scopes import ACC
from autosched.schedule.kit.base import RV, BlockRV, LoopRV
from autosched.schedule.kit.trace import Instruction, Trace
from autosched.target import Target
from space import borders
from space.apart import apart, late, needs_all
from space.model import Model
from space.plan import Part, Plan
from space.sites import LANES


class Recorder:
    """Writes instructions; it knows how many handles each gives because the rules know the loops."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def record(self, op: str, outputs: tuple[RV, ...], **args: Any) -> None:
        """One primitive."""
        self.trace.append(Instruction(op, args, outputs))

    def block(self, name: str) -> BlockRV:
        """A block by name."""
        rv = BlockRV()
        self.record("get_sblock", (rv,), name=name, func_name=None)
        return rv

    def loops(self, block: BlockRV, count: int) -> list[LoopRV]:
        """All loops around a block."""
        rvs = [LoopRV() for _ in range(count)]
        self.record("get_loops", tuple(rvs), block=block)
        return rvs

    def split(self, loop: LoopRV, inner: int) -> tuple[LoopRV, LoopRV]:
        """Outer and inner loop."""
        rvs = (LoopRV(), LoopRV())
        self.record("split", rvs, loop=loop, factors=[None, inner], preserve_unit_iters=True, disable_predication=False)
        return rvs

    def add_unit_loop(self, loop: LoopRV) -> LoopRV:
        """A loop of one iteration around a loop."""
        rv = LoopRV()
        self.record("add_unit_loop", (rv,), block_or_loop=loop)
        return rv

    def merge(self, loops: list[LoopRV]) -> LoopRV:
        """One loop for the bodies of several, the loops around them included."""
        rv = LoopRV()
        self.record("merge", (rv,), loops=loops)
        return rv

    def reorder(self, loops: list[LoopRV]) -> None:
        """Loops in this order."""
        self.record("reorder", (), ordered_loops=loops)

    def set_scope(self, block: BlockRV, scope: str) -> None:
        """The memory of a block's output."""
        self.record("set_scope", (), block=block, buffer_index=0, storage_scope=scope)

    def compute_inline(self, block: BlockRV) -> None:
        """A block's formula in its readers."""
        self.record("compute_inline", (), block=block)

    def cache_read(self, block: BlockRV, index: int | str, scope: str, consumers: list[BlockRV] | None = None) -> BlockRV:
        """A copy of what a block reads."""
        rv = BlockRV()
        self.record("cache_read", (rv,), block=block, read_buffer_index=index, storage_scope=scope, consumer_blocks=consumers)
        return rv

    def compute_at(self, block: BlockRV, loop: LoopRV, resident: bool = False) -> None:
        """A block inside a loop; where it is resident, later consumers find there what it left."""
        self.record("compute_at", (), block=block, loop=loop, preserve_unit_loops=True, index=-1, resident=resident or None)

    def decompose_reduction(self, block: BlockRV, loop: LoopRV) -> BlockRV:
        """The initial value as a block of its own."""
        rv = BlockRV()
        self.record("decompose_reduction", (rv,), block=block, loop=loop)
        return rv

    def tensorize(self, loop: LoopRV, intrin: str) -> None:
        """An intrinsic in place of a nest."""
        self.record("tensorize", (), block_or_loop=loop, tensor_intrin=intrin, preserve_unit_iters=True)

    def double_buffer(self, block: BlockRV, banks: int) -> None:
        """Two banks for a block's output, or more."""
        self.record("double_buffer", (), block=block, buffer_index=0)
        if banks > 2:
            self.annotate(block, "vta.banks", banks)

    def annotate(self, block: BlockRV, key: str, value: int) -> None:
        """What lowering is told of a block."""
        self.record("annotate", (), block_or_loop=block, ann_key=key, ann_val=value)


@dataclass
class Piece:
    """One part of the output in the making.

    Args:
        part: its box and tiles.
        out: the block that stores it.
        stages: the blocks between the sum and the store.
        anchor: the sum, or None.
        pads: per operand that a block pads, that block.
        init: the sum's initial value, once it is separate.
        lane: the intrinsic's outermost loop.
        starts: by stage that adds products, what it adds them to, once that is separate.
        links: the intrinsic's outermost loops of these stages, and of what is widened.
        wides: the blocks that widen what the sum reads.
        halos: the blocks that make what stages read at several places.
        begins: by each of these that sums products, what its sum starts with, once that is separate.
        outer: the outer loop of every tiled axis.
        loops: the outer loops of the output, outermost first.
        copies: per operand, the block that loads it for this part; None where it is loaded once for all.
        bare: whether its only outer loop is one of a single iteration.
        around: a loop of a single iteration around the others, where something is loaded once for all of them.
        starting: how many loops the sum's initial value has where it stands in front of all of the part's; else 0.
        front: a loop of a single iteration around these, where what it is made of is loaded.
        also: further blocks that store.
        turns: the loop over the strips in which a halo's data come.
    """

    part: Part
    out: BlockRV
    stages: list[BlockRV]
    anchor: BlockRV | None
    pads: dict[int, BlockRV]
    init: BlockRV | None = None
    lane: LoopRV | None = None
    starts: dict[int, BlockRV] = field(default_factory=dict)
    links: list[LoopRV] = field(default_factory=list)
    wides: dict[str, BlockRV] = field(default_factory=dict)
    halos: dict[str, BlockRV] = field(default_factory=dict)
    begins: dict[str, BlockRV] = field(default_factory=dict)
    outer: dict[int, LoopRV] = field(default_factory=dict)
    loops: list[LoopRV] = field(default_factory=list)
    copies: list[BlockRV | None] = field(default_factory=list)
    bare: bool = False
    around: LoopRV | None = None
    starting: int = 0
    front: LoopRV | None = None
    also: list[BlockRV] = field(default_factory=list)
    turns: LoopRV | None = None


class Build(Recorder):
    """The trace of one nest of a point in the making; rules see it in ``before``, ``nested`` and ``after``.

    Args:
        model: of the nest.
        target: names the intrinsic.
        point: the nest's columns of one row of the sketch.
        plan: what they mean.
        trace: what brings the program into the sketch's form, and the nests before this one.
    """

    def __init__(self, model: Model, target: Target, point: npt.NDArray[np.int32], plan: Plan, trace: Trace) -> None:
        super().__init__(trace)
        self.target = target
        self.model = model
        self.nest = model.nest
        self.point = point
        self.plan = plan
        self.padded: set[int] = set()
        self.shared: dict[int, BlockRV] = {}
        self.pieces: list[Piece] = []
        self.piece: Piece
        self.sides: dict[str, BlockRV] = {}

    def emit(self) -> Trace:
        """All primitives of the nest."""
        nest = self.nest
        for rule in self.model.rules:
            rule.before(self)
        out, also = self.block(nest.out), [self.block(name) for name in nest.also]
        stages = [self.block(s.block) for s in nest.stages]
        anchor = self.block(nest.anchor) if nest.anchor else None
        for block in ([anchor] if anchor else []) + stages:
            self.set_scope(block, ACC)
        self.sides = {name: self.block(name) for name in nest.sides}
        for block in self.sides.values():
            self.set_scope(block, ACC)
        wides = {w.block: self.block(w.block) for w in nest.wides}
        halos = {s.block: self.block(s.block) for halo in nest.halos for s in halo.stages}
        for block in (*wides.values(), *halos.values()):
            self.set_scope(block, ACC)
        pads = {k: self.block(o.producer) for k, o in enumerate(nest.operands) if o.producer is not None}
        for k, pad in pads.items():
            if k not in self.padded:
                self.set_scope(pad, nest.operands[k].scope)
        for rule in self.model.rules:
            rule.scoped(self, anchor, pads)
        self._cut(Piece(self.plan.body, out, stages, anchor, pads, wides=wides, halos=halos, also=also))
        for piece in self.pieces:
            self.piece = piece
            self._nest_part()
            for rule in self.model.rules:
                rule.nested(self)
        self._load()
        for piece in self.pieces:
            self.piece = piece
            for lane in (*([] if piece.lane is None else [piece.lane]), *piece.links):
                self.tensorize(lane, self.target.gemm_intrin)
            for rule in self.model.rules:
                rule.after(self)
        return self.trace

    # -- parts --------------------------------------------------------------------------------------------------------

    def _cut(self, whole: Piece) -> None:
        """A piece for every part: the output's block cut along one axis after the other, with stages of its own each."""
        parts = [p for p in self.plan.parts if p.on[0]]
        self.pieces = [whole]
        if len(parts) == 1:
            whole.part = parts[0]
            return
        box = [(0, int(e)) for e in self.model.extents]
        outs = self._partition(whole.out, parts, box)
        also = [self._partition(block, parts, box) for block in whole.also]
        made = {self.nest.out: outs, **dict(zip(self.nest.also, also))}
        for stage, block in zip(reversed(self.nest.stages), reversed(whole.stages)):
            made[stage.block] = self._for_parts(stage.block, block, made, len(parts))
        columns = [made[stage.block] for stage in self.nest.stages]
        anchors: list[BlockRV | None] = [None] * len(parts)
        if whole.anchor is not None and self.nest.anchor is not None:
            anchors = [*self._for_parts(self.nest.anchor, whole.anchor, made, len(parts))]
        widened = {name: self.recompute(block, len(parts)) for name, block in whole.wides.items()}
        apart = {name: self.recompute(block, len(parts)) for name, block in reversed(whole.halos.items())}
        own = {k for k in whole.pads if k not in self.padded and not self.model.shared(self.plan, k)[0]}
        alone = {k for k in own if not self.nest.operands[k].also}
        pads = {k: self.recompute(pad, len(parts)) if k in alone else [pad] * len(parts) for k, pad in whole.pads.items()}
        self.pieces = [
            Piece(part, outs[n], [column[n] for column in columns], anchors[n], {k: rows[n] for k, rows in pads.items()},
                  wides={name: rows[n] for name, rows in widened.items()}, halos={name: rows[n] for name, rows in apart.items()},
                  also=[rows[n] for rows in also])
            for n, part in enumerate(parts)
        ]
        for k in sorted(own - alone):
            for piece in self.pieces[1:]:
                piece.pads[k] = self.recompute(whole.pads[k], 2, self._readers(k, piece))[1]

    def _for_parts(self, name: str, block: BlockRV, made: dict[str, list[BlockRV]], count: int) -> list[BlockRV]:
        """A copy of a block of the chain for every part; ``made`` has those of the blocks that read it."""
        readers = dict(self.nest.forks).get(name)
        if readers is None:
            return self.recompute(block, count)
        return [block, *(self.recompute(block, 2, [made[reader][n] for reader in readers])[1] for n in range(1, count))]

    def _partition(self, block: BlockRV, parts: list[Part], box: list[tuple[int, int]]) -> list[BlockRV]:
        """Blocks for parts that tile a box, in order: cut off the first, or all but the last, until each stands alone."""
        if len(parts) == 1:
            return [block]
        spans = [[(int(p.lows[0, a]), int(p.lows[0, a] + p.extents[0, a])) for a in range(self.model.n_spatial)] for p in parts]
        for a in range(self.model.n_spatial):
            for n in range(1, len(parts)):
                at = spans[n][a][0]
                if at > box[a][0] and all(s[a][1] <= at for s in spans[:n]) and all(s[a][0] >= at for s in spans[n:]):
                    loops = self.loops(block, self.nest.out_loops)
                    halves = self.partition(loops[self.nest.axes[a].out_index], at - box[a][0], 2)
                    before, behind = list(box), list(box)
                    before[a], behind[a] = (box[a][0], at), (at, box[a][1])
                    return [*self._partition(halves[0], parts[:n], before), *self._partition(halves[1], parts[n:], behind)]
        raise AssertionError("parts do not tile the output")

    def partition(self, loop: LoopRV, first: int, count: int) -> list[BlockRV]:
        """A block cut into two after so many iterations of a loop."""
        rvs = [BlockRV() for _ in range(count)]
        self.record("partition_block", tuple(rvs), loop=loop, factors=[first, None])
        return rvs

    def recompute(self, block: BlockRV, count: int, consumers: list[BlockRV] | None = None) -> list[BlockRV]:
        """A copy of a block for each of its consumers, or one for some of them together."""
        rvs = [BlockRV() for _ in range(count)]
        self.record("recompute_at_consumers", tuple(rvs), block=block, consumer_blocks=consumers)
        return rvs

    # -- one part -----------------------------------------------------------------------------------------------------

    def _nest_part(self) -> None:
        piece, plan = self.piece, self.plan
        order = [int(a) for a in np.argsort(plan.position[0], kind="stable") if a < self.model.n_spatial]
        tile = [int(x) for x in piece.part.tiles[0]]
        extent = [int(x) for x in piece.part.extents[0]]
        whole = [int(x) for x in self.model.out_tiles(plan, piece.part)[0]]
        piece.outer, piece.loops, slices = self._tile_outputs(whole, extent, order)
        at = piece.loops[-1] if piece.loops else None
        for block in reversed(piece.stages):
            loop = slices or at
            if loop is not None:
                self.compute_at(block, loop)
        if piece.anchor is not None:
            if at is not None:
                self.compute_at(piece.anchor, at)
            around = [*whole, *extent[len(whole) :]]
            piece.init, lane = self._tile_anchor(piece.anchor, tile, around, len(piece.loops), piece.outer)
            piece.lane = lane if self.nest.tensorized else None
            if self.nest.guarded:
                self.record("drop_neutral_terms", (), block=piece.anchor)
        self._widen()
        self._surround(at)
        depth = len(piece.loops) + (slices is not None)
        for n, stage in enumerate(self.nest.stages):
            if stage.products:
                piece.starts[n] = self._product(piece.stages[n], depth, stage.iters, stage.lanes, stage.sums)

    def _widen(self) -> None:
        """What the sum reads is widened for every visit of its innermost loops."""
        piece = self.piece
        around = [*piece.loops, *(piece.outer[a] for a in self.nest.reduce if a in piece.outer)]
        for wide in self.nest.wides:
            if around:
                self.compute_at(piece.wides[wide.block], around[-1])
            self._product(piece.wides[wide.block], len(around), wide.iters, wide.lanes)

    def _surround(self, at: LoopRV | None) -> None:
        """What stages read at several places is made for every tile, what that begins with ahead of it."""
        stages = [stage for halo in self.nest.halos for stage in halo.stages]
        if at is not None:
            for stage in reversed(stages):
                self.compute_at(self.piece.halos[stage.block], at)
        model, part = self.model, self.piece.part
        several = int(borders.strips(model, self.plan, part)[0]) > 1
        for stage in stages:
            if stage.products:
                block, depth = self.piece.halos[stage.block], len(self.piece.loops)
                cut = None
                if several and model.cut is not None and stage.block == model.cut.block:
                    cut = model.cut.iterator, int(borders.thick(model, self.plan, part)[0])
                self.piece.begins[stage.block] = self._product(block, depth, stage.iters, stage.lanes, stage.sums, cut)

    def _product(
        self, block: BlockRV, depth: int, iters: int, lanes: tuple[int, ...], sums: tuple[int, ...] = (),
        cut: tuple[int, int] | None = None,
    ) -> BlockRV:
        """Makes a product that no tile cuts: returns the block of its initial value, and keeps the loop of the intrinsic.

        Where one of its loops is cut (which, and into strips of how many iterations), keeps the loop over the strips, too.
        """
        own = self.loops(block, depth + iters)[depth:]
        around = [*sums, *(k for k in range(iters) if k not in (*lanes, *sums))]
        if sums:
            self.reorder([own[k] for k in (*around, *lanes)])
        start = self.decompose_reduction(block, own[(around or lanes)[0]])
        if cut is not None:
            self.piece.turns, own[cut[0]] = self.split(own[cut[0]], cut[1])
            self.reorder([self.piece.turns, *(own[k] for k in (*around, *lanes))])
        self.piece.links.append(own[lanes[0]])
        return start

    # -- loads --------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """What all parts share is loaded once, before them; the rest in its place in every part."""
        nest, plan = self.nest, self.plan
        behind = late(self.model) if self.pieces[0].bare else ()
        for piece in self.pieces:
            piece.copies = [None] * len(nest.operands)
        alone = len(self.pieces) == 1
        for k in range(len(nest.operands)):
            depth = int(plan.attach[k][0])
            if plan.keep[k][0]:
                piece = self.pieces[0]
                self.shared[k] = self._loading(k, piece, None)
                self._lay_out(k, self.shared[k])
                loop = self._innermost(piece, depth)
                if loop is not None:
                    self.compute_at(self.shared[k], loop, resident=True)
                continue
            if not depth and not (k in behind and (alone or apart(self.model, plan, k)[0])):
                first = self._cropped(k, self._loading(k, self.pieces[0], None))
                if alone:
                    self.pieces[0].copies[k] = first
                elif k in behind and k not in self.pieces[0].pads and needs_all(self.model, plan, k)[0]:
                    # For all parts, but behind what the first one's products wait for.
                    self.compute_at(first, self.pieces[0].loops[0], resident=True)
                self.shared[k] = first
                continue
            for piece in self.pieces:
                copy = self._loading(k, piece, None if alone else self._readers(k, piece))
                piece.copies[k] = copy
                if piece.starting and k in self.model.starting:
                    loop = self._in_front(piece)
                else:
                    loop = self._innermost(piece, int(self.model.depth(plan, piece.part, k)[0])) or self._around(piece)
                if piece.turns is not None and self.model.cut is not None and k == self.model.cut.operand:
                    loop = piece.turns
                if loop is not None:
                    self.compute_at(copy, loop)

    def _cropped(self, operand: int, copy: BlockRV) -> BlockRV:
        """The block that loads no more than what is read of an operand, where that is known of it (``Operand.cropped``)."""
        op = self.nest.operands[operand]
        for dim, (low, (_, size), source) in enumerate(zip(op.first, op.dims, op.source)) if op.further else ():
            lengths = [n for n in (low, size, source - low - size) if n]
            if len(lengths) > 1:
                parts = [BlockRV() for _ in lengths]
                self.record("partition_buffer", tuple(parts), block=copy, dim=dim, factors=lengths)
                copy = parts.pop(int(low > 0))
                for part in parts:
                    self.compute_inline(part)
        return copy

    def _innermost(self, piece: Piece, depth: int) -> LoopRV | None:
        """The innermost loop that a part has among the first ``depth`` of the plan's, or None."""
        around = np.argsort(self.plan.position[0], kind="stable")[:depth]
        return next((piece.outer[int(a)] for a in around[::-1] if int(a) in piece.outer), None)

    def _around(self, piece: Piece) -> LoopRV | None:
        """Where a load stands that has none of a part's loops around it: in one around all of them, or None for the root."""
        if not piece.loops:
            return None
        if piece.bare:
            return piece.loops[0]
        if piece.around is None:
            piece.around = self.add_unit_loop(piece.loops[0])
        return piece.around

    def _in_front(self, piece: Piece) -> LoopRV:
        """Where a part loads what initial values are made of that stand in front of all its loops: around these values alone."""
        if piece.front is None:
            assert piece.init is not None
            piece.front = self.add_unit_loop(self.loops(piece.init, piece.starting)[0])
        return piece.front

    def _lay_out(self, operand: int, copy: BlockRV) -> None:
        """Pieces of what stays lie one after another."""
        order = self.model.kept_order(self.plan, operand)
        if order == sorted(order):
            return

        def turned(*indices: Any) -> list[Any]:
            return [*(indices[d] for d in order), *indices[len(order) :]]

        mapping = IndexMap.from_func(turned, len(order) + LANES)
        self.record("transform_layout", (), block=copy, buffer=("write", 0), index_map=mapping, pad_value=None,
                    assume_injective_transform=False)
        self.record("transform_block_layout", (), block=copy, index_map=mapping)

    def _readers(self, operand: int, piece: Piece) -> list[BlockRV]:
        """The blocks of a part that read an operand."""
        return [self._reader(operand, piece, name) for name in self.nest.operands[operand].readers]

    def _reader(self, operand: int, piece: Piece, name: str) -> BlockRV:
        op = self.nest.operands[operand]
        if name in self.sides:
            return self.sides[name]
        if name in piece.wides:
            return piece.wides[name]
        if name in piece.halos:
            return piece.begins[name] if op.scope == ACC and name in piece.begins else piece.halos[name]
        if name == self.nest.anchor:
            block = piece.init if self.nest.begins_with(op) and piece.init is not None else piece.anchor
            assert block is not None
            return block
        at = next(n for n, s in enumerate(self.nest.stages) if s.block == name)
        return piece.starts.get(at, piece.stages[at]) if op.scope == ACC else piece.stages[at]

    def _loading(self, operand: int, piece: Piece, only: list[BlockRV] | None) -> BlockRV:
        """The block that loads an operand, for all of the nest that read it or for some readers only."""
        op = self.nest.operands[operand]
        if operand in piece.pads and operand not in self.padded:
            return piece.pads[operand]
        consumers = only
        if only is None and (self.model.nests > 1 or any(o.twin and o.name == op.name for o in self.nest.operands)):
            # What reads it elsewhere has a copy of its own.
            consumers = list(dict.fromkeys(block for p in self.pieces for block in self._readers(operand, p)))
        return self.cache_read(self._readers(operand, piece)[0], op.name, op.scope, consumers)

    # -- tiles --------------------------------------------------------------------------------------------------------

    def _tile_outputs(
        self, tile: list[int], extent: list[int], order: list[int]
    ) -> tuple[dict[int, LoopRV], list[LoopRV], LoopRV | None]:
        """Splits and orders the loops of all that a part stores, and lets them share the outer ones.

        Returns the outer loop of every tiled axis, the outer loops from the first one on, and the slice loop.
        """
        piece = self.piece
        outs = [*piece.also, piece.out]
        nests = [self._tile_output(block, tile, extent, order) for block in outs]
        # A place for what belongs to this part alone, or behind the GEMM for what only the later stages read: loaded
        # first, it would hold up the compute engine and share the bus with the data that everything waits for. Or for sums that
        # stand ahead of another nest: made there, they would be in the accumulator together with all that this one makes.
        piece.bare = not nests[-1][0] and (len(self.pieces) > 1 or bool(late(self.model)) or self.model.early)
        tiled = [a for a in order if a in nests[-1][0]]
        heads = [self.add_unit_loop(loops[0]) for _, loops, _ in nests] if piece.bare else []
        outer, loops, slices = nests[-1]
        shared = len(tiled) + (slices is not None)
        if len(outs) > 1 and (piece.bare or shared):
            self.merge([loops[shared - 1] for _, loops, _ in nests] if shared else heads)
            loops = self.loops(piece.out, len(loops) + piece.bare)
            heads, loops = loops[: int(piece.bare)], loops[int(piece.bare) :]
            outer = {a: loops[n] for n, a in enumerate(tiled)}
            slices = None if slices is None else loops[len(tiled)]
        return outer, [outer[a] for a in tiled] or heads, slices

    def _tile_output(
        self, block: BlockRV, tile: list[int], extent: list[int], order: list[int]
    ) -> tuple[dict[int, LoopRV], list[LoopRV], LoopRV | None]:
        """Splits and orders a block's loops; returns the outer loop of every tiled axis, all of them in order, the slice loop."""
        nest = self.nest
        loops = self.loops(block, nest.out_loops)
        outer, inner = self._split({a: loops[nest.axes[a].out_index] for a in nest.spatial}, tile, extent)
        lanes = [loop for n, loop in enumerate(loops) if n not in {nest.axes[a].out_index for a in nest.spatial}]
        tail, thick = int(self.piece.part.slices[0]) - 1, int(self.piece.part.thick[0])
        slices = [inner.pop(tail)] if tail >= 0 else []
        if slices and thick > 1:
            slices[0], inner[tail] = self.split(slices[0], thick)
        rest = [inner[a] for a in nest.spatial if a in inner]
        sequence = [*(outer[a] for a in order if a in outer), *slices, *rest, *lanes]
        self.reorder(sequence)
        return outer, sequence, slices[0] if slices else None

    def _split(
        self, loops: dict[int, LoopRV], tile: list[int], extent: list[int]
    ) -> tuple[dict[int, LoopRV], dict[int, LoopRV]]:
        """The loops over tiles of some axes' loops, and those inside of tiles, by axis: only those that there are."""
        outer: dict[int, LoopRV] = {}
        inner: dict[int, LoopRV] = {}
        for a, loop in loops.items():
            if tile[a] == extent[a]:
                inner[a] = loop
            elif tile[a] == 1:
                outer[a] = loop
            else:
                outer[a], inner[a] = self.split(loop, tile[a])
        return outer, inner

    def _tile_anchor(
        self, anchor: BlockRV, tile: list[int], extent: list[int], depth: int, outer: dict[int, LoopRV]
    ) -> tuple[BlockRV, LoopRV]:
        """Splits the reduction and what stages take several tiles of, moves the outer loops out, separates the initial value.

        Adds these outer loops to ``outer``; returns the block of the initial value and the intrinsic's first lane loop.
        """
        nest = self.nest
        own = self.loops(anchor, depth + nest.anchor_iters)[depth:]
        tiles, within = self._split({a: own[nest.axes[a].anchor_index] for a in (*nest.spatial, *nest.reduce)}, tile, extent)
        outer.update(tiles)
        spatial, inner = ([within[a] for a in axes if a in within] for axes in (nest.spatial, nest.reduce))
        taken = {axis.anchor_index for axis in nest.axes}
        lanes = [loop for n, loop in enumerate(own) if n not in taken]
        tiled = [a for a in np.argsort(self.plan.position[0], kind="stable").tolist() if a in nest.spatial and a in outer]
        inside = [outer[a] for a in tiled if all(outer[a] is not loop for loop in self.piece.loops)]
        sequence = [*inside, *(outer[a] for a in nest.reduce if a in outer), *inner, *spatial]
        self.reorder([*sequence, *lanes])
        ahead = [outer[a] for a in tiled if self.plan.position[0, a] >= self.piece.part.init[0]]
        if ahead and self.piece.loops and ahead[0] is self.piece.loops[0]:
            # The intrinsic sums over one of its loops.
            self.piece.starting = len(ahead) + len(spatial) + len(lanes) - nest.tensorized
        return self.decompose_reduction(anchor, [*ahead, *sequence, *lanes][0]), lanes[0]
