"""Scheduled layers as one program: one instruction stream, its tensors packed in DRAM from layer to layer.

A tensor of the network lies in a region ``[slots, rows, vectors, batch lanes, channel lanes]``: a vector is one pixel's lanes,
in the order (channel block, y, x). Tensors that some layer adds up share a region, one slot each: the sum is a reduction over
slots. So do the parts of one whole, each at its place among the whole's vectors. What comes from or goes to the host is a
parameter, everything else an intermediate that lowering places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autosched.errors import ProgramError
from autosched.ir.expr import BufferLoad, Expr, IntImm, int_value
from autosched.ir.functor import Mutator
from autosched.ir.simplify import simplify
from autosched.ir.stmt import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Constant,
    Ident,
    PrimFunc,
    Range,
    Stmt,
    make_root,
    seq,
)
from autosched.workloads.stage import tensor

MAX_BYTES = 1 << 32


@dataclass(frozen=True)
class Place:
    """Where a tensor lies.

    Args:
        region: name of its region.
        slot: which part of it.
        vector: of that part, where the tensor begins.
    """

    region: str
    slot: int
    vector: int = 0


@dataclass(frozen=True)
class Region:
    """A region of DRAM.

    Args:
        name: of the buffer.
        slots: tensors in it.
        rows: blocks of the batch.
        vectors: per row.
        outside: whether the host fills or reads it.
    """

    name: str
    slots: int
    rows: int
    vectors: int
    outside: bool


@dataclass(frozen=True, eq=False)
class Part:
    """One layer of a stream.

    Args:
        name: unique within the stream; prefix of its parameters.
        func: its scheduled program, with parameters ``data``, constants, ``res`` if there is a residual, ``out``.
        inputs: tensors that ``data`` holds, in order.
        output: tensor that ``out`` holds.
        stacked: whether the first dimension of ``data`` counts its inputs.
        residual: tensor that ``res`` holds, or None where there is no such parameter.
    """

    name: str
    func: PrimFunc
    inputs: tuple[str, ...]
    output: str
    stacked: bool
    residual: str | None = None


def plan(
    sums: Sequence[tuple[str, ...]], sizes: Mapping[str, tuple[int, int]], outside: set[str],
    lies: Mapping[str, tuple[str, int]],
) -> tuple[dict[str, Place], dict[str, Region]]:
    """Regions of all tensors of a stream.

    Args:
        sums: tensors that are added up, per layer that adds.
        sizes: (rows, vectors) per tensor, in the order in which they come into being.
        outside: tensors that the host fills or reads.
        lies: per tensor, one of those that lie together with it, and how many vectors it lies behind that one.
    """
    parent = {t: lies[t][0] for t in sizes}

    def root(t: str) -> str:
        while parent[t] != t:
            t = parent[t]
        return t

    for added in sums:
        for t in added[1:]:
            parent[root(t)] = root(added[0])
    members: dict[str, list[str]] = {}
    for t in sizes:
        members.setdefault(root(t), []).append(t)
    places: dict[str, Place] = {}
    regions: dict[str, Region] = {}
    for number, group in enumerate(members.values()):
        name = f"t{number}"
        rows, vectors = sizes[group[0]]
        slots, used = len(group), any(t in outside for t in group)
        apart = len({lies[t][0] for t in group}) == slots
        if apart:
            places.update({t: Place(name, k) for k, t in enumerate(group)})
        else:
            slots, vectors = 1, 0
            for whole in dict.fromkeys(lies[t][0] for t in group):
                own = [t for t in group if lies[t][0] == whole]
                first = min(lies[t][1] for t in own)
                places.update({t: Place(name, 0, vectors + lies[t][1] - first) for t in own})
                vectors += max(lies[t][1] + sizes[t][1] for t in own) - first
        regions[name] = Region(name, slots, rows, vectors, used)
    return places, regions


def compose(
    parts: Sequence[Part], places: Mapping[str, Place], regions: Mapping[str, Region], batch: int, block: int
) -> PrimFunc:
    """One program of all layers, in order.

    Args:
        parts: the layers; two inputs of one layer lie in one region, in the order of their slots.
        places: where each tensor lies.
        regions: all regions.
        batch: batch lanes.
        block: channel lanes.

    Returns:
        The program. Parameters: regions of the host under their names, then ``<part>_<constant>`` per layer.

    Raises:
        ProgramError: its tensors need more DRAM than can be addressed.
    """
    buffers = {
        r.name: tensor(r.name, [r.slots, r.rows, r.vectors, batch, block], "int8") for r in regions.values()
    }
    total = sum(r.slots * r.rows * r.vectors * batch * block for r in regions.values())
    if total >= MAX_BYTES:
        raise ProgramError(f"the network's tensors need {total} bytes of DRAM; the machine addresses less than {MAX_BYTES}")
    params: list[Buffer] = [buffers[r.name] for r in regions.values() if r.outside]
    ranges: list[tuple[int, int] | None] = [None] * len(params)
    allocs: list[Buffer] = [buffers[r.name] for r in regions.values() if not r.outside]
    bodies: list[Stmt] = []
    constants: dict[tuple[object, ...], Constant] = {}
    for part in parts:
        rewriter = _Rewriter(part, places, buffers)
        for constant in part.func.constants:
            # Layers that hold the same numbers read the same bytes.
            key = (constant.data, constant.buffer.dtype, tuple(map(int_value, constant.buffer.shape)))
            if key not in constants:
                constants[key] = replace(constant, buffer=rewriter.visit_buffer(constant.buffer))
            rewriter.fresh[constant.buffer] = constants[key].buffer
        body = part.func.body
        assert isinstance(body, BlockRealize)
        bodies.append(rewriter.visit_stmt(body.block.body))
        allocs += [rewriter.visit_buffer(b) for b in body.block.alloc_buffers]
        for k, buffer in enumerate(part.func.buffers):
            if buffer not in rewriter.tensors:
                params.append(rewriter.visit_buffer(buffer))
                ranges.append(part.func.value_ranges[k] if k < len(part.func.value_ranges) else None)
    return PrimFunc(
        tuple(params), make_root(seq(*bodies), tuple(allocs)), value_ranges=tuple(ranges), constants=tuple(constants.values()),
    )


class _Rewriter(Mutator):
    """Gives a layer's buffers identities of their own and moves ``data`` and ``out`` into their regions."""

    def __init__(self, part: Part, places: Mapping[str, Place], buffers: Mapping[str, Buffer]) -> None:
        self.part = part
        self.fresh: dict[Buffer, Buffer] = {}
        by_name = {b.name: b for b in part.func.buffers}
        data, out = by_name["data"], by_name["out"]
        first, second, made = places[part.inputs[0]], places[part.inputs[-1]], places[part.output]
        self.tensors = {
            data: _Move(buffers[first.region], first, second, data, part.stacked),
            out: _Move(buffers[made.region], made, made, out, False),
        }
        if part.residual is not None:
            place, res = places[part.residual], by_name["res"]
            self.tensors[res] = _Move(buffers[place.region], place, place, res, False)

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        if buffer in self.tensors:
            return self.tensors[buffer].buffer
        new = self.fresh.get(buffer)
        if new is None:
            new = self.fresh[buffer] = replace(buffer, name=f"{self.part.name}_{buffer.name}", ident=Ident())
        return new

    def visit_load(self, load: BufferLoad) -> Expr:
        move = self.tensors.get(load.buffer)
        if move is None:
            return super().visit_load(load)
        return BufferLoad(move.buffer, move.indices(self.visit_exprs(load.indices)), load.dtype)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, BufferStore) and stmt.buffer in self.tensors:
            move = self.tensors[stmt.buffer]
            return BufferStore(move.buffer, move.indices(self.visit_exprs(stmt.indices)), self.visit_expr(stmt.value))
        return super().visit_stmt(stmt)

    def visit_block(self, block: Block) -> Block:
        new = super().visit_block(block)
        return replace(new, name=f"{self.part.name}_{block.name}", ident=Ident())

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        move = self.tensors.get(region.buffer)
        return super().visit_region(region) if move is None else move.region(region)


