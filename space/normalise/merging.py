"""Groups of few channels: several become one of as many as an element has lanes, with weights that are zero between them.

A group of 4 channels fills 4 of the 16 lanes that a product sums over, and its results 4 of the 16 that it makes. The sums of
four such groups are sums over the channels of all four, each with weights of 0 for those of the other three: one product instead
of four. So many groups become one as take least in a layout (``estimate``); none where that is no less. What else has the groups'
axis, as what makes their data or goes on with their results, is laid out by the new groups, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from itertools import product as iter_product
from math import prod

from autosched.errors import ScheduleError
from autosched.ir.expr import Expr, Var
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.axes import Axes, Place, accesses
from space.normalise.blocks import (
    Product,
    device_block,
    device_blocks,
    extents,
    filled,
    loads_of,
    named,
    pack_blocks,
    product_of,
    store_of,
    unfit,
)
from space.normalise.estimate import Estimate, estimate
from space.normalise.groups import divided
from space.normalise.layouts import sides_of

MOST = 64  # groups that become one: more than the lanes of any machine
MOST_LOOKED = 64  # ways to see products as ones over groups
MOST_TRIED = 3  # of these, the most promising

Cost = tuple[int, int]  # products, and what of memory is read or made


@dataclass(frozen=True)
class _Groups:
    """A product over groups.

    Args:
        name: of its block.
        at: positions of the iterators of the groups, of a group's results, and of what a group sums over.
        weight: the tensor that is to have zeros.
        dims: its dimensions of these three.
        counts: extents of the three.
        rows: vectors of each group's results, for as many as are lanes.
        taps: terms of their sums, for as many as are lanes.
        read: vectors of each group's data, for as many as are lanes.
    """

    name: str
    at: tuple[int, int, int]
    weight: Buffer
    dims: tuple[int, int, int]
    counts: tuple[int, int, int]
    rows: int
    taps: int
    read: int

    def cost(self, each: int, target: Target) -> Cost:
        """What the product takes where ``each`` groups are one."""
        groups, columns, depth = self.counts
        lanes = target.config.block_out, target.config.block_in
        groups, columns, depth = -(-groups // each), -(-columns * each // lanes[0]), -(-depth * each // lanes[1])
        return groups * columns * depth * self.rows * self.taps, groups * (columns * self.rows + depth * self.read)


def apply(sch: Schedule, target: Target, pack: Callable[[Schedule], object]) -> None:
    """Packs a program, with fewer groups of products where that takes less.

    Args:
        sch: of the program, in which the groups have an axis of their own.
        target: the machine.
        pack: lays tensors out in elements; raises ``ScheduleError`` where there is no such layout.

    Raises:
        ScheduleError: of the program as it is, where no other way is known either.
    """
    merged, promising = sch, _promising(sch, target)
    now = _laid_out(merged, target, pack) if promising else None
    while promising:  # groups become fewer every time
        best: tuple[_LaidOut | None, Schedule] | None = None
        for found in promising:
            other = merged.copy()
            try:
                _merge(other, *found)
            except ScheduleError:
                continue
            made = _laid_out(other, target, pack)
            # What has no layout may get one when groups of other axes have become fewer, too.
            if _less(made, now) if best is None or best[0] is None else _less(made, best[0]):
                best = made, other
            elif best is None and now is None:
                best = None, other
        if best is None:
            break  # groups stay as they are
        now, merged = best
        promising = _promising(merged, target)
    if now is None:
        pack(sch)
    else:
        sch.adopt(now.sch)


@dataclass(frozen=True)
class _LaidOut:
    """A program in elements.

    Args:
        sch: of the program.
        cost: what it takes.
    """

    sch: Schedule
    cost: Estimate


def _less(one: _LaidOut | None, than: _LaidOut | None) -> bool:
    """Whether something has a layout, which takes less than another one does, if there is that."""
    return one is not None and (than is None or one.cost < than.cost)


def _laid_out(sch: Schedule, target: Target, pack: Callable[[Schedule], object]) -> _LaidOut | None:
    """A program laid out, and what it takes; None where there is no layout."""
    trial = sch.copy()
    try:
        pack(trial)
    except ScheduleError:
        return None
    return _LaidOut(trial, estimate(trial.func, target))


def _promising(sch: Schedule, target: Target) -> list[tuple[int, Sequence[_Groups]]]:
    """How many groups of which products may become one, those first that take fewest products."""
    axes = Axes(device_blocks(sch.func))
    by_axis: dict[Place, list[list[_Groups]]] = {}
    for block in device_blocks(sch.func):
        product = product_of(block)
        ways = [] if product is None else _ways(sch, product)
        owners = [axes.of((block.ident, block.iter_vars[g.at[0]].var)) for g in ways]
        for axis in dict.fromkeys(owners):
            by_axis.setdefault(axis, []).append([g for g, a in zip(ways, owners) if a is axis])
    found: list[tuple[Cost, int, Sequence[_Groups]]] = []
    for axis, products in by_axis.items():
        for chosen in islice(iter_product(*products), MOST_LOOKED):
            costs = {each: _sum([g.cost(each, target) for g in chosen]) for each in range(1, min(axes.size(axis), MOST) + 1)}
            each = min(costs, key=lambda n, costs=costs: costs[n])  # type: ignore[misc]
            if each > 1:
                found.append((costs[each], each, chosen))
    return [(each, chosen) for _, each, chosen in sorted(found, key=lambda f: f[0])[:MOST_TRIED]]


def _sum(costs: Sequence[Cost]) -> Cost:
    return sum(c[0] for c in costs), sum(c[1] for c in costs)


def _ways(sch: Schedule, product: Product) -> list[_Groups]:
    """The ways to see a product as one over groups, of whose weights the host makes others."""
    block = product.block
    names = [iv.var for iv in block.iter_vars]
    sums = {iv.var for iv in block.iter_vars if iv.kind == "reduce"}
    size, stored, packs = extents(block), store_of(block).indices, filled(sch)
    found = []
    for data, weight, columns, depths in sides_of(product):
        given = weight.buffer in packs and data.buffer is not weight.buffer
        both = [v for v in names if v not in sums and v in data.indices and v in weight.indices and v in stored]
        for three in iter_product(both, columns, depths) if given else ():
            rest = [v for v in names if v not in three]
            rows, taps = prod(size[v] for v in rest if v not in sums), prod(size[v] for v in rest if v in sums)
            read = prod(size[v] for v in rest if v not in sums and v not in weight.indices)
            group, column, depth = three
            found.append(_Groups(
                block.name, (names.index(group), names.index(column), names.index(depth)), weight.buffer,
                (weight.indices.index(group), weight.indices.index(column), weight.indices.index(depth)),
                (size[group], size[column], size[depth]), rows, taps, read,
            ))
    return found


def _merge(sch: Schedule, each: int, merged: Sequence[_Groups]) -> None:
    """Makes one group of every ``each`` ones of some products.

    Raises:
        ScheduleError: something has the groups' axis without their channels, or these without groups; what primitives refuse.
    """
    _spread(sch, merged)
    for name in [b.name for b in _blocks(sch)]:
        axes = Axes(device_blocks(sch.func))
        axis = _place(sch, axes, merged[0], merged[0].at[0])
        block = next(b for b in _blocks(sch) if b.name == name)
        factors = [each if a is axis else 1 for a in _iterators(block, axes)]
        if any(n % f for n, f in zip(extents(block).values(), factors)):
            sch.pad_block(sch.get_sblock(name), factors)
    axes = Axes(device_blocks(sch.func))
    divided(sch, axes, {_place(sch, axes, merged[0], merged[0].at[0]): each})
    # A group's number is that of one that several become, and its number among these.
    axes = Axes(device_blocks(sch.func))
    number = _place(sch, axes, merged[0], merged[0].at[0] + 1)
    size = {_place(sch, axes, g, k): n for g in merged for k, n in zip(_further(g.at)[1:], g.counts[1:])}
    weights, products = {g.weight.name for g in merged}, {g.name for g in merged}
    layouts: dict[str, tuple[str, _Map]] = {}
    domains: dict[str, _Map] = {}
    for block in _blocks(sch):
        buffer = store_of(block).buffer
        if buffer.name not in weights:
            layouts[buffer.name] = block.name, _together([axes.of((buffer, d)) for d in range(buffer.ndim)], number, size)
        if buffer.name not in weights and block.name not in products:
            domains[block.name] = _together(_iterators(block, axes), number, size)
    for g in merged:
        (own, *places), (at, *dims) = _further(g.at), _further(g.dims)
        handle = sch.diagonalize(sch.get_sblock(g.name), own + 1, g.weight.name)
        name = named(sch, handle)
        block, weight = device_block(sch, g.name), next(b for b in pack_blocks(sch) if b.name == name)
        pairs = [(own + 1, places[0]), (len(block.iter_vars) - 1, places[1])]
        domains[g.name] = _Map(tuple(pairs), g.counts[1:])
        pairs = [(at + 1, dims[0]), (len(weight.iter_vars) - 1, dims[1])]
        layouts[name] = name, _Map(tuple(pairs), g.counts[1:])
        domains[name] = layouts[name][1]
    for name, mapping in layouts.values():
        sch.transform_layout(sch.get_sblock(name), ("write", 0), mapping)
    for name, mapping in domains.items():
        sch.transform_block_layout(sch.get_sblock(name), mapping)


def _spread(sch: Schedule, merged: Sequence[_Groups]) -> None:
    """Lets the host repeat what stages read by groups alone, or by channels alone: a bias, say, that all channels of one share.

    Raises:
        ScheduleError: what the primitive refuses.
    """
    for name in [b.name for b in device_blocks(sch.func) if b.init is None]:
        for buffer in dict.fromkeys(x.buffer for x in loads_of(device_block(sch, name)) if x.buffer in filled(sch)):
            axes = Axes(device_blocks(sch.func))
            groups = _place(sch, axes, merged[0], merged[0].at[0])
            channels = {_place(sch, axes, g, k) for g in merged for k in g.at[1:]}
            own = _iterators(device_block(sch, name), axes)
            places = [axes.of((buffer, d)) for d in range(buffer.ndim)]
            lacking = channels if groups in places else {groups} if channels & {*places} else set()
            at = [k for k, a in enumerate(own) if a in lacking]
            if len(at) == 1 and not lacking & {*places}:
                sch.host_stage(sch.spread_operand(sch.get_sblock(name), buffer.name, at[0]))


@dataclass(frozen=True)
class _Map:
    """An index map that makes one index of some pairs of them.

    Args:
        pairs: the positions of the two; the one comes where the second was.
        sizes: extents of the second ones.
    """

    pairs: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]

    def __call__(self, *index: Expr) -> tuple[Expr, ...]:
        new = dict(enumerate(index))
        for (outer, inner), size in zip(self.pairs, self.sizes):
            new[inner] = new.pop(outer) * size + new[inner]
        return tuple(new[k] for k in sorted(new))


def _together(places: Sequence[Place | None], number: Place, size: Mapping[Place, int]) -> _Map:
    """The map that makes one index of a group's number among the merged and a channel in it, wherever both are.

    Raises:
        ScheduleError: one is without the other.
    """
    outer = [k for k, p in enumerate(places) if p is number]
    inner = [k for k, p in enumerate(places) if p in size]
    if len(outer) != len(inner):
        raise unfit("groups and their channels are not everywhere together")
    return _Map(tuple(zip(outer, inner)), tuple(size[p] for k in inner if (p := places[k]) is not None))


def _further(positions: tuple[int, int, int]) -> tuple[int, int, int]:
    """Positions of what is one of several, when the first one has become two."""
    first, *rest = positions
    second, third = (k + (k > first) for k in rest)
    return first, second, third


def _place(sch: Schedule, axes: Axes, groups: _Groups, position: int) -> Place:
    """The axis of an iterator of a product."""
    block = device_block(sch, groups.name)
    return axes.of((block.ident, block.iter_vars[position].var))


def _iterators(block: Block, axes: Axes) -> list[Place | None]:
    """The axes of a block's iterators: its own, or those of what it stores."""
    store = store_of(block)
    stored = {i: axes.of((store.buffer, d)) for d, i in enumerate(store.indices) if isinstance(i, Var)}
    own = {iv.var: axes.of((block.ident, iv.var)) for iv in block.iter_vars if (block.ident, iv.var) in axes.parent}
    return [own.get(iv.var, stored.get(iv.var)) for iv in block.iter_vars]


def _blocks(sch: Schedule) -> list[Block]:
    """The host stages that fill what the accelerator reads, and the accelerator's blocks."""
    blocks = device_blocks(sch.func)
    read = {buffer for block in blocks for buffer, _ in accesses(block)}
    return [*[b for b in pack_blocks(sch) if store_of(b).buffer in read], *blocks]
