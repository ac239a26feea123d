"""Products without an index that only the weight has: one kernel over an image, or over every plane of it.

Where the data has planes enough, the host gives the kernel an index of the planes: a filter for each channel. Else the kernel is
the only one of a row, and so is what it makes: all of it gets an axis of extent one, which packing fills up. A window that only
sums up or compares elements of a plane is written out: a stage reads all of its places side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from math import prod

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Expr, Var
from autosched.ir.functor import free_vars
from autosched.ir.host import is_move
from autosched.ir.stmt import Block, Buffer, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import gathers
from space.normalise.blocks import (
    Product,
    device_block,
    device_blocks,
    elements_of,
    extents,
    filled,
    has_digits,
    loads_of,
    pack_blocks,
    product_of,
    steps_of,
    store_of,
)
from space.normalise.copies import copied

MOST = 64  # places of a window that is written out: a tensor of the host's each
WAYS = 4  # to choose the windows that are written out


def applies(func: PrimFunc) -> bool:
    """Whether some product of a program lacks an index that only its weight and the result have, or a sum has one element.

    Args:
        func: the program.
    """
    return any(_lacks(b) is not None or _sums_all(b) for b in device_blocks(func))


def written_out(sch: Schedule) -> list[Schedule]:
    """Schedules in which windows are stages: those over planes, then also one that moves along one index of several.

    Of a window over a plane the lanes are the same at all of its steps along no index. Of one along rows they are if the
    lanes are columns; but another window may be one along columns, and both have the same lanes.

    Args:
        sch: of the program.
    """
    windows = [b for b in device_blocks(sch.func) if _moves(b, any) and steps_of(b) <= MOST]
    planes = [b.name for b in windows if over_plane(b)]
    found = []
    for names in (planes, *([*planes, b.name] for b in windows if b.name not in planes)):
        made = sch.copy()
        for name in names:
            try:
                made.expand_reduction(made.get_sblock(name))
            except ScheduleError:
                continue  # what is in the way of a schedule, analysis says
        if len(made.trace.insts) > len(sch.trace.insts):
            found.append(made)
    return found[:WAYS]


def single(sch: Schedule) -> Schedule | None:
    """A schedule in which windows of one element are stages. None where there are none.

    Args:
        sch: of the program.
    """
    made = sch.copy()
    for block in device_blocks(sch.func):
        if block.init is not None and product_of(block) is None and steps_of(block) == 1:
            with suppress(ScheduleError):  # what is in the way of a schedule, analysis says
                made.expand_reduction(made.get_sblock(block.name))
    return made if len(made.trace.insts) > len(sch.trace.insts) else None


def over_plane(block: Block) -> bool:
    """Whether a block sums up, or finds the extremum of, windows of one tensor that move along all of its indices.

    Args:
        block: of the accelerator.
    """
    return _moves(block, all)


def _moves(block: Block, along: Callable[[Iterable[bool]], bool]) -> bool:
    """Whether a block goes over windows of one tensor, each of whose indices, or any, is moved by several iterators."""
    loads = loads_of(block)
    if block.init is None or product_of(block) is not None or len(loads) != 1 or has_digits(*loads[0].indices):
        return False
    size = extents(block)
    return along(not isinstance(i, Var) and sum(v in size for v in free_vars(i)) > 1 for i in loads[0].indices)


def apply(sch: Schedule, target: Target) -> None:
    """Gives every such product an axis for the lanes of its result."""
    alone: list[str] = []
    for block in device_blocks(sch.func):
        product = _lacks(block, filled(sch))
        weight = None if product is None else _weight(sch, product)
        if product is None and _sums_all(block) and loads_of(block)[0].buffer in filled(sch):
            alone.append(block.name)
        if product is None or weight is None:
            continue
        plane = _plane(product, weight, target)
        if plane is None:
            alone.append(block.name)
        else:
            names = [iv.var for iv in block.iter_vars]
            sch.host_stage(sch.spread_operand(sch.get_sblock(block.name), weight.buffer.name, names.index(plane)))
    if alone:
        _with_units(sch, alone)


def _lacks(block: Block, packs: Collection[Buffer] = ()) -> Product | None:
    """The block's product, if neither factor can be the weight of the other one, and no lanes are common to all.

    Of what the host packs an iterator times some number, or from one on, is as good as a plain one: it lays that out by the
    iterators. Not where an index is taken apart: of what lies by digits of an iterator, other lanes than one in an element may be
    had.
    """
    product = product_of(block)
    if product is None or has_digits(*product.factors):
        return None
    size = extents(block)
    stored = {i for i in store_of(block).indices if isinstance(i, Var)}
    sums = {iv.var for iv in block.iter_vars if iv.kind == "reduce"}
    both = stored.intersection(*[f.indices for f in product.factors])
    if any(size[v] > 1 for v in both if isinstance(v, Var)):
        return None
    for data, weight in (product.factors, product.factors[::-1]):
        moved = {v for i in data.indices for v in free_vars(i)}
        plain = {i for i in weight.indices if isinstance(i, Var)}
        if plain & stored - moved and plain & sums & moved:
            return None
        own, others = (_laid_out(f, packs) for f in (weight, data))
        if own & stored - moved and own & sums & others:
            return None
    return product


def _laid_out(factor: BufferLoad, packs: Collection[Buffer]) -> set[Expr]:
    """The iterators by which a factor lies, or the host lays it out."""
    if factor.buffer in packs and gathers.single(factor):
        return {v for i in factor.indices for v in free_vars(i)}
    return {i for i in factor.indices if isinstance(i, Var)}


def _sums_all(block: Block) -> bool:
    """Whether a block sums up all of one tensor, or finds its extremum: no index of that can be lanes of the result."""
    loads = loads_of(block)
    if block.init is None or product_of(block) is not None or len(loads) != 1 or has_digits(*loads[0].indices):
        return False
    return prod(size for iv, size in zip(block.iter_vars, extents(block).values()) if iv.kind == "spatial") == 1


def _weight(sch: Schedule, product: Product) -> BufferLoad | None:
    """The factor that the host fills, the smaller one of two."""
    packs = filled(sch)
    mine = [f for f in product.factors if f.buffer in packs]
    return min(mine, key=lambda f: elements_of(f.buffer), default=None)


def _plane(product: Product, weight: BufferLoad, target: Target) -> Var | None:
    """The index of the data that the weight gets, where a filter for each of it takes fewer steps than one for all."""
    block = product.block
    size = extents(block)
    data = next((f for f in product.factors if f is not weight), weight)  # a tensor may be multiplied by itself
    reads = {v for i in weight.indices for v in free_vars(i)}
    planes = [i for i in data.indices if isinstance(i, Var) and i in store_of(block).indices and i not in reads and size[i] > 1]
    sums = [iv.var for iv in block.iter_vars if iv.kind == "reduce"]
    total = prod(size[v] for v in sums)
    deep = [size[v] for v in sums if v in data.indices and v in weight.indices] or [total]
    lanes = target.config.block_out

    def each(v: Expr) -> float:
        assert isinstance(v, Var)
        return -(-size[v] // lanes) * total / size[v]

    alone = min(-(-n // target.config.block_in) * total / n for n in deep)
    best = min(planes, key=each, default=None)
    return best if best is not None and each(best) < alone else None


def _with_units(sch: Schedule, names: list[str]) -> None:
    """Gives some sums, and what stages make of them, a first axis of extent one."""
    made: set[Buffer] = set()
    blocks: list[str] = []
    for block in device_blocks(sch.func):
        if block.name in names or (block.init is None and any(x.buffer in made for x in loads_of(block))):
            made.add(store_of(block).buffer)
            blocks.append(block.name)
    for name in blocks:
        sch.transform_layout(sch.get_sblock(name), ("write", 0), unit_first)
    kernels: dict[str, str] = {}
    for name in names:
        weight = _kernel(sch, name)
        if weight.name not in kernels.values():
            fills = _filler(sch, weight).name
            sch.transform_layout(sch.get_sblock(name), weight.name, unit_first)
            sch.add_unit_iterator(sch.get_sblock(fills), [weight.name])
        kernels[name] = weight.name
    iterate(sch, blocks, kernels)


def iterate(sch: Schedule, blocks: Sequence[str], kernels: Mapping[str, str]) -> None:
    """Gives blocks a first iterator of extent one, over the first dimension of what they store and read of each other.

    Args:
        sch: of a program in which all that they store has such a dimension.
        blocks: their names.
        kernels: by block, another tensor that it reads and that has one.
    """
    tensors = [b.name for b in dict.fromkeys(store_of(device_block(sch, name)).buffer for name in blocks)]
    for name in blocks:
        block = device_block(sch, name)
        used = {r.buffer.name for r in (*block.reads, *block.writes)}
        own = [t for t in tensors if t in used] + ([kernels[name]] if name in kernels else [])
        sch.add_unit_iterator(sch.get_sblock(name), own)


def _kernel(sch: Schedule, name: str) -> Buffer:
    """The weight of a sum, or all that it sums up, as a tensor that the host only copies: that is zero where it is filled up."""
    weight = _weight_of(sch, name)
    if not is_move(store_of(_filler(sch, weight.buffer)).value):
        copied(sch, name, weight)
        weight = _weight_of(sch, name)
    return weight.buffer


def _weight_of(sch: Schedule, name: str) -> BufferLoad:
    block = device_block(sch, name)
    product = product_of(block)
    weight = loads_of(block)[0] if product is None else _weight(sch, product)
    assert weight is not None
    return weight


def _filler(sch: Schedule, buffer: Buffer) -> Block:
    """The host stage that fills a tensor."""
    return next(b for b in pack_blocks(sch) if store_of(b).buffer is buffer)


def unit_first(*i: Expr) -> tuple[Expr, ...]:
    """The index map of a layout with a first index of extent 1."""
    return (i[0] % 1, *i)
