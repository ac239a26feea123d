"""What the host makes the same again and again along an index: a tensor without that index does, and is loaded once.

What a stage reads at the same place for all lanes has got a tensor with lanes and all the stage's other indices. The stage reads
the source again instead, and of that a copy which repeats each element in the lanes of one vector.
"""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Expr, Var, int_value
from autosched.ir.functor import free_vars
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import (
    device_block,
    device_blocks,
    extents,
    filled,
    loads_of,
    pack_blocks,
    product_of,
    readers_of,
    store_of,
    unfit,
)


def apply(sch: Schedule, target: Target) -> None:
    """Makes every such tensor one that repeats nothing but in the lanes of a vector.

    Args:
        sch: of a program whose tensors are packed.
        target: the machine.
    """
    for name in [b.name for b in pack_blocks(sch) if _repeats(b)]:
        # Read at several places, or where no iterator is the lanes, it stays as it is.
        with suppress(ScheduleError), sch.all_or_none():
            _once(sch, name)


def along_one(sch: Schedule) -> None:
    """Of a parameter that has no index of a sum's only term (all that is left of more), the host makes a copy that has it.

    Args:
        sch: of a program whose parameters the host copies.
    """
    packs = filled(sch)
    for name in [b.name for b in device_blocks(sch.func) if product_of(b) is not None]:
        for k, iv in enumerate(device_block(sch, name).iter_vars):
            product = product_of(device_block(sch, name))
            if product is None or iv.kind != "reduce" or int_value(iv.dom.extent) != 1:
                continue
            var = product.block.iter_vars[k].var
            have = [any(var in free_vars(i) for i in f.indices) for f in product.factors]
            lacking = next((f.buffer for f, has in zip(product.factors, have) if not has and f.buffer in packs), None)
            if any(have) and lacking is not None:
                sch.host_stage(sch.spread_operand(sch.get_sblock(name), lacking.name, k))


def _repeats(block: Block) -> bool:
    """Whether a host stage fills vectors with one element of another tensor each, the same ones along some index."""
    store, size = store_of(block), extents(block)
    if not isinstance(store.value, BufferLoad) or len(store.indices) < 3:
        return False
    used = set(free_vars(store.value))
    *outer, rows, lanes = [set(free_vars(i)) for i in store.indices]
    if used & (rows | lanes):
        return False  # other elements in other lanes
    return any(not used & own and any(size[v] > 1 for v in own if isinstance(v, Var)) for own in outer)


def _once(sch: Schedule, name: str) -> None:
    block = next(b for b in pack_blocks(sch) if b.name == name)
    buffer = store_of(block).buffer
    load = store_of(block).value
    assert isinstance(load, BufferLoad)
    readers = [(b.name, _lane(b, buffer)) for b in readers_of(sch.func, buffer)]
    sch.compute_inline(sch.get_sblock(name))
    for reader, lane in readers:
        stage = sch.spread_operand(sch.get_sblock(reader), load.buffer.name, lane)
        sch.host_stage(stage)
        sch.transform_layout(stage, ("write", 0), _lanes_last)


def _lane(block: Block, buffer: Buffer) -> int:
    """The position of the iterator that is the lanes of a tensor which a block reads."""
    last = [x.indices[-1] for x in loads_of(block) if x.buffer is buffer]
    names: list[Expr] = [iv.var for iv in block.iter_vars]
    if len(last) != 1 or last[0] not in names:
        raise unfit(f"block {block.name} reads {buffer.name} in no plain lanes")
    return names.index(last[0])


def _lanes_last(*i: Expr) -> tuple[Expr, ...]:
    return (*i[1:], i[0] % 1, i[0])
