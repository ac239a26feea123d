"""Windows that the host gathers: all that a product sums over becomes one index, of which whole elements are full.

An image of three channels fills three of the sixteen lanes that a product sums over, for each of a window's taps, and one of a
single channel fills one. What the taps read of a parameter, the host may write side by side instead, each element as often as
windows have it. That is work of the host, so it is a form of its own, which the search holds against the others.
"""

from __future__ import annotations

from collections.abc import Set
from math import prod

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Expr, Var
from autosched.ir.functor import free_vars
from autosched.ir.stmt import Buffer, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.axes import together
from space.normalise.blocks import (
    Product,
    device_block,
    device_blocks,
    extents,
    filled,
    is_copy,
    product_of,
    store_of,
    writer_of,
)
from space.normalise.gathers import reindexed
from space.normalise.layouts import sides_of


def applies(func: PrimFunc, target: Target) -> bool:
    """Whether some product sums over several indices that fill more lanes together than one of them does.

    Args:
        func: the program.
        target: the machine.
    """
    blocks = device_blocks(func)
    given = {*func.buffers} - {store_of(b).buffer for b in blocks}
    return any(_roles(p, target, given) is not None for b in blocks if (p := product_of(b)) is not None)


def apply(sch: Schedule, target: Target, always: bool = False) -> bool:
    """Lets the host gather what such products read; whether there are any.

    Args:
        sch: of the program, which reads what the host has filled.
        target: the machine.
        always: whether also where that fills no more lanes.

    Raises:
        ScheduleError: what the host would gather, or what it would leave, is of no form that primitives know.
    """
    done = False
    for name in [b.name for b in device_blocks(sch.func)]:
        product = product_of(device_block(sch, name))
        roles = None if product is None else _roles(product, target, filled(sch), always)
        if roles is None or not hosts(sch, roles[0]):
            continue
        block = device_block(sch, name)
        own = [iv.var for iv in block.iter_vars]
        sums = [iv.var for iv in block.iter_vars if iv.kind == "reduce"]
        size = extents(block)

        def behind(*i: Expr, own: list[Var] = own, sums: list[Var] = sums, size: dict[Var, int] = size) -> tuple[Expr, ...]:
            table = dict(zip(own, i))
            return (*[table[v] for v in own if v not in sums], together((table[v], size[v]) for v in sums))

        sch.transform_block_layout(sch.get_sblock(name), behind)
        for buffer in (roles[0].buffer.name, roles[1].buffer.name):
            reindexed(sch, name, buffer)
        done = True
    return done


def _roles(
    product: Product, target: Target, given: Set[Buffer], always: bool = False
) -> tuple[BufferLoad, BufferLoad] | None:
    """The data and the weight of a product that sums over several indices, where these fill more lanes together or ``always``.

    An image of one channel has no index of its own that lanes could be; of what is ``given`` the host gathers one in every form.
    """
    block = product.block
    size = extents(block)
    sums = [iv.var for iv in block.iter_vars if iv.kind == "reduce" and size[iv.var] > 1]
    lanes = target.config.block_in
    for data, weight, columns, depths in sides_of(product):
        plain = [v for v in depths if size[v] > 1]
        single = not plain and any(size[v] > 1 for v in columns)
        told = {v for i in weight.indices for v in free_vars(i)} >= set(sums)
        if not told or not (len(sums) > 1 if plain else sums and single):
            continue
        every = prod(size[v] for v in sums)
        as_lanes = sums if single and data.buffer in given else plain
        alone = min((-(-size[v] // lanes) * (every // size[v]) for v in as_lanes), default=every)
        if always or -(-every // lanes) < alone:
            return data, weight
    return None


def hosts(sch: Schedule, data: BufferLoad) -> bool:
    """Whether the host fills what a block reads; a copy of that, with zeros around it, becomes the host's.

    Args:
        sch: of the program, which reads what the host has filled.
        data: what the block reads.
    """
    packs = filled(sch)
    if data.buffer in packs:
        return True
    maker = writer_of(sch.func, data.buffer)
    if maker is None or not is_copy(maker, packs):
        return False
    try:
        sch.host_stage(sch.get_sblock(maker.name))
    except ScheduleError:
        return False
    return True
