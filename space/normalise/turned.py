"""Weights that the program makes: vectors that a block stores, which a product reads as the rows of a weight.

The machine stores vectors of lanes, and loads weights of as many vectors one behind the other. So what one block stores another
may multiply as a weight, where the lanes are what it sums over. A copy of the tensor says so: it has the layout of a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from itertools import product as iter_product
from math import prod

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from space.normalise import agree, alone, diagonal
from space.normalise.axes import Names
from space.normalise.blocks import (
    device_block,
    device_blocks,
    loads_of,
    named,
    product_of,
    readers_of,
    store_of,
    unfit,
    written,
)
from space.normalise.copies import path_of
from space.normalise.layouts import Way

MOST_WAYS = 8  # to say which factors are weights, that are tried


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


def many(func: PrimFunc) -> bool:
    """Whether there are more ways to say which factors are weights than are tried.

    Args:
        func: the program.
    """
    return prod(map(len, _choices(Schedule(func, seed=0)).values())) > MOST_WAYS


def ways(
    sch: Schedule, again: bool, may: Callable[[Sequence[Block], Names, agree.Weights], bool], most: int = MOST_WAYS
) -> Iterator[tuple[Schedule, Names]]:
    """Schedules in which one factor of all such products is a copy, a weight, and the names of the blocks that copy.

    The second factors come first. Where one factor is given, the other one may be such a weight, too.

    Args:
        sch: of the program.
        again: whether also every such weight, then every factor of a product, is made by blocks of its own: tensors that two
            products want in different layouts are computed for each of them.
        may: whether a layout may come of the program's blocks, some of which copy, and of copies that are still to be made; where
            not, nothing is made.
        most: how many ways to choose factors.
    """
    blocks = device_blocks(sch.func)
    choices = _choices(sch)
    chosen = _Chosen(sch)
    for level in (0, 1, 2) if again else (0,):
        for which in (dict(zip(choices, one)) for one in islice(iter_product(*choices.values()), most)):
            if level == 0 and not may(blocks, frozenset(), which):
                continue
            try:
                trial, copies = chosen.of(which)
                made = device_blocks(trial.func)
                readers = [] if level == 0 else sorted(copies) if level == 1 else [*which]
                if alone.too_many(made, readers):
                    continue
                seen = alone.foreseen(made, readers, copies) if level else None
                if seen is not None and not may(*seen, {}):
                    continue
                for name in readers:
                    alone.apart(trial, name, copies)
            except ScheduleError:
                continue  # a result is not computed again
            if level == 0 or seen is not None or may(device_blocks(trial.func), frozenset(copies), {}):
                yield trial, frozenset(copies)


class _Chosen:
    """Schedules with copies of factors; those that choices begin alike with are made once.

    Args:
        sch: of the program.
    """

    def __init__(self, sch: Schedule) -> None:
        self.made: dict[tuple[tuple[str, int | None], ...], tuple[Schedule, Names]] = {(): (sch, frozenset())}

    def of(self, which: agree.Weights) -> tuple[Schedule, set[str]]:
        """A schedule of the asker's own, and the names of the blocks that copy.

        Raises:
            ScheduleError: what is read cannot be copied.
        """
        sch, copies = self._made(tuple(which.items()))
        return sch.copy(), {*copies}

    def _made(self, choice: tuple[tuple[str, int | None], ...]) -> tuple[Schedule, Names]:
        if choice not in self.made:
            (sch, copies), (name, k) = self._made(choice[:-1]), choice[-1]
            if k is not None:
                sch = sch.copy()
                copies |= {_copied(sch, name, k)}
            self.made[choice] = sch, copies
        return self.made[choice]


def agreed(sch: Schedule, again: bool, most: int, way: Way) -> Iterator[tuple[Schedule, Names]]:
    """As ``ways``, by what products can agree on; where that is nothing, what is read in two layouts is made in both.

    Args:
        sch: of the program.
        again: whether anything is made in both.
        most: how many ways to choose factors.
        way: how the program is to be packed.
    """
    if again and next(agree.choices(device_blocks(sch.func), way, _choices(sch)), None) is None:
        sch = sch.copy()
        with suppress(ScheduleError), sch.all_or_none():  # a result is not computed again
            _in_both(sch)
    # A product by element of what is computed takes a diagonal of every vector: rows of lanes to store, and a weight to load. So
    # what can be a product of matrices is one, if products can agree on that.
    blocks, factors = device_blocks(sch.func), _choices(sch)
    two = {name for name, made in _products(sch.func) if len(made) == 2}
    matrices = {name: [k for k in own if k is not None or name not in two] or own for name, own in factors.items()}
    fewest = [*islice(agree.choices(blocks, way, matrices), most)]
    others = islice(agree.choices(blocks, way, factors), most)
    for which in chain(fewest, (which for which in others if which not in fewest)):
        trial = sch.copy()
        try:
            copies = {_copied(trial, name, k) for name, k in which.items() if k is not None}
        except ScheduleError:
            continue  # what is read cannot be copied
        yield trial, frozenset(copies)


def _in_both(sch: Schedule) -> None:
    """Computes what readers want in several layouts once for each: what sums over an index wants that as lanes, and a stage what
    is wanted of it. What products read to make it is read in one layout still.

    Raises:
        ScheduleError: a primitive refuses.
    """
    wanted: dict[str, int | None] = {}
    done = 0
    for name in [b.name for b in reversed(device_blocks(sch.func))]:
        buffer = store_of(device_block(sch, name)).buffer
        readers: dict[int | None, list[str]] = {}
        for reader in readers_of(sch.func, buffer):
            asked = [_lanes_wanted(reader, x, wanted.get(reader.name)) for x in loads_of(reader) if x.buffer is buffer]
            readers.setdefault(next((d for d in asked if d is not None), None), []).append(reader.name)
        lanes = [d for d in readers if d is not None]
        wanted[name] = lanes[0] if lanes else None
        for d in lanes[1:]:
            done += 1
            if done > alone.AGAIN:
                raise unfit(f"more than {alone.AGAIN} blocks would be computed again")
            made = sch.recompute_at_consumers(sch.get_sblock(name), [sch.get_sblock(reader) for reader in readers[d]])
            wanted[named(sch, made[1])] = d


def _lanes_wanted(reader: Block, load: BufferLoad, stored: int | None) -> int | None:
    """The index of what a block loads that has to be its lanes, if any; where stored, the one of what the block makes."""
    sums = [iv.var for iv in reader.iter_vars if iv.kind == "reduce"]
    lanes = sums if reader.init is not None else [] if stored is None else [store_of(reader).indices[stored]]
    found = [d for d, index in enumerate(load.indices) if index in lanes]
    return found[0] if len(found) == 1 else None


def _choices(sch: Schedule) -> dict[str, list[int | None]]:
    return {name: _factors(sch, name, made) for name, made in _products(sch.func)}


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
