"""Flat channels of a group convolution as two axes: the group, and the channel in it.

The result's channel ``o`` reads the channels ``o // each * size + c`` of the data; ``o // each`` where a group has one channel,
or heads of attention share their keys. Split by ``each``, what has the result's axis gets one for the group; split by ``size``,
so does what has the data's. Where the groups have an iterator of their own, ``group * size + c`` tells the size: of heads of
attention, both factors of a product are read so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import lcm

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, int_value
from autosched.ir.functor import free_vars
from autosched.ir.host import is_move
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.axes import Axes, Place
from space.normalise.blocks import (
    device_block,
    device_blocks,
    extents,
    has_digits,
    loads_of,
    pack_blocks,
    product_of,
    store_of,
)
from space.sites import repeats_of


def applies(func: PrimFunc) -> bool:
    """Whether several of a result's channels read one of the data's, or a stage stores rows side by side."""
    alone = any(size == 1 for block in device_blocks(func) for _, _, (_, _, size) in _groups(block))
    return alone or any(True for block in device_blocks(func) for _ in _side_by_side(func, block))


def whole(block: Block, target: Target) -> bool:
    """Whether a product reads by groups, of channels that are whole elements, of the data and of the result.

    Args:
        block: any.
        target: the machine.
    """
    lanes = target.config
    found = [(each % lanes.block_out, size % lanes.block_in) for _, _, (_, each, size) in _groups(block)]
    return bool(found) and not any(map(any, found))


def apply(sch: Schedule, target: Target) -> None:
    """Splits the axes of every sum of products over groups of several flat channels."""
    _split_axes(sch, False)


def shared(sch: Schedule, target: Target) -> None:
    """Splits them where a group has one channel, too. The host may lay such an operand out for its product as well."""
    _split_axes(sch, True)


def channels_of(block: Block) -> list[tuple[Var, int, int]]:
    """Of a product that reads by groups, the result's flat channel, and how many channels of result and of data a group has.

    Args:
        block: any.
    """
    return [found for _, _, found in _groups(block)]


def _groups(block: Block) -> Iterator[tuple[Buffer, int, tuple[Var, int, int]]]:
    """Where a product reads by groups: the tensor, its dimension, and what ``_group`` says."""
    product = product_of(block)
    for factor in product.factors if product is not None else ():
        for d, index in enumerate(factor.indices):
            found = _group(index, extents(block), store_of(block).indices)
            if found is not None:
                yield factor.buffer, d, found


def _split_axes(sch: Schedule, alone: bool) -> None:
    blocks = device_blocks(sch.func)
    axes = Axes(blocks)
    sizes: dict[Place, int] = {}
    found: list[tuple[Place, int, Place, int]] = []
    for block in blocks:
        for buffer, d, (channel, each, size) in _groups(block):
            if size > 1 or alone:
                sizes[axes.of((block.ident, channel))] = each
            if size > 1:
                sizes[axes.of((buffer, d))] = size
                found.append((axes.of((block.ident, channel)), each, axes.of((buffer, d)), size))
    larger = _together(found, axes)
    divided(sch, axes, sizes if larger is None else {**sizes, **larger})
    if larger is not None:
        _split_axes(sch, alone)  # the groups in these; fewer channels than before


def _together(found: Sequence[tuple[Place, int, Place, int]], axes: Axes) -> dict[Place, int] | None:
    """Sizes of groups that hold whole ones of every product, where groups of several sizes have channels in common; else None.

    Args:
        found: by product, the axis of its results' channels and how many of these a group has, and the same of its data.
        axes: of the program.
    """
    sizes: dict[Place, int] = {}
    times = [1] * len(found)
    for _ in found:
        for k, (result, each, data, size) in enumerate(found):
            whole = lcm(sizes.get(result, each), each), lcm(sizes.get(data, size), size)
            times[k] = lcm(times[k], whole[0] // each, whole[1] // size)
            sizes[result], sizes[data] = each * times[k], size * times[k]
    fits = all(axes.size(result) % sizes[result] == 0 and sizes[result] < axes.size(result) for result, *_ in found)
    return sizes if fits and max(times, default=1) > 1 else None


def rows(sch: Schedule, target: Target) -> None:
    """Splits them where a stage stores rows of a tensor in between side by side: each of its iterators is an index then."""
    blocks = device_blocks(sch.func)
    axes = Axes(blocks)
    found = {axes.of((store_of(b).buffer, d)): size for b in blocks for d, size in _side_by_side(sch.func, b)}
    with suppress(ScheduleError), sch.all_or_none():  # what is in the way of a schedule, analysis says
        divided(sch, axes, found)


def repeats(func: PrimFunc) -> bool:
    """Whether a stage reads elements several times, next to each other, as an image that is made larger does.

    Args:
        func: the program.
    """
    blocks = device_blocks(func)
    return any(True for b in blocks for _ in (*_repeated(b), *_phases(b, blocks)))


def repeated(sch: Schedule, target: Target) -> bool:
    """Splits the axes along which stages do so, so that an element is read once for all of its places; whether there are any."""
    blocks = device_blocks(sch.func)
    axes = Axes(blocks)
    found = [(block, v, each) for block in blocks for v, each in _repeated(block)]
    phases = [(block, v, each) for block in blocks for v, each in _phases(block, blocks)]
    divided(sch, axes, {axes.of((block.ident, v)): each for block, v, each in (*found, *phases)})
    for name in dict.fromkeys(block.name for block, _, _ in found):
        value = store_of(device_block(sch, name)).value
        if isinstance(value, BufferLoad) and not has_digits(*value.indices):
            sch.compute_inline(sch.get_sblock(name))  # what reads the copy reads its source
    return bool(found or phases)


def _phases(block: Block, blocks: Sequence[Block]) -> Iterator[tuple[Var, int]]:
    """The iterators of a result along which windows lie on elements that a copy has several times, and how often it has them.

    Which of the places of an element a window begins at is an iterator of its own then: for each the window reads elements that
    lie apart by whole ones, and the micro-ops of one window are those of all.
    """
    product = product_of(block)
    size, spatial = extents(block), {iv.var for iv in block.iter_vars if iv.kind != "reduce"}
    for factor in product.factors if product is not None else ():
        at = _side_by_side_in(factor.buffer, blocks)
        for d, index in enumerate(factor.indices):
            form = linear_form(index)
            moved = [v for v in form[0] if v in spatial and size.get(v, 1) > 1] if form is not None else []
            if d in at and form is not None and len(moved) == 1 and form[0][moved[0]] == 1 and size[moved[0]] % at[d] == 0:
                yield moved[0], at[d]


def _side_by_side_in(buffer: Buffer, blocks: Sequence[Block]) -> dict[int, int]:
    """How often a tensor that copies make has the elements of what they read side by side, by its dimension.

    A copy of such a tensor (with zeros around it, say) has them so as well, along what it reads index by index.
    """
    writer = next((b for b in blocks if b.init is None and store_of(b).buffer is buffer), None)
    found = {} if writer is None else repeats_of(writer)
    if writer is None or not is_move(store_of(writer).value):
        return found
    stored = store_of(writer).indices
    for load in loads_of(writer):
        for d, each in _side_by_side_in(load.buffer, blocks).items() if load.buffer is not buffer else ():
            form = linear_form(load.indices[d])
            moved = list(form[0].items()) if form is not None else []
            if len(moved) == 1 and moved[0][1] == 1 and moved[0][0] in stored:
                found.setdefault(stored.index(moved[0][0]), each)
    return found


def _repeated(block: Block) -> Iterator[tuple[Var, int]]:
    """The iterators of a stage of which it reads the quotients by some numbers."""
    size, stored = extents(block), store_of(block).indices
    for load in loads_of(block) if block.init is None else ():
        for index in load.indices:
            found = _quotient(index, size)
            others = [i for x in loads_of(block) for i in x.indices if _quotient(i, size) != found]
            if found is not None and found[0] in stored and found[1] > 1 and not any(found[0] in free_vars(i) for i in others):
                yield found


def heads(sch: Schedule, target: Target) -> None:
    """Splits what a product reads by digits in both factors, or stores so: ``head * size + d`` is two indices then."""
    blocks = device_blocks(sch.func)
    axes = Axes(blocks)
    sizes: dict[Place, int] = {}
    for block in blocks:
        product = product_of(block)
        if product is None:
            continue
        stored, *read = [
            {axes.of((buffer, d)): size for d, size in _two_digits(buffer, indices, extents(block))}
            for buffer, indices in (_access(store_of(block)), *map(_access, product.factors))
        ]
        if stored or all(read):
            sizes |= {**stored, **read[0], **read[1]}
    divided(sch, axes, sizes)
    if sizes:
        shared(sch, target)  # what takes the heads' results together reads those of its head


def _access(x: BufferLoad | BufferStore) -> tuple[Buffer, tuple[Expr, ...]]:
    return x.buffer, x.indices


def divided(sch: Schedule, axes: Axes, sizes: dict[Place, int]) -> None:
    """Splits some axes, each by a size: layouts of what is stored, and iterators.

    Args:
        sch: of the program.
        axes: of it.
        sizes: by axis, the extent of the inner one of two.
    """
    if not sizes:
        return

    def split(place: Place) -> int | None:
        """The size of an axis; of one that none of those that are split has to do with there is none."""
        return sizes.get(axes.of(place)) if place in axes.parent else None

    blocks = device_blocks(sch.func)
    packs = pack_blocks(sch)
    layouts = {}
    for block in (*packs, *blocks):
        buffer = store_of(block).buffer
        parts = [split((buffer, d)) for d in range(buffer.ndim)]
        if any(parts) and buffer not in sch.func.buffers:  # the user's tensors lie as they do
            layouts[buffer] = block.name, _split(parts)
    domains = []
    for block in packs:
        # Copies again store at their plain iterators, so that what they fill is plain to see.
        store = store_of(block)
        by_index = dict(zip(store.indices, [split((store.buffer, d)) for d in range(store.buffer.ndim)]))
        parts = [by_index.get(iv.var) for iv in block.iter_vars]
        if any(parts):
            domains.append((block.name, _split(parts)))
    for block in blocks:
        parts = [split((block.ident, iv.var)) for iv in block.iter_vars]
        if any(parts):
            domains.append((block.name, _split(parts)))
    for name, mapping in layouts.values():
        sch.transform_layout(sch.get_sblock(name), ("write", 0), mapping)
    for name, mapping in domains:
        sch.transform_block_layout(sch.get_sblock(name), mapping)


def _side_by_side(func: PrimFunc, block: Block) -> Iterator[tuple[int, int]]:
    """Where a stage stores rows of a tensor in between side by side, as heads of attention: its dimension, and their size."""
    store = store_of(block)
    if block.init is None and store.buffer not in func.buffers:
        yield from _two_digits(store.buffer, store.indices, extents(block))


def _two_digits(buffer: Buffer, indices: Sequence[Expr], size: dict[Var, int]) -> Iterator[tuple[int, int]]:
    """The dimensions of a tensor whose index is two iterators side by side, and the extent of the inner one."""
    for d, index in enumerate(indices):
        form = linear_form(index)
        if form is None or int_value(form[1]) != 0 or len(form[0]) != 2:
            continue
        (inner, one), (outer, step) = sorted(form[0].items(), key=lambda term: term[1])
        if one == 1 and step == size.get(inner) and size.get(outer, 0) * step == int_value(buffer.shape[d]):
            yield d, int(step)


def _group(index: Expr, size: dict[Var, int], result: Sequence[Expr]) -> tuple[Var, int, int] | None:
    """(channel, channels of the result per group, channels of the data per group) of ``channel // each * size + c``."""
    alone = _quotient(index, size)
    if alone is not None:
        return (*alone, 1) if alone[0] in result else None
    if not (isinstance(index, BinOp) and index.op == "+"):
        return None
    for scaled, inner in ((index.a, index.b), (index.b, index.a)):
        if not (isinstance(inner, Var) and isinstance(scaled, BinOp) and scaled.op == "*"):
            continue
        group, step = _quotient(scaled.a, size), int_value(scaled.b)
        if group is not None and step is not None and step == size.get(inner):
            return (*group, step)
    return None


def _quotient(index: Expr, size: dict[Var, int]) -> tuple[Var, int] | None:
    """(channel, each) of ``channel // each``, where all groups have as many."""
    if not (isinstance(index, BinOp) and index.op == "//" and isinstance(index.a, Var)):
        return None
    each = int_value(index.b)
    return (index.a, each) if each is not None and size.get(index.a, 0) % each == 0 else None


def _split(parts: Sequence[int | None]) -> Callable[..., tuple[Expr, ...]]:
    def split(*i: Expr) -> tuple[Expr, ...]:
        return tuple([x for k, n in enumerate(parts) for x in ((i[k],) if n is None else (i[k] // n, i[k] % n))])

    return split
