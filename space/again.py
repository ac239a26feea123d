"""How often a tensor between nests has the same element: what is made of the same elements is the same, and need be made once."""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import prod

import numpy as np

from autosched.ir.expr import BinOp, BufferLoad, Expr, Var
from autosched.ir.functor import expr_children, walk, walk_expr
from autosched.ir.patterns import choice_of, has_loads, update_of
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Buffer, BufferStore, PrimFunc
from space.elements import NOWHERE, Ints, Site, UnknownError, access, loads_under, sites_in
from space.known import Known, TooLargeError

FEW = 64  # ways to make a value from which on it is not looked at
SMALL = 1 << 18  # places of an access that are looked at one by one


class Again:
    """How often each element of a program's tensors stands in it, at most.

    Args:
        known: what is known of the program.
        packing: stages of the host in front of it, in order.
    """

    def __init__(self, known: Known, packing: Sequence[PrimFunc]) -> None:
        self._known = known
        self._laid: dict[str, list[Site | None]] = {}
        for block, site in (found for stage in packing for found in sites_in(stage)):
            for store in (s for s in walk(block) if isinstance(s, BufferStore)):
                self._laid.setdefault(store.buffer.name, []).append(site)
        self._sites: dict[Buffer, list[Site]] = {}
        for site in known.sites:
            self._sites.setdefault(site.store.buffer, []).append(site)
        self._found: dict[tuple[Buffer, frozenset[int] | None], int] = {}

    def of(self, buffer: Buffer, dims: frozenset[int] | None = None) -> int:
        """How often a tensor has an element that is made of the same ones, at most; of such that are numbers nothing is said.

        Args:
            buffer: it.
            dims: at places that differ in these dimensions alone; without, in any.
        """
        key = buffer, dims
        if key not in self._found:
            self._found[key] = 1  # what is updated in place is not looked at
            self._found[key] = max(sum(self._stored(site, dims) for site in self._sites.get(buffer, ())), 1)
        return self._found[key]

    def packed(self, name: str, dims: frozenset[int] | None = None) -> int:
        """How often the host lays an element out, at most.

        Args:
            name: of the tensor that it makes.
            dims: at places that differ in these dimensions alone; without, in any.

        Raises:
            UnknownError: it is not known.
        """
        times = 0
        for site in self._laid.get(name, ()):
            if site is None:
                raise UnknownError
            moved, own = _moved(site, dims), [1]
            # A sum reads itself as well, which is made of nothing else.
            for load, given in (x for x in loads_under(site.store.value, ()) if x[0].buffer is not site.store.buffer):
                before = self.packed(load.buffer.name, None if dims is None else _dims(load, moved))
                own.append(before * (1 if moved <= _plain(load, moved, site) else _alike(site, load, given, moved)))
            times += max(own)
        return max(times, 1)

    def _stored(self, site: Site, dims: frozenset[int] | None) -> int:
        """How often a block stores an element that is made of the same ones, at most."""
        over = _moved(site, dims)
        try:
            update = update_of(site.store) if site.block.init is not None else None
            ways = self._ways(site, site.store.value if update is None else update[1])
            if isinstance(site.block.init, BufferStore):
                ways = _both(ways, self._ways(site, site.block.init.value))
            return sum(self._count(site, loads, over) for loads in ways if loads)
        except (UnknownError, TooLargeError):
            return prod(site.extents[v] for v in over)

    def _ways(self, site: Site, e: Expr) -> list[tuple[BufferLoad, ...]]:
        """What a value is made of, as elements that all tell it: by one way or another, depending on the place."""
        if not has_loads(e):
            return [()]
        if isinstance(e, BufferLoad):
            return [(e,)]
        choice = choice_of(e)
        if choice is not None and not has_loads(choice[0]):
            return [*self._ways(site, choice[1]), *self._ways(site, choice[2])]
        found: list[tuple[BufferLoad, ...]] = [()]
        for part in expr_children(e):
            found = _both(found, self._ways(site, part))
        if isinstance(e, BinOp) and e.op in ("min", "max") and has_loads(e.a) and has_loads(e.b):
            sides = [(self._known.value(site, x), x) for x in (e.a, e.b)]
            one, other = (low < high for (low, high), _ in sides)
            varied = np.asarray(one & other)
            # Somewhere one of both is the result, whatever the other one is.
            alone = [varied & (a[1] <= b[0] if e.op == "min" else b[1] <= a[0]) for (a, _), (b, _) in (sides, sides[::-1])]
            found = found if not np.all(alone[0] | alone[1]) else []
            found = [*found, *(way for held, (_, x) in zip(alone, sides) if np.any(held) for way in self._ways(site, x))]
        if len(found) > FEW:
            raise UnknownError
        return list(dict.fromkeys(found))

    def _count(self, site: Site, loads: Sequence[BufferLoad], over: set[Var]) -> int:
        """For how many values of some of a block's iterators all of some elements are the same ones, at most."""
        told = [x for x in (self._tells(site, load, loads, over) for load in loads) if x is not None]
        if not told:
            return 0  # of numbers
        fixed, times = set[Var](), 1
        for again, variables in sorted(told, key=lambda x: x[0]):
            more = variables - fixed
            if again < prod(site.extents[v] for v in more):
                fixed, times = fixed | more, times * again
        return times * prod(site.extents[v] for v in over - fixed)

    def _tells(
        self, site: Site, load: BufferLoad, loads: Sequence[BufferLoad], over: set[Var],
    ) -> tuple[int, set[Var]] | None:
        """(how often, of which iterators) an element tells a result's place, or all that a block reads of a tensor for it.

        None of numbers, but where they are weights of sums. Where they pick an element for each result, that tells it.
        """
        low, high = self._known.value(site, load)
        if np.array_equal(low, high):
            return self._weighs(site, low, over) if self._picks(site, [load]) is None else None
        reads = {v for i in load.indices for v in walk_expr(i) if isinstance(v, Var)} & over
        picked = self._picks(site, [x for x in loads if x is not load])
        told = _plain(load, {*over, *site.reduce}, site)
        if picked is not None and not any(site.extents[v] > 1 for v in set(site.reduce) - told):
            return self._times(load, {*over, *site.reduce} if picked & over else over), (told | picked) & over
        told, times = _plain(load, over, site), self._times(load, over)
        if reads <= told:
            return times, told
        return times * _alike(site, load, (), over), reads

    def _weighs(self, site: Site, numbers: Ints, over: set[Var]) -> tuple[int, set[Var]] | None:
        """How often sums have the same weights, which are numbers, and of which iterators these tell; None of what is no sum."""
        own = [iv.var for iv in site.block.iter_vars]
        axes = [n for n, v in enumerate(own) if v in over and numbers.ndim == len(own) and numbers.shape[n] > 1]
        if not axes or all(site.extents[v] == 1 for v in site.reduce):
            return None
        rows = np.moveaxis(numbers, axes, range(len(axes))).reshape(prod(numbers.shape[n] for n in axes), -1)
        return int(np.unique(rows, axis=0, return_counts=True)[1].max()), {own[n] for n in axes}

    def _times(self, load: BufferLoad, over: set[Var]) -> int:
        """How often a tensor has an element at places that some iterators move to."""
        dims = _dims(load, over)
        return self.of(load.buffer, dims) * self.packed(load.buffer.name, dims)

    def _picks(self, site: Site, others: Sequence[BufferLoad]) -> set[Var] | None:
        """Iterators by which numbers pick one element of a reduction for each result; None where they do not."""
        for load in others if site.reduce else ():
            low, high = self._known.value(site, load)
            own = [iv.var for iv in site.block.iter_vars]
            if not np.array_equal(low, high) or low.ndim != len(own):
                continue
            rows = [n for n, v in enumerate(own) if v in site.spatial and low.shape[n] > 1]
            inner = [n for n, v in enumerate(own) if v in site.reduce]
            some = np.asarray(low != 0)
            if all(some.shape[n] == site.extents[own[n]] for n in inner) and max(
                    int(some.sum(axis=tuple(axes), dtype=np.int64).max()) for axes in (rows, inner)) == 1:
                return {own[n] for n in rows}
        return None


