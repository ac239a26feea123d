"""What masks leave of a program's products: which have a factor that is always 0, or are of results that nobody needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autosched.ir.expr import BinOp, BufferLoad, Cast, Expr, Var, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.interp import written
from autosched.ir.patterns import has_loads, loads_in
from autosched.ir.scopes import WGT
from autosched.ir.stmt import Buffer, PrimFunc
from autosched.lower.regions import shape_of
from space.again import Again
from space.drawn import Drawn
from space.elements import NOWHERE, Ints, Mask, Site, UnknownError, access, loads_under, of_rank, sites_in
from space.known import PARTS, Known, TooLargeError, tables
from space.lanes import fillings, least_products
from space.once import Kept, Maker, Once
from space.passing import passing, stored
from space.sites import LANES

if TYPE_CHECKING:
    from space.model import Model
    from space.operands import Operand


@dataclass(frozen=True)
class Formed:
    """The products of a block that may be something else than 0, of results that are needed.

    Args:
        terms: these products, of two elements each.
        products: those of a vector and a tile with any of them; 0 where the layout is the space's choice.
        every: how many terms a result has with those that are 0.
        fewest: terms of a result that has any, at least.
        reach: how many terms, of any elements, get as far as those of results do, ascending, without 0.
        results: how many results get as far, or further.
        vectors: how many vectors have a result that does.
    """

    terms: int
    products: int
    every: int
    fewest: int = 0
    reach: tuple[Fraction, ...] = ()
    results: tuple[int, ...] = ()
    vectors: tuple[int, ...] = ()


class Formings:
    """What is formed of a program, block by block.

    Args:
        models: of its nests.
        apart: whether the program's text has to tell what is the same; else draws do.
    """

    def __init__(self, models: Sequence[Model], apart: bool = True) -> None:
        full = fillings(models[0].laid)
        func = models[0].nest.func
        some = {name: f.some for name, f in full.items() if f.some is not None}
        values = {name: f.values for name, f in full.items() if f.values is not None}
        ends = {name: f.ends for name, f in full.items() if f.ends is not None}
        self._passing, made = passing(models), {name for model in models for name in stored(model.nest)}
        self._stored = made | {b.name for b in func.buffers}
        given, results = tables(func, some, values, ends), asked(models[0].unpacking, {}, True, {})
        # Before anything is drawn, what the text says is known.
        self.known: Known = Known(func, given, results, made, self._passing) if apart else formings(tuple(models)).known
        makers = [Maker(m.original or m.nest.out, _sums(m), tuple(stored(m.nest))) for m in models]
        self._makers = dict(zip(models, makers))
        self._once: Once | None = None
        once = None if apart else Once(
            self.known, Drawn(self.known, models[0].laid), makers, models[0].config.block_in, self._passing)
        if once is not None and once.draw():
            same = once.same()
            # What is the same as something else is needed nowhere, nor what it alone is made of.
            self.known = Known(func, given, results, made, self._passing, same) if same else self.known
            self._once = once
        self._models, self._some = models, some
        self._free, self._packing = bool(models[0].origins), models[0].packing
        self._moved = {name for name, filling in full.items() if filling.moved}
        self._again = Again(self.known, models[0].laid)
        self._sites = {site.block.name: site for site in self.known.sites}
        self._buffers = {b.name: b for b in (*func.buffers, *(s.store.buffer for s in self.known.sites), *self.known.unseen)}
        self._constants = {c.buffer.name: c.buffer for c in func.constants}

    @property
    def drawn(self) -> bool:
        """Whether draws have told what is the same: none of it is needed then, and the text need not tell how often it stands."""
        return self._once is not None

    def of(self, block: str | None) -> Formed | None:
        """What is formed of a block's products; None where it is no sum of products of elements.

        Args:
            block: its name.
        """
        site = self._sites.get(block or "")
        terms = None if site is None else self.known.terms(site)
        if site is None or terms is None:
            return None
        try:
            return _formed(self.known, site, self._free)
        except (TooLargeError, UnknownError):
            return Formed(0, 0, 1)  # of what is too large to look at nothing is counted

    def limited(self, blocks: Sequence[str]) -> dict[str, int]:
        """How many results go past the constant of a minimum or maximum, by its kind; without kinds of which nobody knows.

        What is added to a sum may be numbers (of the places of elements, of a mask) of which few are large.

        Args:
            blocks: names of a nest's stages.
        """
        found: dict[str, int] = {}
        try:
            for site in (self._sites[name] for name in blocks):
                if site.store.buffer in self.known.unseen or site.store.buffer not in self.known.needed:
                    return {}
                for kind, past in _past(self.known, site):
                    found[kind] = max(int(past.sum()) * _times(site, past, set(site.spatial)), found.get(kind, 0))
        except (KeyError, TooLargeError, UnknownError):
            return {}
        return found

    def least(self, model: Model, operand: int, least: int, share: Fraction) -> int:
        """Elements of an operand that some product or stage of a result uses, at least.

        Args:
            model: of its nest.
            operand: its number.
            least: the same of a program that masks nothing.
            share: of the lanes of results, those that are the program's; where the layout is the space's choice.
        """
        own = model.nest.operands[operand]
        found = self._taken(own, [own])
        if found is None:
            return least
        # Of what a block of the program's own masks in another way than at borders, nobody else knows how much is padding.
        masked = own.producer is not None and not own.inside
        lanes = prod(model.target.memories[own.scope].lanes)
        most = ceil(Fraction(found[0], lanes) / share) if model.origins and share else found[1]
        return most if masked else min(least, most)

    def real(self, model: Model, own: Operand, least: int, fuller: bool, alone: bool = False) -> int:
        """Elements of an operand, at least, that hold what of it is used, as full as they may be.

        Args:
            model: of its nest.
            own: the operand.
            least: the same of a program that masks nothing.
            fuller: whether the form repeats elements so as to fill lanes; another one shows then which are read.
            alone: what its own readers use; else all that somebody does who has it in that memory, or a copy of it.
        """
        readers = [own] if alone else [o for m in self._models for o in m.nest.operands if o.scope == own.scope]
        found = self._taken(own, readers)
        if found is None:
            return least
        if not model.origins:
            return min(least, found[1]) if own.producer is None or own.inside else found[1]
        # Of what the host moves several tensors may hold parts, and be one in another layout.
        origins = model.origins.get(own.name)
        parts = {o.name for m in self._models for o in m.nest.operands if o.scope == own.scope and o.name in self._moved
                 and model.origins.get(o.name) == origins}
        masked = own.producer is not None and not own.inside
        several = own.name in parts and (masked or len(parts) > 1 or (not fuller and self._repeats(own.name)))
        elements = self._given(parts, readers) if several else found[0]
        most = -(-elements // prod(model.target.memories[own.scope].lanes))
        return most if masked else min(least, most)

    def _repeats(self, name: str) -> bool:
        """Whether the host lays elements out repeatedly, or that is not known."""
        try:
            return self._again.packed(name) > 1
        except UnknownError:
            return True

    def _taken(self, operand: Operand, readers: Sequence[Operand]) -> tuple[int, int] | None:
        """(elements, whole ones of the memory) of an operand that count and some operands' readers need; None as for ``used``."""
        buffer = self._buffers.get(operand.name)
        if buffer is None:
            constant = self._constants.get(operand.name)
            return (0, 0) if constant is not None and constant not in self.known.needed else None
        if buffer in self.known.unseen:
            return 0, 0
        mask = self._read(buffer, readers) & self.known.some_of(buffer)
        found, times = _count(buffer, mask, LANES), self._times(buffer, mask)
        elements, whole = -(-found[0] // times), -(-found[1] // times)
        kept = self._kept(buffer, mask)
        if kept is None:
            return elements, whole
        return min(elements, kept.left), min(whole, -(-kept.left // prod(shape_of(buffer)[-LANES:])))

    def _kept(self, buffer: Buffer, mask: Mask) -> Kept | None:
        """What is left of some elements of a tensor where those that are the same ones count once; None where none are."""
        kept = self._once.of(buffer, mask) if self._once is not None else None
        return kept if kept is not None and kept.fewer else None

    def _read(self, buffer: Buffer, readers: Sequence[Operand]) -> Mask:
        """Which elements of a tensor those need who read some operands, themselves or as copies."""
        texts = {(block, o.name) for o in readers for block in (o.producer, *o.readers)}
        found = np.zeros([1] * len(buffer.shape), np.bool_)
        for (block, read, holds), mask in self.known.read.items():
            if holds is buffer and (block, read.name) in texts:
                found = found | mask
        return found

    def _given(self, parts: set[str], readers: Sequence[Operand]) -> int:
        """Elements of the program's tensors that are needed for some that the host makes of them."""
        wanted = {name: self._read(b, readers) & self.known.some_of(b) for name, b in self._buffers.items()
                  if name in parts and b not in self.known.unseen}
        shapes = {b.name: b for stage in self._packing for b in stage.buffers}
        made = {b.name for stage in self._packing for b in written(stage)}
        found = asked(self._packing, wanted, False, self._some)
        return sum(_count(shapes[name], mask, 0)[0] for name, mask in found.items() if name not in made)

    def stored(self, name: str, vectors: int, lanes: int) -> int:
        """Vectors of a tensor that have to be stored, at least: of what only other nests read, those that these need.

        Args:
            name: of the tensor.
            vectors: the same of a program that masks nothing.
            lanes: of a vector.
        """
        buffer = self._buffers.get(name)
        if buffer is None or buffer in self.known.func.buffers:
            return vectors
        mask = self.known.needed.get(buffer, np.ones([1] * len(buffer.shape), np.bool_))
        found = -(-self.made(name, vectors, lanes) // self._times(buffer, mask))
        kept = self._kept(buffer, mask)
        return found if kept is None else min(found, -(-kept.left // lanes))

    def made(self, name: str, vectors: int, lanes: int, anew: bool = False) -> int:
        """Vectors of a tensor with an element that is needed and may take more than one value, at least.

        Args:
            name: of the tensor.
            vectors: the same of a program that masks nothing.
            lanes: of a vector.
            anew: without elements that are copies of others: nothing is done to these.
        """
        found = self.used(name, anew)
        return vectors if found is None else min(vectors, -(-found[0] // lanes) if self._free else found[1])

    def sums(self, model: Model, block: str | None) -> Kept | None:
        """What is left of a block's products where sums that are the same are made once; None where none are, or nobody knows.

        Args:
            model: of its nest.
            block: its name.
        """
        maker = self._makers[model]
        found = self._once.sums(maker, block) if self._once is not None and block is not None and block in maker.sums else None
        return found if found is not None and found.fewer else None

    def visits(self, least: int) -> int:
        """How often products are added to results, at least, where sums that are the same are made once.

        Args:
            least: the same by the program's text.
        """
        found = None if self._once is None else self._once.visits()
        return least if found is None else min(least, found)

    def results(self, model: Model, anew: bool = False) -> int | None:
        """Elements that a nest makes where those that are the same ones are made once; None where none are, or nobody knows.

        Args:
            model: of the nest.
            anew: without those that are there already.
        """
        maker = self._makers[model]
        found = [self._once.made(maker, name, anew) for name in maker.stored] if self._once is not None else []
        fewer = [kept.left for kept in found if kept is not None and kept.fewer]
        return max(fewer) if fewer and len(fewer) == len(found) else None

    def once(self, model: Model, operands: Sequence[Operand]) -> Fraction:
        """The share of results that are no others, at least, of whichever are left: operands may have elements repeatedly.

        Args:
            model: of their nest.
            operands: those of a sum.
        """
        try:
            found = [self._copies(o) for o in operands if model.origins and not self.drawn]
        except UnknownError:
            return Fraction(0)
        return Fraction(1, prod(found))

    def _copies(self, operand: Operand) -> int:
        """How often an element of the program's stands among an operand's, at most.

        Raises:
            UnknownError: it is not known.
        """
        times: dict[str, int] = {}
        for stage in self._packing if operand.name in self._moved else ():
            made: dict[str, int] = {}
            for _, site in sites_in(stage):
                if site is None:
                    raise UnknownError
                name = site.store.buffer.name
                made[name] = made.get(name, 0) + max([
                    times.get(load.buffer.name, 1) * most_read(site, load, given)
                    for load, given in loads_under(site.store.value, ())], default=0)
            for name, count in made.items():
                times[name] = times.get(name, 0) + count
        own = self._sites.get(operand.producer or "")
        again = [most_read(own, *read) for read in loads_under(own.store.value, ())] if own is not None else []
        return max(times.get(operand.name, 1), 1) * max(again, default=1)

    def copies(self, model: Model) -> Iterator[tuple[int, Operand]]:
        """Tensors that are read in an operand's place, as it has copies of them: with its number.

        Args:
            model: of a nest.
        """
        for k, operand in enumerate(model.nest.operands):
            for name in sorted((self.kin(operand.name) & self._stored) - {operand.name} - self._passing):
                yield k, replace(operand, name=name, producer=None, twin=False)

    def again(self, operands: Sequence[Operand]) -> int:
        """How many results of a nest are made of the same elements, at most, because nests before have stored these repeatedly.

        Args:
            operands: those of a sum.
        """
        times = 1
        for o in operands if not self.drawn else ():
            buffer, site = self._buffers.get(o.name), self._sites.get(o.producer or o.consumer)
            if buffer is not None and site is not None and o.name in self._stored:
                # Along a reduction an element may stand in a sum repeatedly; that makes no results alike.
                spatial = site.spatial if o.producer is None else tuple(site.extents)
                at = (x for x in loads_in(site.store.value) if x.buffer is buffer)
                dims = {d for x in at for d, i in enumerate(x.indices) if not set(spatial).isdisjoint(walk_expr(i))}
                times *= self._again.of(buffer, frozenset(dims))
        return times

    def kin(self, name: str) -> frozenset[str]:
        """Tensors that a tensor has elements of, as they are, itself among them.

        Args:
            name: of the tensor.
        """
        buffer = self._buffers.get(name)
        others = self.known.copied.get(buffer, {}) if buffer is not None else {}
        return frozenset((name, *(b.name for b in others)))

    def used(self, name: str, anew: bool = False) -> tuple[int, int] | None:
        """(elements, whole ones of the memory) of a tensor that are needed and no numbers; None of one that is not the program's.

        Args:
            name: of the tensor.
            anew: without those that are copies.
        """
        buffer = self._buffers.get(name)
        if buffer is None:
            return None
        if buffer in self.known.unseen or buffer not in self.known.needed:
            return 0, 0
        mask = self.known.needed[buffer] & self.known.some_of(buffer, True)
        for other, copies in self.known.copied.get(buffer, {}).items():
            mask = mask & ~copies if anew and other.name in self._stored else mask
        return _count(buffer, mask, LANES)

    def _times(self, buffer: Buffer, mask: Mask) -> int:
        """How often an element stands among some of a tensor that only other nests read, at most."""
        others = [tuple(n for n in range(mask.ndim) if n != d) for d in range(mask.ndim)]
        dims = frozenset(d for d, axes in enumerate(others) if mask.shape[d] == 1 or np.count_nonzero(mask.any(axis=axes)) > 1)
        return 1 if self.drawn or buffer in self.known.func.buffers else self._again.of(buffer, dims)


@lru_cache(maxsize=8)
def formings(models: tuple[Model, ...], apart: bool = True) -> Formings:
    """What is formed of a program.

    Args:
        models: of its nests.
        apart: as for ``Formings``.
    """
    return Formings(models, apart)


def deep(models: tuple[Model, ...], masks: bool) -> int:
    """Products that a sum of a program has, at least, of those with any that is needed; 0 where that is not known.

    Args:
        models: of a sketch, one for every nest.
        masks: whether the program masks more than borders, so that sums may be of fewer products than others.
    """
    if len(models) > 1:
        return 0
    found, nest = formings(models), models[0].nest
    formed = found.of(nest.anchor)
    known = formed.fewest if formed is not None else 0
    if not masks:
        return min(known, least_products(models[0], fillings(models[0].packing)))
    # What is laid out repeatedly may stand in a sum as often.
    return int(known * found.once(models[0], [o for o in nest.operands if o.scope == WGT and o.consumer == nest.anchor]))


def _count(buffer: Buffer, mask: Mask, lanes: int) -> tuple[int, int]:
    """(how many elements of a tensor a mask has, how many vectors of its last dimensions, so many of them, have any of these)."""
    times = [(int_value(size) or 0) if mask.shape[d] == 1 else 1 for d, size in enumerate(buffer.shape)]
    outer = len(times) - lanes
    whole = int(np.count_nonzero(mask.any(axis=tuple(range(outer, len(times)))))) * prod(times[:outer])
    return int(np.count_nonzero(mask)) * prod(times), whole


def _formed(known: Known, site: Site, free: bool) -> Formed:
    """Counts the products of a block; those of vectors and tiles where the layout is not ``free``."""
    terms = known.terms(site)
    assert terms is not None
    own = [iv.var for iv in site.block.iter_vars]
    sides, wanted = [known.some(site, load) for load in terms], known.wanted(site)
    spatial, reduce = set(site.spatial), prod(site.shape(site.reduce))
    lanes = {v for index in (*site.store.indices[-2:], terms[0].indices[-1]) for v in walk_expr(index) if isinstance(v, Var)}
    outer = {v for v in own if v not in lanes}
    pairs = np.zeros([1] * len(own), np.bool_) if free else known.contract(site, [*sides, wanted], outer) > 0
    products = int(np.count_nonzero(pairs)) * _times(site, pairs, outer)
    found = known.counts(site, terms)
    counts: Ints = np.where(wanted, found, 0).astype(np.int64)
    sums = int(counts.sum()) * _times(site, counts, spatial)
    far: Ints = np.where(counts > 0, known.far(site, terms), 0).astype(np.int64)
    numbers, results = _ranked(far, _times(site, far, spatial))
    most: Ints = far.max(axis=tuple(n for n, v in enumerate(own) if v in lanes), keepdims=True)
    ranks, vectors = _ranked(most, _times(site, most, spatial & outer))
    of = dict(zip(ranks, vectors))
    above = [next((of[m] for m in ranks if m >= n), 0) for n in numbers]
    fewest = int(counts[counts > 0].min(initial=reduce)) if counts.any() else 0
    return Formed(sums, products, reduce, fewest, tuple([Fraction(n, PARTS) for n in numbers]), tuple(results), tuple(above))


def _past(known: Known, site: Site) -> Iterator[tuple[str, Mask]]:
    """Of each minimum and maximum with a constant, its kind, and which results are past it, and are no number in the end."""
    least, most = known.value(site, site.store.value)
    wanted = known.wanted(site) & (least < most)
    for e in walk_expr(site.store.value):
        if not (isinstance(e, BinOp) and e.op in ("min", "max") and has_loads(e)):
            continue
        for own, other in ((e.a, e.b), (e.b, e.a)):
            constant = int_value(other.value if isinstance(other, Cast) else other)
            if constant is not None:
                low, high = known.value(site, own)
                past = wanted & (low < constant if e.op == "max" else high > constant)
                yield e.op, of_rank(np.asarray(past), len(site.block.iter_vars))


def _sums(model: Model) -> tuple[str, ...]:
    """The blocks of a nest that may add up products, in order."""
    return (*([model.nest.anchor] if model.nest.anchor else []), *(s.block for s in model.nest.stages if s.products))


def most_read(site: Site, load: BufferLoad, given: Sequence[Expr]) -> int:
    """How often a block stores an element that it reads, at most.

    Args:
        site: the block, which moves elements.
        load: what it reads.
        given: conditions under which it does.

    Raises:
        UnknownError: it is not known.
    """
    found = access(site, load, given)
    places = found.places[found.places != NOWHERE]
    again = prod(site.extents[v] for v in site.spatial if v not in found.variables)
    return again * int(np.bincount(places).max()) if places.size else 0


def _times(site: Site, table: npt.NDArray[np.generic], variables: set[Var]) -> int:
    """For how many values of some iterators each entry of a table stands that has no dimension for them."""
    own = [iv.var for iv in site.block.iter_vars]
    return prod(site.extents[v] for n, v in enumerate(own) if v in variables and table.shape[n] == 1)


def _ranked(counts: Ints, times: int) -> tuple[list[int], list[int]]:
    """(the numbers there are but 0, ascending; how many entries are no less than each)."""
    numbers, found = np.unique(counts[counts > 0], return_counts=True)
    return numbers.tolist(), (found[::-1].cumsum()[::-1] * times).tolist()


def asked(stages: Sequence[PrimFunc], wanted: Mapping[str, Mask], others: bool, some: Mapping[str, Mask]) -> dict[str, Mask]:
    """Which elements stages of the host read for others, by name; with these.

    Args:
        stages: of one side of the accelerator, in order.
        wanted: elements of what they make, by name.
        others: whether of other tensors that they make all are wanted; else none.
        some: which elements of tensors may be something else than 0, by name.
    """
    found = dict(wanted)
    for stage in reversed(stages):
        made = written(stage)
        results = {b.name: found.get(b.name, np.full([1] * len(b.shape), others)) for b in made}
        known = Known(stage, tables(stage, some, {}, {}), results)
        for buffer, own in known.needed.items():
            if buffer not in made:
                own = np.zeros([1] * own.ndim, np.bool_) if buffer in known.unseen else own
                found[buffer.name] = found[buffer.name] | own if buffer.name in found else own
    return found