@dataclass(eq=False)
class _Move:
    """A parameter of a layer as a part of a region.

    Args:
        buffer: the region's.
        first: where the first input lies.
        next: where the next one does.
        source: the parameter.
        leading: whether its first dimension counts inputs.
    """

    buffer: Buffer
    first: Place
    next: Place
    source: Buffer
    leading: bool

    def indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The place in the region of a place in the parameter."""
        which: Expr = IntImm(self.first.slot)
        begin: Expr = IntImm(self.first.vector)
        if self.leading:
            which = indices[0] * (self.next.slot - self.first.slot) + which
            begin = indices[0] * (self.next.vector - self.first.vector) + begin
            indices = indices[1:]
        row, middle, lanes = indices[0], indices[1:-2], indices[-2:]
        sizes = self.source.shape[2 if self.leading else 1 : -2]
        flat: Expr = IntImm(0)
        for index, size in zip(middle, sizes):
            flat = flat * size + index
        return (simplify(which), row, simplify(flat + begin), *lanes)

    def region(self, region: BufferRegion) -> BufferRegion:
        """A box of the parameter as the smallest box of the region that holds it."""
        low = self.indices(tuple([r.min for r in region.region]))
        high = self.indices(tuple([r.min + r.extent - 1 for r in region.region]))
        ranges = [Range(a, simplify(b - a + 1)) for a, b in zip(low, high)]
        return BufferRegion(self.buffer, tuple(ranges))