def _moved(site: Site, dims: frozenset[int] | None) -> set[Var]:
    """Iterators that move what a block stores in some dimensions and in no other; all that move it without."""
    told = [{v for v in walk_expr(i) if isinstance(v, Var)} for i in site.store.indices]
    some = set[Var]().union(*(own for d, own in enumerate(told) if dims is None or d in dims))
    return some - set[Var]().union(*(own for d, own in enumerate(told) if dims is not None and d not in dims))


def _dims(load: BufferLoad, over: set[Var]) -> frozenset[int]:
    """Dimensions that some iterators move."""
    return frozenset(d for d, i in enumerate(load.indices) if over.intersection(walk_expr(i)))


def _both(some: Sequence[tuple[BufferLoad, ...]], others: Sequence[tuple[BufferLoad, ...]]) -> list[tuple[BufferLoad, ...]]:
    if len(some) * len(others) > FEW:
        raise UnknownError
    return [(*a, *b) for a in some for b in others]


def _plain(load: BufferLoad, over: set[Var], site: Site) -> set[Var]:
    """Those of some iterators that the place of an element tells, for whatever values of the others."""
    found = set[Var]()
    for index in load.indices:
        form = linear_form(index, over)
        if form is None:
            continue
        # Digits of a number, each worth more than all smaller ones together.
        sizes = sorted([(abs(c), v) for v, c in form[0].items() if isinstance(c, int)], key=lambda x: x[0])
        below, apart = 0, len(sizes) == len(form[0])
        for size, v in sizes:
            apart = apart and size > below
            below += size * (site.extents[v] - 1)
        found |= {v for _, v in sizes} if apart else set()
    return found


def _alike(site: Site, load: BufferLoad, given: Sequence[Expr], over: Set[Var]) -> int:
    """For how many values of some iterators a block reads the same of a tensor, for all of the others, at most."""
    found = access(site, load, given)
    if found.places.size > SMALL:
        raise UnknownError
    axes = [n for n, v in enumerate(found.variables) if v in over]
    rows = np.moveaxis(found.places, axes, range(len(axes)))
    rows = rows.reshape(prod(rows.shape[: len(axes)]), -1)
    again = prod(site.extents[v] for v in over if v not in found.variables)
    return again * int(np.unique(rows[(rows != NOWHERE).any(axis=1)], axis=0, return_counts=True)[1].max(initial=1))


