"""How often the GEMM visits results at least, in whatever layout: a visit adds so many products to one, and no more.

A micro-operation adds to each of its results at most ``block_in`` products. A sum of K products that no other sum has is visited
at least ceil(K / block_in) times, however operands are packed; docs/bound/visits.md has the proof. What of a program's products
are such sums is read from its text, element by element. Of what is not understood nothing is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Var, int_value
from autosched.ir.functor import expr_children, walk, walk_expr
from autosched.ir.host import is_move
from autosched.ir.patterns import has_loads, loads_in, update_of
from autosched.ir.stmt import Buffer, BufferStore, PrimFunc
from autosched.ir.value_bounds import ValueBounds
from autosched.lower.regions import shape_of
from autosched.target import Target
from space.elements import (
    NOWHERE,
    Ints,
    Site,
    UnknownError,
    access,
    branches,
    distinct,
    distinct_along,
    in_blocks,
    loads_under,
    needed_blocks,
    of_rank,
    sites_in,
    spread,
    unsettled,
)
from space.known import Known
from space.normalise.blocks import elements_of

MIX = 0x9E3779B97F4A7C15  # makes a number of an element one whose sums tell sets apart


@dataclass(frozen=True)
class _Leaf:
    """What a value is a sum of: an element, or a product of two.

    Args:
        loads: the element, or both factors; none where it is neither.
        given: conditions under which it is a part of the value.
    """

    loads: tuple[BufferLoad, ...]
    given: tuple[Expr, ...]


@dataclass(frozen=True)
class _End:
    """A value that something is done to which is no sum.

    Args:
        value: it.
        leaves: what it is a sum of.
    """

    value: Expr
    leaves: list[_Leaf]


@dataclass(frozen=True)
class _Sums:
    """What a tensor holds that is a sum of products and of what has none.

    Args:
        counts: how many products each element sums up.
        members: numbers of the blocks' products that they are.
    """

    counts: Ints
    members: frozenset[int]


@dataclass
class _Text:
    """What is known of a program's tensors, block after block.

    Args:
        func: the program, in blocks.
        lanes: products that a visit adds to a result.
        widens: whether int8 elements come in by products only.
        known: what of its elements is known.
    """

    func: PrimFunc
    lanes: int
    widens: bool
    values: ValueBounds
    written: set[Buffer]
    known: Known
    visits: int = 0
    elements: dict[Buffer, Ints] = field(default_factory=dict)  # which of them are where, by numbers over all tensors
    sources: dict[Buffer, frozenset[Buffer]] = field(default_factory=dict)  # parameters that tensors are made of
    sums: dict[Buffer, _Sums | None] = field(default_factory=dict)  # None where something unknown is part of them
    spent: set[int] = field(default_factory=set)  # products that a sum has which is counted
    factors: list[tuple[Buffer, ...]] = field(default_factory=list)  # of products, or of what comes in by a one; by their numbers
    numbered: int = 0
    vague: bool = False  # whether of some block it is not known which products its sums have
    given: int = 0  # elements that parameters have; those that blocks make have later numbers

    def number(self, buffer: Buffer, own: npt.NDArray[np.bool_] | None = None) -> None:
        """Gives every element of a tensor a number of its own; those that are not its own, or known to be one value, none."""
        low, high = self.values.of_buffer(buffer)
        size = elements_of(buffer)
        numbers = np.arange(self.numbered, self.numbered + size, dtype=np.int64)
        self.numbered += size
        free = self._live(buffer) & (low < high)
        self.elements[buffer] = np.where(free & (True if own is None else own), numbers, NOWHERE)

    def _live(self, buffer: Buffer) -> npt.NDArray[np.bool_]:
        """Which elements of a tensor may be something else than 0, in order."""
        return np.broadcast_to(self.known.some_of(buffer), shape_of(buffer)).ravel()

    def site(self, site: Site, live: bool) -> None:
        """Takes in a block; its sums count where all that it stores is needed."""
        ends: list[_End] = []
        over = (*site.spatial, *site.reduce)
        buffer = site.store.buffer
        update = update_of(site.store) if site.block.init is not None else None
        value = site.store.value if site.block.init is None else update[1] if update is not None else None
        read = (self.sources.get(x.buffer, frozenset()) for x in _reads(site))
        self.sources[buffer] = self.sources.get(buffer, frozenset()).union(*read)
        if value is None:
            self.sums[buffer], self.vague = None, True
            return
        rest = self._linear(value, (), site, ends)
        if update is not None and update[0] != "+":
            ends, rest = [*ends, *(_End(value, [leaf]) for leaf in rest)], []
        if site.block.init is None and is_move(value):
            # An element that only moves comes in where something is done with it.
            rest = [leaf for leaf in rest if not self._is_addend(leaf)]
        starts: list[_Leaf] = []
        if isinstance(site.block.init, BufferStore):
            starts = self._linear(site.block.init.value, (), site, [])
        # Which elements are made is asked first: of a block that is no move they are new ones.
        found = self._sum(site, rest, starts)
        if live:
            for end in ends:
                self._count(site, end, over)
        self._store_sums(site, found)
        self._store_elements(site, found)

    def outputs(self) -> None:
        """Counts the results that are sums as they are."""
        for buffer in self.func.buffers:
            self._count_elements(self.sums.get(buffer), None)
            if buffer not in self.sums and buffer in self.written and buffer in self.elements:
                self._bring_in(buffer, self.elements[buffer])

    def tells_all(self) -> bool:
        """Whether every element that a block stores, and that is needed and no number, has a number of its own."""
        if self.vague:
            return False
        read = [x.buffer for site in self.known.sites for x in _reads(site) if x.buffer is not site.store.buffer]
        if len(read) > len(set(read)):
            return False
        for buffer in self.written:
            needed = self.known.needed.get(buffer, np.zeros((), np.bool_)) & self.known.some_of(buffer, True)
            found = self.elements.get(buffer)
            if found is None or np.any(np.broadcast_to(needed, shape_of(buffer)).ravel() & (found == NOWHERE)):
                return False
        return True

    def different(self) -> int:
        """Results that blocks make, and are no others: of what the program's own tensors hold, without what only moves."""
        results = [self.elements[b] for b in self.func.buffers if b in self.written and b in self.elements]
        return len(np.unique(np.concatenate([n[n >= self.given] for n in results]))) if results else 0

    def _linear(self, e: Expr, given: tuple[Expr, ...], site: Site, ends: list[_End]) -> list[_Leaf]:
        """What a value is a sum of, with whatever factors; what something else is done to is put to the ends."""
        if isinstance(e, BufferLoad):
            return [_Leaf((e,), given)]
        if not has_loads(e):
            return []
        if isinstance(e, Cast):
            return self._linear(e.value, given, site, ends)
        sides = branches(e)
        if sides is not None:
            return [leaf for part, condition in sides for leaf in self._linear(part, (*given, condition), site, ends)]
        op, parts = (e.op, expr_children(e)) if isinstance(e, BinOp | Call) else ("", ())
        if op in ("+", "-"):
            return [leaf for part in parts for leaf in self._linear(part, given, site, ends)]
        by = int_value(parts[1]) if len(parts) == 2 else None
        if (op in ("shift_left", "shift_right") and by is not None) or (op == "//" and by):
            # (v >> s) + w is (v + (w << s)) >> s: what is added behind a shift may be part of the sum, too.
            return self._linear(parts[0], given, site, ends)
        if op == "*" and all(map(has_loads, parts)):
            factors = [x for part in parts if (x := _factor(part)) is not None]
            if len(factors) < 2:
                return [_Leaf((), given)]
            return [_Leaf((factors[0][0], factors[1][0]), (*given, *factors[0][1], *factors[1][1]))]
        if op == "*" and any(int_value(x) for x in parts):
            return self._linear(parts[0] if has_loads(parts[0]) else parts[1], given, site, ends)
        inner = [self._linear(part, given, site, ends) for part in parts]
        dom = {iv.var: iv.dom for iv in site.block.iter_vars}
        ranges = [self.values.of(part, dom) for part in parts]
        if op in ("min", "max"):
            over = [ranges[0][0] >= ranges[1][1], ranges[1][0] >= ranges[0][1]]
            if any(over):
                return inner[0] if over[0] == (op == "max") else inner[1]  # it always is
            ends += [_End(*part) for part in zip(parts, inner) if part[1]]
            return []
        return [*(leaf for part in inner for leaf in part), _Leaf((), given)]

    def _sum(self, site: Site, rest: Sequence[_Leaf], starts: Sequence[_Leaf]) -> _Sums | None:
        """What a block stores as a sum of products; None where something of it is unknown."""
        counts, members = np.zeros(site.shape(site.spatial), np.int64), frozenset[int]()
        known = True
        parts = [(leaf, site.reduce) for leaf in rest] + [(leaf, ()) for leaf in starts]
        for leaf, over in parts:
            found = self._of_leaf(site, leaf, over)
            # What is part of a sum that is not known counts nowhere else.
            known = known and found is not None and not members & found.members
            if found is not None:
                # Of x * w + x * v the host may make one product, but none where all have other factors.
                some = counts + found.counts, np.maximum(counts, found.counts)
                counts, members = some[self._share(members, found.members)], members | found.members
        if not known:
            self.spent |= members
        return _Sums(counts, members) if known and not members & self.spent else None

    def _is_addend(self, leaf: _Leaf) -> bool:
        return len(leaf.loads) == 1 and leaf.loads[0].buffer not in self.sums

    def _share(self, some: frozenset[int], others: frozenset[int]) -> bool:
        """Whether products of two sums may have a factor in common."""
        return any(self._meet(a, b) for m in some for n in others for a in self.factors[m] for b in self.factors[n])

    def _of_leaf(self, site: Site, leaf: _Leaf, reduce: tuple[Var, ...]) -> _Sums | None:
        """Products that one part of a sum has, for each value of the spatial iterators."""
        over = (*site.spatial, *reduce)
        inner = tuple(range(len(site.spatial), len(over)))
        if self._is_addend(leaf):
            load, = leaf.loads
            try:
                numbers = self._come_in(load.buffer, self._numbers(site, leaf, over))
            except UnknownError:
                numbers = np.full((), NOWHERE)
            if np.all(numbers == NOWHERE) or not distinct(numbers):
                return _Sums(np.zeros(site.shape(site.spatial), np.int64), frozenset())
            return _Sums(np.count_nonzero(numbers != NOWHERE, axis=inner), self._new(load.buffer))
        try:
            if len(leaf.loads) == 2:
                counts = self._products(site, leaf, site.spatial, reduce)
                return _Sums(counts, self._new(*(x.buffer for x in leaf.loads)))
            for load in leaf.loads:
                sums = self.sums[load.buffer]
                places = spread(access(site, load, leaf.given), over, site)
                if sums is not None and distinct(places):
                    # Sums that are added up have factors in common: one of their products may be left of each.
                    counts = np.where(places == NOWHERE, 0, sums.counts[places])
                    return _Sums(counts.max(axis=inner, initial=0), sums.members)
        except UnknownError:
            pass
        self.vague = True
        for sums in (self.sums.get(x.buffer) for x in leaf.loads):
            self.spent |= frozenset() if sums is None else sums.members
        return None

    def _new(self, *factors: Buffer) -> frozenset[int]:
        """A number for products of two tensors, or for what comes in of one."""
        self.factors.append(factors)
        return frozenset((len(self.factors) - 1,))

    def _come_in(self, buffer: Buffer, numbers: Ints) -> Ints:
        """Of a tensor's elements those that only a product brings into the accumulator, and of which none has come in before."""
        before = any(len(own) == 1 and self._meet(own[0], buffer) for own in self.factors)
        if before or not self.widens or buffer.dtype != "int8":
            return np.full_like(numbers, NOWHERE)
        return np.where(numbers < self.given, numbers, NOWHERE)

    def _bring_in(self, buffer: Buffer, numbers: Ints) -> None:
        """Counts elements to which something is done, or that are results, each by itself."""
        found = self._come_in(buffer, numbers)
        if np.any(found != NOWHERE):
            self.visits += int(np.count_nonzero(np.bincount(found[found != NOWHERE])))
            self._new(buffer)

    def _products(self, site: Site, leaf: _Leaf, spatial: Sequence[Var], reduce: Sequence[Var]) -> Ints:
        """How many products each result of a block sums up that no other result has.

        Raises:
            UnknownError: results share products, or it is not known that they do not.
        """
        given: list[list[Expr]] = [[], []]
        for condition in leaf.given:
            told = {v for v in walk_expr(condition) if isinstance(v, Var)}
            second = {v for i in leaf.loads[1].indices for v in walk_expr(i) if isinstance(v, Var)}
            given[told <= second].append(condition)
        read = []
        for load, conditions in zip(leaf.loads, given):
            found = access(site, load, conditions)
            if load.buffer not in self.elements:
                raise UnknownError
            self._count_made(load.buffer, found.places)
            # What is nowhere stands last.
            read.append((found.variables, np.append(self.elements[load.buffer], NOWHERE)[found.places]))
        self._require_new(leaf, read[0][0] == read[1][0] and np.array_equal(read[0][1], read[1][1]), read)
        (va, a), (vb, b) = read
        if np.any(b == NOWHERE):
            (va, a), (vb, b) = (vb, b), (va, a)
        told = {*va, *vb}
        if np.any(b == NOWHERE) or any(v not in told and site.extents[v] > 1 for v in spatial):
            raise UnknownError
        # Who knows one factor knows its iterators, and with the other one all: no pair is there twice.
        if not (_tells(va, a, vb, b) or _tells(vb, b, va, a)):
            raise UnknownError
        inner = [[n for n, v in enumerate(own) if v in reduce] for own in (va, vb)]
        if not (distinct_along(a, inner[0]) and distinct_along(b, inner[1])):
            raise UnknownError
        # Of a result's products that have a factor in common the host might make one: the largest set without counts.
        again = [prod(site.extents[v] for v in reduce if v in one and v not in other) for one, other in ((vb, va), (va, vb))]
        counts = np.count_nonzero(a != NOWHERE, axis=tuple(inner[0])) * again[0]
        counts = np.asarray(-(-counts // max(again)), np.int64)
        own = [site.extents[v] if v in va else 1 for v in spatial]
        return np.broadcast_to(counts.reshape(own), site.shape(spatial))

    def _require_new(self, leaf: _Leaf, alike: bool, read: Sequence[tuple[tuple[Var, ...], Ints]]) -> None:
        """Refuses products that others may be equal to: of what is made of the same parameters nobody knows."""
        one, other = (x.buffer for x in leaf.loads)
        places = [x[1] for x in read]
        if self._meet(one, other):
            # x[i] times f(x)[j] may be x[j] times f(x)[i], unless i is always j.
            same = alike or (read[0][0] == read[1][0] and leaf.loads[0].indices == leaf.loads[1].indices)
            if not same or not distinct(places[0]):
                raise UnknownError
        for a, b in (own for own in self.factors if len(own) == 2):
            if (self._meet(a, one) and self._meet(b, other)) or (self._meet(a, other) and self._meet(b, one)):
                raise UnknownError

    def _meet(self, a: Buffer, b: Buffer) -> bool:
        return bool(self.sources[a] & self.sources[b])

    def _count(self, site: Site, made: _End, over: tuple[Var, ...]) -> None:
        """Counts sums that something else is done to, where a result changes with them."""
        end = made.leaves
        if len(end) == 1 and len(end[0].loads) == 1:
            load, = end[0].loads
            sums = self.sums.get(load.buffer)
            try:
                if sums is not None:
                    read = access(site, load, end[0].given)
                    self._count_elements(sums, np.where(self._compares(site, made, read.variables), read.places, NOWHERE))
                elif load.buffer not in self.sums:
                    variables = access(site, load, end[0].given).variables
                    numbers = self._numbers(site, end[0], None)
                    self._bring_in(load.buffer, np.where(self._compares(site, made, variables), numbers, NOWHERE))
            except UnknownError:
                self.spent |= frozenset() if sums is None else sums.members
            return
        flat = Site(site.block, site.store, over, (), site.extents)
        found = self._sum(flat, end, ())
        if found is not None:
            self._count_elements(_Sums(np.where(self._compares(site, made, over), found.counts, 0), found.members), None)

    def _compares(self, site: Site, made: _End, over: Sequence[Var]) -> npt.NDArray[np.bool_]:
        """Where a block needs what it compares, for each value of some iterators."""
        own = [iv.var for iv in site.block.iter_vars]
        wanted = self.known.compares(site, made.value)
        wanted = of_rank(wanted, len(own))
        wanted = np.asarray(wanted.any(axis=tuple(n for n, v in enumerate(own) if v not in over), keepdims=True))
        moved = wanted.transpose([own.index(v) for v in over] + [n for n, v in enumerate(own) if v not in over])
        return np.broadcast_to(moved.reshape(moved.shape[: len(over)]), site.shape(over))

    def _count_elements(self, sums: _Sums | None, places: Ints | None) -> None:
        """Counts sums of a tensor: all of them, or those that are read."""
        if sums is None or sums.members & self.spent:
            return
        counts = sums.counts if places is None else sums.counts.ravel()[np.unique(places[places != NOWHERE])]
        self.visits += int((-(-counts // self.lanes)).sum())
        self.spent |= sums.members

    def _count_made(self, buffer: Buffer, places: Ints) -> None:
        """Counts sums of products that are multiplied again; of sums of parameters the host might make them."""
        sums = self.sums.get(buffer)
        if sums is not None and any(len(self.factors[m]) == 2 for m in sums.members):
            self._count_elements(sums, places)

    def _store_sums(self, site: Site, found: _Sums | None) -> None:
        buffer = site.store.buffer
        if found is None or (found.members and buffer in self.sums):
            self.sums[buffer] = None
        elif found.members:
            try:
                places = spread(access(site, site.store), site.spatial, site)
            except UnknownError:
                self.sums[buffer] = None
                return
            counts = np.zeros(elements_of(buffer), np.int64)
            # What masks leave out of a result's sums nobody visits.
            counts[places.ravel()] = np.where(self._wanted(site), found.counts, 0).ravel()
            self.sums[buffer] = _Sums(counts, found.members)

    def _wanted(self, site: Site) -> npt.NDArray[np.bool_]:
        """Which results of a block are needed, for each value of its spatial iterators."""
        whole = [site.extents[iv.var] if iv.var in site.spatial else 1 for iv in site.block.iter_vars]
        return np.broadcast_to(self.known.wanted(site), whole).reshape(site.shape(site.spatial))

    def _store_elements(self, site: Site, found: _Sums | None) -> None:
        """Which elements a block stores: those that it moves, or new ones, where each is made of others."""
        buffer, size = site.store.buffer, elements_of(site.store.buffer)
        try:
            stored = spread(access(site, site.store), site.spatial, site).ravel()
            made = np.full(size, NOWHERE, np.int64)
            if site.block.init is None and is_move(site.store.value):
                for leaf in self._linear(site.store.value, (), site, []):
                    where = self._numbers(site, leaf, site.spatial).ravel()
                    made[stored[where != NOWHERE]] = where[where != NOWHERE]
                before = self.elements.get(buffer, np.full(size, NOWHERE, np.int64))
                self.elements[buffer] = np.where(made == NOWHERE, before, made)
                return
            own = np.zeros(size, np.bool_)
            if found is not None and found.members:
                own[stored] = found.counts.ravel() > 0
            else:
                own[stored] = self._apart(site)
            if buffer not in self.elements:
                self.number(buffer, own)
        except UnknownError:
            return

    def _numbers(self, site: Site, leaf: _Leaf, over: tuple[Var, ...] | None) -> Ints:
        """Which elements a block reads, for every value of some iterators, or of those that tell."""
        if len(leaf.loads) != 1 or leaf.loads[0].buffer not in self.elements:
            raise UnknownError
        load, = leaf.loads
        found = access(site, load, leaf.given)
        places = found.places if over is None else spread(found, over, site)
        return np.where(places == NOWHERE, NOWHERE, self.elements[load.buffer][places])

    def _apart(self, site: Site) -> npt.NDArray[np.bool_]:
        """Which results of a block are told apart by what of one tensor they are made of.

        Raises:
            UnknownError: there are some that nothing tells apart.
        """
        read: dict[Buffer, list[_Leaf]] = {}
        for load, given in loads_under(site.store.value, ()):
            if load.buffer is not site.store.buffer:
                read.setdefault(load.buffer, []).append(_Leaf((load,), given))
        for buffer, leaves in read.items():
            # max(x, y) is max(y, x): who reads elements at several places is told by all of them together.
            if any(self._meet(buffer, x) for x in read if x is not buffer):
                continue
            try:
                numbers = np.stack([self._needed(site, leaf) for leaf in leaves], axis=-1)
            except UnknownError:
                continue
            mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(MIX)
            mixed = np.where(numbers == NOWHERE, np.uint64(0), (mixed ^ (mixed >> np.uint64(29))) * np.uint64(MIX | 2))
            axes = tuple(range(len(site.spatial), numbers.ndim))
            sets = np.atleast_1d(mixed.sum(axis=axes, dtype=np.uint64)).ravel().view(np.int64)
            if np.any(sets) and distinct(np.where(sets == 0, NOWHERE, sets)):
                return np.asarray(sets != 0)
        raise UnknownError

    def _needed(self, site: Site, leaf: _Leaf) -> Ints:
        """Which elements a block reads that a result changes with, for all its iterators."""
        load, = leaf.loads
        over = (*site.spatial, *site.reduce)
        numbers, found = self._numbers(site, leaf, over), spread(access(site, load, leaf.given), over, site)
        read = self.known.read.get((site.block.name, load.buffer, load.buffer), np.zeros((), np.bool_))
        # Of results that nobody needs nobody asks what they read.
        wanted = self._wanted(site).reshape(site.shape(site.spatial) + (1,) * len(site.reduce))
        return np.where(wanted & ~np.broadcast_to(read, shape_of(load.buffer)).ravel()[found], NOWHERE, numbers)


def visits(func: PrimFunc, target: Target) -> int:
    """Results that micro-operations add products to, at least, however often each: (micro-operation, result) pairs of a program.

    Args:
        func: the program as the user wrote it.
        target: the machine.
    """
    text = _text(func, target)
    return 0 if text is None else text.visits


def told_apart(func: PrimFunc, target: Target) -> bool:
    """Whether all that a program makes is told apart by the elements that it is made of: no two sums or results are the same.

    So it is where every tensor is read at one place of the text, sums have products that no other has, and everything else
    differs in what of one tensor it is made of. Of others that is not known.

    Args:
        func: the program as the user wrote it.
        target: the machine.
    """
    text = _text(func, target)
    return text is not None and not text.func.constants and text.tells_all()


def different(func: PrimFunc, target: Target) -> int:
    """How many results a program makes of which no two are the same; 0 where its text does not tell them apart.

    Args:
        func: the program as the user wrote it.
        target: the machine.
    """
    text = _text(func, target)
    return text.different() if text is not None and told_apart(func, target) else 0


@lru_cache(maxsize=4)
def _text(func: PrimFunc, target: Target) -> _Text | None:
    """What is known of a program's tensors once all blocks are taken in; None of one that is no blocks."""
    func = in_blocks(func, target)
    sites = list(sites_in(func))
    if any(b.match_buffers or b.alloc_buffers for b, _ in sites):
        return None
    written = {s.buffer for s in walk(func.body) if isinstance(s, BufferStore)}
    made = {site.store.buffer.name for _, site in sites if site is not None and not is_move(site.store.value)}
    text = _Text(func, target.config.block_in, not target.multiplies, ValueBounds(func), written, Known(func, {}, {}, made))
    for b in func.buffers:
        text.sources[b] = frozenset((b,)) - written
        if b not in written:
            text.number(b)
    text.given = text.numbered
    for constant in func.constants:
        text.sources[constant.buffer] = frozenset()
        text.elements[constant.buffer] = np.full(elements_of(constant.buffer), NOWHERE, np.int64)
    odd = unsettled(func)
    for block, site in sites:
        if site is None or site.store.buffer in odd:
            text.vague = True
            for store in (s for s in walk(block) if isinstance(s, BufferStore)):
                text.sums[store.buffer] = None
                text.sources[store.buffer] = frozenset(func.buffers)
            continue
        text.values.know_reduction(block)
    live = needed_blocks(func, [site for _, site in sites if site is not None and site.store.buffer not in odd])
    for _, site in sites:
        if site is not None and site.store.buffer not in odd:
            text.site(site, id(site.block) in live)
    text.outputs()
    return text


def _reads(site: Site) -> list[BufferLoad]:
    starts = loads_in(site.block.init.value) if isinstance(site.block.init, BufferStore) else []
    return [*loads_in(site.store.value), *starts]


def _tells(va: tuple[Var, ...], a: Ints, vb: tuple[Var, ...], b: Ints) -> bool:
    """Whether an element of one tensor tells all iterators that it is read by, and one of the other then the remaining ones."""
    return distinct(a) and distinct_along(b, [n for n, v in enumerate(vb) if v not in va])


def _factor(e: Expr) -> tuple[BufferLoad, tuple[Expr, ...]] | None:
    """The element that a factor is, converted, scaled or with a constant added, and the conditions under which it is that.

    None where it is something else, or another element elsewhere.
    """
    if isinstance(e, BufferLoad):
        return (e, ()) if e.dtype == "int8" else None
    if isinstance(e, Cast):
        return _factor(e.value) if e.dtype in ("int8", "int16", "int32") else None
    if isinstance(e, BinOp) and e.op in ("+", "-", "*"):
        a, b = e.a, e.b
        if isinstance(a, IntImm):
            a, b = b, a
        if isinstance(b, IntImm) and (e.op != "*" or b.value):
            return _factor(a)
    sides = [(part, condition) for part, condition in branches(e) or () if has_loads(part)]
    if len(sides) == 1 and (found := _factor(sides[0][0])) is not None:
        return found[0], (*found[1], sides[0][1])
    return None
