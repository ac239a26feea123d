"""Blocks that make what one reader alone reads: all that it is made of is computed again for that reader.

Two products may want a tensor in different layouts. Where each of them has a copy of what makes it, and of what makes that, each
has it as it likes. How the program looks then follows from who reads what: that is told before any block is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from autosched.ir.expr import Var, int_value
from autosched.ir.functor import free_vars, replace_buffers
from autosched.ir.region import region_bounds
from autosched.ir.stmt import Block, Buffer, Ident
from autosched.schedule import Schedule
from space.normalise.axes import Names, Place
from space.normalise.blocks import device_block, loads_of, named, product_of, readers_of, store_of, unfit, writer_of

AGAIN = 64  # blocks that are computed again, at most


def apart(sch: Schedule, reader: str, copies: set[str]) -> None:
    """Lets what a block reads be made by blocks that nothing else needs.

    Args:
        sch: of the program.
        reader: name of the block.
        copies: names of blocks; gets those of their copies.

    Raises:
        ScheduleError: there would be too many, or what a primitive refuses.
    """
    ahead, done = [reader], 0
    while ahead:
        name = ahead.pop()
        for buffer in dict.fromkeys(x.buffer for x in loads_of(device_block(sch, name))):
            maker = _own(sch, buffer, name)
            if maker is None:
                continue
            done += 1
            if done > AGAIN:
                raise unfit(f"more than {AGAIN} blocks would be computed again")
            ahead.append(maker[1])
            if maker[0] in copies:
                copies.add(maker[1])


def too_many(blocks: Sequence[Block], readers: Sequence[str]) -> bool:
    """Whether ``apart`` would compute too many blocks again for one of some readers: known before any is made.

    In the end each path from what makes something to such a reader has blocks of its own, whoever else reads what they make. A
    primitive may refuse before there are too many, which is to the same effect.

    Args:
        blocks: the accelerator's.
        readers: names of some of them.
    """
    makers: dict[Buffer, str] = {}
    count: dict[str, int] = {}  # by block, those that make what it reads
    for block in blocks:
        ahead = [makers[b] for b in {x.buffer for x in loads_of(block)} if b in makers]
        count.setdefault(block.name, sum(1 + count[maker] for maker in ahead))
        makers.setdefault(store_of(block).buffer, block.name)
    return any(count[reader] > AGAIN for reader in readers)


def foreseen(blocks: Sequence[Block], readers: Sequence[str], copies: Collection[str]) -> tuple[list[Block], Names] | None:
    """The blocks of a program once ``apart`` has been done for some of them, which it is not, and the names of those that copy.

    Iterators keep their domains, where copies run for what is read alone. None where that might tell what a product can be, or
    where it is not known what becomes of the program.

    Args:
        blocks: the accelerator's; not too many of them are computed again.
        readers: names of some of them, in order.
        copies: names of those that copy.
    """
    first = {b.name: [*dict.fromkeys(x.buffer for x in loads_of(b))] for b in blocks}
    if len(first) < len(blocks):
        return None  # which of the blocks of one name is meant primitives say
    of = {b.name: b for b in blocks}
    reads: dict[str, list[Buffer]] = {name: [*tensors] for name, tensors in first.items()}
    made = {b.name: store_of(b).buffer for b in blocks}
    makers = {store_of(b).buffer: b.name for b in reversed(blocks)}
    count = Counter(tensor for tensors in reads.values() for tensor in tensors)
    order, again, turned = [*of], set[str](), {*copies}
    for reader in readers:
        ahead, done = [reader], 0
        while ahead:
            name = ahead.pop()
            for k, tensor in enumerate(reads[name]):
                maker = makers.get(tensor)
                if maker is None:
                    continue
                done += 1
                if done > AGAIN:
                    return None  # blocks read what is made behind them only
                if count[tensor] > 1:
                    copy = f"{maker}#{len(order)}"
                    order.insert(order.index(maker) + 1, copy)
                    of[copy], reads[copy], made[copy] = of[maker], [*reads[maker]], replace(made[maker], ident=Ident())
                    reads[name][k], makers[made[copy]] = made[copy], copy
                    count[tensor] -= 1
                    count.update([*reads[copy], made[copy]])
                    again |= {maker, copy}
                    turned |= {copy} if maker in turned else set()
                    maker = copy
                ahead.append(maker)
    found = []
    for name in order:
        block = of[name]
        new = {a: b for a, b in zip([*first[block.name], store_of(block).buffer], [*reads[name], made[name]]) if a is not b}
        changed = replace_buffers(block, new) if new else block
        assert isinstance(changed, Block)
        found.append(changed if name == block.name else replace(changed, name=name, ident=Ident()))
    return None if _narrower(found, again) else (found, frozenset(turned))


def _narrower(blocks: Sequence[Block], again: Collection[str]) -> bool:
    """Whether a product that might be one by element is among some blocks, and may run for less than its domain there."""
    less: set[Place] = set()  # dimensions along which a block does not read all of a tensor
    for block in reversed(blocks):
        store, dom = store_of(block), {iv.var: iv.dom for iv in block.iter_vars}
        ends = {v for d, i in enumerate(store.indices) if (store.buffer, d) in less for v in free_vars(i)}
        if block.name in again and ends and _along(block):
            return True
        for region in block.reads:
            swept = zip(region.region, region_bounds(region, dom), region.buffer.shape)
            less |= {(region.buffer, d) for d, (r, all_of_it, size) in enumerate(swept)
                     if ends & {*free_vars(r.min)} or int_value(all_of_it.extent) != int_value(size)}
    return False


def _along(block: Block) -> bool:
    """Whether both factors of a product move along an iterator that its result has, too."""
    product = product_of(block)
    one, other = ([*f.indices] for f in product.factors) if product is not None else ([], [])
    return any(isinstance(i, Var) and i in one and i in other for i in store_of(block).indices)


def _own(sch: Schedule, buffer: Buffer, reader: str) -> tuple[str, str] | None:
    """The block that makes a tensor, and the one that makes it for a reader alone; None of what is given to the program."""
    maker = writer_of(sch.func, buffer)
    if maker is None:
        return None
    if len(readers_of(sch.func, buffer)) < 2:
        return maker.name, maker.name
    copy = sch.recompute_at_consumers(sch.get_sblock(maker.name), [sch.get_sblock(reader)])[1]
    return maker.name, named(sch, copy)
