"""Weights that the program makes: vectors that a block stores, which a product reads as the rows of a weight.

The machine stores vectors of lanes, and loads weights of as many vectors one behind the other. So what one block stores another
may multiply as a weight, where the lanes are what it sums over. A copy of the tensor says so: it has the layout of a weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from itertools import product as iter_product

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad
from autosched.ir.stmt import Buffer, PrimFunc
from autosched.schedule import Schedule
from space.normalise import diagonal
from space.normalise.blocks import (
    device_block,
    device_blocks,
    loads_of,
    named,
    product_of,
    readers_of,
    store_of,
    unfit,
    writer_of,
    written,
)
from space.normalise.copies import path_of

MOST_WAYS = 8  # to say which factors are weights, that are tried
AGAIN = 64  # blocks that are computed again, at most


def applies(func: PrimFunc) -> bool:
    """Whether a product has two factors that the program makes, of matrices or element by element.

    Args:
        func: the program.
    """
    return any(len(made) == 2 for _, made in _products(func)) or diagonal.computed(func)


def may(func: PrimFunc) -> bool:
    """Whether a product has a factor that the program makes, which might be a weight.

    Args:
        func: the program.
    """
    return any(True for _ in _products(func))


def cuts(func: PrimFunc) -> bool:
    """Whether a block copies single lanes of what the program makes, which no load does.

    Args:
        func: a program whose tensors lie in whole elements.
    """
    made = written(func)
    stores = [store_of(b) for b in device_blocks(func) if b.init is None]
    return any(isinstance(s.value, BufferLoad) and s.value.buffer in made and s.value.indices[-1] != s.indices[-1]
               for s in stores)


def ways(sch: Schedule, again: bool, most: int = MOST_WAYS) -> Iterator[tuple[Schedule, frozenset[str]]]:
    """Schedules in which one factor of all such products is a copy, a weight, and the names of the blocks that copy.

    The second factors come first. Where one factor is given, the other one may be such a weight, too.

    Args:
        sch: of the program.
        again: whether also every such weight, then every factor of a product, is made by blocks of its own: tensors that two
            products want in different layouts are computed for each of them.
        most: how many ways to choose factors.
    """
    choices = [[(name, k) for k in _factors(sch, name, made)] for name, made in _products(sch.func)]
    for level in (0, 1, 2) if again else (0,):
        for which in islice(iter_product(*choices), most):
            trial = sch.copy()
            try:
                copies = {_copied(trial, name, k) for name, k in which if k is not None}
                for name in [n for n, _ in which] if level == 2 else []:
                    _apart(trial, name, copies)
                for name in sorted(copies) if level == 1 else []:
                    _apart(trial, name, copies)
            except ScheduleError:
                continue  # a result is not computed again
            yield trial, frozenset(copies)


def _products(func: PrimFunc) -> Iterator[tuple[str, list[int]]]:
    """The products of which the program makes a factor, and which factors these are, the second one first."""
    made = written(func)
    for block in device_blocks(func):
        product = product_of(block)
        found = [k for k in (1, 0) if product is not None and product.factors[k].buffer in made]
        if found:
            yield block.name, found


def _factors(sch: Schedule, name: str, made: list[int]) -> list[int | None]:
    """Which factors of a product may be a copy; None where it need not be any: where one is given, or element by element."""
    product = product_of(device_block(sch, name))
    assert product is not None
    stored = set(store_of(product.block).indices)
    own = [set(f.indices) - set(product.factors[1 - k].indices) for k, f in enumerate(product.factors)]
    columns = [k for k in made if own[k] & stored]
    return [*columns, None] if len(made) == 2 else [None, *columns]


def _copied(sch: Schedule, name: str, k: int) -> str:
    """Gives a product a copy of a factor; the name of the block that copies."""
    product = product_of(device_block(sch, name))
    assert product is not None
    path = path_of(store_of(product.block).value, product.factors[k])
    assert path is not None
    return named(sch, sch.decompose_value(sch.get_sblock(name), path))


def _apart(sch: Schedule, reader: str, copies: set[str]) -> None:
    """Lets what a block reads be made by blocks that nothing else needs."""
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


def _own(sch: Schedule, buffer: Buffer, reader: str) -> tuple[str, str] | None:
    """The block that makes a tensor, and the one that makes it for a reader alone; None of what is given to the program."""
    maker = writer_of(sch.func, buffer)
    if maker is None:
        return None
    if len(readers_of(sch.func, buffer)) < 2:
        return maker.name, maker.name
    copy = sch.recompute_at_consumers(sch.get_sblock(maker.name), [sch.get_sblock(reader)])[1]
    return maker.name, named(sch, copy)
