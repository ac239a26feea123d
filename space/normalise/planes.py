"""Places as lanes: rows and columns of an image as one index, of which whole elements are full.

A result whose channels are no whole number of blocks leaves lanes of every vector empty, and its rows and columns may do so, too.
So do the columns of one to which the same is added for all channels: they are its lanes. All its places together are so many that
hardly any lane is: they become the lanes of the result, and what had been the data is the weight. Groups of channels are an index
of both, which stays: a vector whose lanes are channels of two groups would take the products of both. Where windows lie on an
image the host gathers what they read, each element as often as windows have it. That is work of the host and of the load engine,
so it is a form of its own, where it is estimated to take less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched.ir.expr import Expr, Var
from autosched.ir.functor import free_vars
from autosched.ir.stmt import Buffer, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import gathering, groups, spread
from space.normalise.axes import Axes, Place, accesses, together
from space.normalise.blocks import Product, device_blocks, extents, loads_of, pack_blocks, product_of, store_of


def applies(func: PrimFunc, target: Target) -> bool:
    """Whether some product's result has channels that leave lanes empty, or an addend without any, and several indices besides.

    Args:
        func: the program.
        target: the machine.
    """
    for block in device_blocks(func):
        product = product_of(block)
        data, size = None if product is None else _data(product), extents(block)
        stored = [i for i in store_of(block).indices if isinstance(i, Var) and size.get(i, 1) > 1]
        if product is not None and data is not None and len([v for v in stored if v in data]) > 1:
            channels = [v for v in stored if v not in data]
            if _leave_lanes(product, channels, target.config.block_out) or _shared(func, store_of(block), channels):
                return True
    return False


def _leave_lanes(product: Product, channels: Sequence[Var], lanes: int) -> bool:
    """Whether a result's channels are no whole number of elements; of a group convolution, those of a group.

    Where a filter is each channel's own there are none that read the same places.
    """
    each = {channel: own for channel, own, _ in groups.channels_of(product.block)}
    both = {v for v in channels if all(any(v in free_vars(i) for i in f.indices) for f in product.factors)}
    own = [each.get(v, extents(product.block)[v]) for v in channels if v in each or v not in both]
    return not channels or (bool(own) and all(n > 1 and n % lanes for n in own))


def _shared(func: PrimFunc, made: BufferStore, channels: Sequence[Var]) -> bool:
    """Whether what is added to a result behind its products is the same for all of some of its indices, and not along others.

    Its lanes are places, then, and so are the result's.
    """
    own = {d for d, i in enumerate(made.indices) if i in channels}
    for block in device_blocks(func):
        store, size = store_of(block), extents(block)
        at = {i: d for d, i in enumerate(store.indices) if isinstance(i, Var) and size.get(i, 1) > 1}
        if block.init is not None or store.buffer.shape != made.buffer.shape:
            continue
        for load in loads_of(block):
            moved = {at[v] for i in load.indices for v in free_vars(i) if v in at}
            if load.dtype == "int32" and len(moved) > 1 and not moved & own:
                return True
    return False


def apply(sch: Schedule, target: Target) -> bool:
    """Makes one index of all that such a result's channels are read along with; whether there is such an index.

    Args:
        sch: of the program, which reads what the host has filled.
        target: the machine.

    Raises:
        ScheduleError: what the host would gather is of no form that primitives know.
    """
    spread.joined(sch)
    gathering.apply(sch, target, True)
    return _fused(sch)


def _data(product: Product) -> set[Var] | None:
    """What alone moves the factor that is read along more than one index of the result; None where that is both or none.

    An index of the result that both are read along (a group of channels) is neither's.
    """
    stored = {i for i in store_of(product.block).indices if isinstance(i, Var)}
    moved = [{v for i in f.indices for v in free_vars(i) if isinstance(v, Var)} for f in product.factors]
    size = extents(product.block)
    both = moved[0] & moved[1] & stored
    several = [own - both for own in moved if len([v for v in (own - both) & stored if size.get(v, 1) > 1]) > 1]
    return several[0] if len(several) == 1 else None


def _fused(sch: Schedule) -> bool:
    """Makes one axis of those along which a result is read with all of its channels; whether there are several."""
    blocks = device_blocks(sch.func)
    axes = Axes(blocks)
    products = [p for b in blocks if (p := product_of(b)) is not None]
    if len(products) != 1 or (data := _data(products[0])) is None:
        return False
    block = products[0].block
    size = extents(block)
    group = [axes.of((block.ident, i)) for i in store_of(block).indices if i in data and size.get(i, 1) > 1]
    if len(set(group)) != len(group) or len(group) < 2 or set(group) & axes.sliding:
        return False
    sizes = [axes.size(a) for a in group]
    packs = [b for b in pack_blocks(sch) if any(store_of(b).buffer is x for d in blocks for x, _ in accesses(d))]
    layouts: dict[Buffer, tuple[str, list[int | None]]] = {}
    domains: list[tuple[str, list[int | None]]] = []
    for own in (*packs, *blocks):
        store = store_of(own)
        dims = [_position(axes, group, (store.buffer, d)) for d in range(store.buffer.ndim)]
        if any(p is not None for p in dims):
            layouts[store.buffer] = own.name, dims
        known = dict(zip(store.indices, dims)) if own in packs else {}
        iters = [known.get(iv.var) if own in packs else _position(axes, group, (own.ident, iv.var)) for iv in own.iter_vars]
        if any(p is not None for p in iters):
            domains.append((own.name, iters))
    if any(sorted(p for p in dims if p is not None) != list(range(len(group)))
           for dims in [*(d for _, d in layouts.values()), *(d for _, d in domains)]):
        return False  # what has one of them has them all
    for name, dims in layouts.values():
        sch.transform_layout(sch.get_sblock(name), ("write", 0), _together(dims, sizes))
    for name, dims in domains:
        sch.transform_block_layout(sch.get_sblock(name), _together(dims, sizes))
    return True


def _position(axes: Axes, group: Sequence[Place], place: Place) -> int | None:
    """Which of some axes a dimension or an iterator is."""
    axis = axes.of(place) if place in axes.parent else None
    return group.index(axis) if axis in group else None


def _together(positions: Sequence[int | None], sizes: Sequence[int]) -> Callable[..., tuple[Expr, ...]]:
    """The index map that makes one index of some, where the last of them was."""
    last = max(k for k, p in enumerate(positions) if p is not None)

    def mapped(*i: Expr) -> tuple[Expr, ...]:
        index = together((i[list(positions).index(n)], size) for n, size in enumerate(sizes))
        return tuple([index if k == last else i[k] for k, p in enumerate(positions) if p is None or k == last])

    return mapped
