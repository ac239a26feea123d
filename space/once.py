"""How much of a program is not the same again: sums, results and elements of operands that draws of its parameters tell apart."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.ir.expr import BufferLoad
from autosched.ir.stmt import Buffer
from autosched.lower.regions import shape_of
from space.drawn import Drawn, Keys, Marks
from space.elements import NOWHERE, Ints, Mask, Site, of_rank
from space.known import LARGE, Known, TooLargeError
from space.visits import MIX

CHECKED = (3, 6, 12, 18, 24, 32)  # draws after which no more are made if they tell all apart
ENOUGH = 18  # after which they are enough, too, if they tell hardly more apart than before
MORE = 500  # so many to one are hardly more

PAIRS = 1 << 21  # products from which on they are not looked at pair by pair: that would cost a second


@dataclass(frozen=True)
class Kept:
    """What is left of some elements where those that are the same ones count once, and those that are numbers do not.

    Args:
        left: how many, at least; of sums, how many products they have.
        every: how many there are with all that are the same.
        results: of sums, how many; else as many as ``left``.
        visits: of sums, how often products are added to them, so many at once as an element of data has; else 0.
    """

    left: int
    every: int
    results: int
    visits: int = 0

    @property
    def fewer(self) -> bool:
        """Whether there are others that are the same."""
        return self.left < self.every


@dataclass(frozen=True)
class Maker:
    """What one nest makes.

    Args:
        original: nests that make the same in other layouts have it in common.
        sums: its blocks that add up products, in order.
        stored: the tensors that it stores.
    """

    original: str
    sums: tuple[str, ...]
    stored: tuple[str, ...]


class Once:
    """What of a program's nests counts once.

    Args:
        known: the program in blocks.
        drawn: draws of its parameters.
        makers: its nests, in order.
        deep: how many products a sum gets at once.
        aside: names of tensors that another program keeps in the accumulator: what is the same as these is not there.

    Attributes:
        drawn: the draws.
    """

    def __init__(self, known: Known, drawn: Drawn, makers: Sequence[Maker], deep: int, aside: Set[str] = frozenset()) -> None:
        self._known, self._makers, self._deep, self._aside = known, makers, deep, aside
        self.drawn = drawn
        self._found: dict[str, Keys] = {}  # pairs, by block, once all draws are made
        self._sites = {site.block.name: site for site in known.sites}
        self._buffers = {b.name: b for b in (*known.func.buffers, *(s.store.buffer for s in known.sites))}

    def draw(self) -> bool:
        """Draws until all is told apart, or no more than before; whether at all."""
        draws, before = 0, list[Kept | None]()
        while self.drawn.draw():
            draws += 1
            if draws in CHECKED:
                found = self._told()
                more = any(a is None or b is None or a.left * MORE < b.left * (MORE + 1) for a, b in zip(before, found))
                if (draws >= ENOUGH and not more) or not any(kept is not None and kept.fewer for kept in found):
                    break
                before = found
        return draws > 0

    def _told(self) -> list[Kept | None]:
        """What of everything is left, so far as draws have told."""
        found = [self.sums(m, block, False) for m in self._makers for block in m.sums]
        found += [self.made(m, name, anew=True) for m in self._makers for name in m.stored]
        given = [b for b in self._known.func.buffers if b in self._known.needed]
        return found + [self.of(b, self._known.needed[b] & self._known.some_of(b)) for b in given]

    def same(self) -> dict[Buffer, dict[Buffer, Ints]]:
        """Which elements are needed in the place of a tensor's: the first that are the same.

        Returns:
            By tensor, by tensor that holds them, in order of the former's elements: places in the latter, or ``NOWHERE``. Of what
            nests store those count that the program is given, or that nests before have stored.
        """
        found: dict[Buffer, dict[Buffer, Ints]] = {}
        makers = {self._buffers[name]: m for m in self._makers for name in m.stored if name in self._buffers}
        given = [b for b in self._known.func.buffers if b not in makers]
        for buffer in dict.fromkeys(site.store.buffer for site in self._known.sites):
            marks, size = self.drawn.tensors.get(buffer), prod(shape_of(buffer))
            if marks is None or size > LARGE:
                continue
            keys, varied = (np.broadcast_to(x, shape_of(buffer)).ravel() for x in (marks.keys, marks.varied))
            _, first, which = np.unique(keys, return_index=True, return_inverse=True)
            own, held = np.where(varied, first[which.ravel()], np.arange(size)), dict[Buffer, Ints]()
            for holder in [*given, *self._stored_before(makers[buffer])] if buffer in makers else ():
                places = self._places(keys, varied & (own != NOWHERE), holder)
                if np.any(places != NOWHERE):
                    held[holder], own = places, np.where(places == NOWHERE, own, NOWHERE)
            if held or np.any(own != np.arange(size)):
                found[buffer] = {**held, buffer: own}
        return found

    def _places(self, keys: npt.NDArray[Any], some: Mask, holder: Buffer) -> Ints:
        """Where a tensor has some elements, if it does."""
        marks = self.drawn.tensors.get(holder)
        if marks is None:
            return np.full(len(keys), NOWHERE)
        there = np.broadcast_to(marks.keys, shape_of(holder)).ravel()
        order = np.argsort(there, kind="stable")
        at = np.searchsorted(there[order], keys).clip(0, len(there) - 1)
        return np.where(some & (there[order][at] == keys), order[at], NOWHERE)

    def sums(self, maker: Maker, block: str, pairs: bool = True) -> Kept | None:
        """Products of a block's sums that no sum before has; None where it is not known.

        A sum has as many products as it has different elements of the factor that has fewer: x w + x v is x (w + v).

        Args:
            maker: the nest.
            block: of it.
            pairs: whether products are looked for that several sums have in common, too.
        """
        site, marks = self._sites.get(block), self.drawn.sums.get(block)
        terms = None if site is None else self._known.terms(site)
        if site is None or terms is None or marks is None:
            return None
        try:
            counts = self._known.counts(site, terms)
            sides = [n for n in (self._different(site, x) for x in terms) if n is not None]
            wanted = self._known.wanted(site)
            limit: Ints = reduce(np.minimum, sides, counts).astype(np.int64)
            shape = [site.extents[iv.var] if iv.var in site.spatial else 1 for iv in site.block.iter_vars]
            every = _times(np.where(wanted, counts, 0), shape)
            keys, limit, some = np.broadcast_arrays(marks.keys, limit, wanted & marks.varied & (limit > 0))
            keys, which = np.unique(keys[some], return_inverse=True)
            least = np.full(len(keys), np.iinfo(np.int64).max)
            np.minimum.at(least, which.ravel(), limit[some])
        except TooLargeError:
            return None
        others = [*(x for m in self._before(maker) for x in m.sums), *maker.sums[: maker.sums.index(block)]]
        before = [_keys(own, own.varied) for x in others if (own := self.drawn.sums.get(x)) is not None]
        fresh = ~_among(keys, before)
        least = least[fresh]
        left = int(least.sum())
        formed = self._pairs(block) if pairs else None
        if formed is not None:
            earlier = [x for x in map(self._pairs, others) if x is not None]
            left = min(left, int(np.count_nonzero(~_among(formed, earlier))))
        return Kept(left, every, len(least), int((-(-least // self._deep)).sum()))

    def visits(self) -> int | None:
        """How often products are added to sums, each sum made once; None where that is not known of all."""
        found = [self.sums(m, block) for m in self._makers for block in m.sums]
        return None if None in found else sum(kept.visits for kept in found if kept is not None)

    def made(self, maker: Maker, name: str, anew: bool = False) -> Kept | None:
        """Elements of a tensor that a nest stores which are no others before; None where it is not known.

        Args:
            maker: the nest.
            name: of the tensor.
            anew: without those that the program is given, or has stored before.
        """
        buffer = self._buffers.get(name)
        marks = None if buffer is None else self.drawn.tensors.get(buffer)
        if buffer is None or marks is None or buffer not in self._known.needed:
            return None
        mask = self._known.needed[buffer] & self._known.some_of(buffer, True)
        keys = _keys(marks, mask)
        left = self._fresh(keys, maker) if anew else len(keys)
        return Kept(left, _times(mask, shape_of(buffer)), left)

    def of(self, buffer: Buffer, mask: Mask) -> Kept | None:
        """Elements of a tensor that have to be in memory, of some; None of one that is all numbers, or not known.

        Those that are the same have to be there once, and of what nests make for others none that is there before.

        Args:
            buffer: the tensor.
            mask: which elements.
        """
        marks = self.drawn.tensors.get(buffer)
        if marks is None or not marks.varied.any():
            return None
        keys = _keys(marks, mask)
        result = buffer in self._known.func.buffers
        maker = None if result else next((m for m in self._makers if buffer.name in m.stored), None)
        left = len(keys) if maker is None else self._fresh(keys, maker)
        return Kept(left, _times(mask, shape_of(buffer)), left)

    def _fresh(self, keys: Keys, maker: Maker) -> int:
        """How many of some different elements are none that the program is given, or that nests before one have stored."""
        before = [m.keys.ravel() for m in self.drawn.given.values()]
        before += [self.drawn.tensors[b].keys.ravel() for b in self._stored_before(maker)]
        return int(np.count_nonzero(~_among(keys, before)))

    def _stored_before(self, maker: Maker) -> list[Buffer]:
        """What other nests have stored before one, where that is in memory."""
        names = [x for m in self._before(maker) for x in m.stored if x in self._buffers and x not in self._aside]
        return [self._buffers[x] for x in names if self._buffers[x] in self.drawn.tensors]

    def _before(self, maker: Maker) -> list[Maker]:
        """Nests before one, but those that make the same."""
        return [m for m in self._makers[: self._makers.index(maker)] if m.original != maker.original]

    def _pairs(self, block: str) -> Keys | None:
        """The different products that a block's sums have, ascending: several sums may have one in common.

        None where it has no sums of products, a factor is all numbers, or there are too many.
        """
        if block in self._found:
            return self._found[block]
        site = self._sites.get(block)
        terms = None if site is None else self._known.terms(site)
        if site is None or terms is None:
            return None
        found = [(m, x) for x in terms if (m := self.drawn.tensors.get(x.buffer)) is not None and m.varied.any()]
        if prod(site.extents.values()) > PAIRS or len(found) < len(terms):
            return None
        a, b = (self._known.at(site, m.keys, x) for m, x in found)
        varied = [self._known.at(site, m.varied, x) for m, x in found]
        # One number of both, whichever comes first.
        pairs, some = np.broadcast_arrays(a * b + (a + b) * np.uint64(MIX), varied[0] & varied[1] & self._known.wanted(site))
        self._found[block] = _different(pairs[some])
        return self._found[block]

    def _different(self, site: Site, load: BufferLoad) -> Ints | None:
        """How many different elements a sum has of a factor, for all sums; None of one that is all numbers, or not known."""
        marks = self.drawn.tensors.get(load.buffer)
        if marks is None or not marks.varied.any():
            return None
        keys = self._known.at(site, marks.keys.view(np.int64), load)
        varied = self._known.at(site, marks.varied, load)
        own = [iv.var for iv in site.block.iter_vars]
        keys, varied = (of_rank(x, len(own)) for x in np.broadcast_arrays(keys, varied))
        axes = [n for n, v in enumerate(own) if v in site.reduce]
        rest = [1 if n in axes else size for n, size in enumerate(keys.shape)]
        rows = np.moveaxis(np.where(varied, keys, 0), axes, range(-len(axes), 0)).reshape(prod(rest), -1)
        rows = np.sort(rows, axis=1)
        found = np.count_nonzero(rows[:, 1:] != rows[:, :-1], axis=1) + 1 - (rows == 0).any(axis=1)
        return np.asarray(found).reshape(rest)


def _keys(marks: Marks, mask: Mask) -> Keys:
    """Numbers of the different elements of some that are not always the same number."""
    keys, some = np.broadcast_arrays(marks.keys, mask & marks.varied)
    return _different(keys[some])


def _among(keys: npt.NDArray[Any], others: Sequence[npt.NDArray[Any]]) -> Mask:
    """Which numbers are among others."""
    ascending = np.sort(np.concatenate(others)) if others else keys[:0]
    if not len(ascending):
        return np.zeros(len(keys), np.bool_)
    return np.asarray(ascending[np.searchsorted(ascending, keys).clip(0, len(ascending) - 1)] == keys)


def _different(keys: Keys) -> Keys:
    """The different ones of some numbers, ascending; NumPy's own takes ten times as long where they are many."""
    ascending = np.sort(keys)
    return ascending[np.append(True, ascending[1:] != ascending[:-1])] if len(keys) else ascending


def _times(counts: npt.NDArray[np.generic], shape: Sequence[int]) -> int:
    """What numbers add up to, each as often as it stands for a place."""
    counts = of_rank(counts, len(shape))
    return int(counts.sum()) * prod(size for size, own in zip(shape, counts.shape) if own == 1)
