"""What of a program's tensors is known, element by element: which can take one value only, and which results are made of.

A program masks by conditions, by constants, or by what the host makes of nothing. Forwards through its blocks every element has
the lowest and the highest value that it may take; backwards an element is needed where a result changes with it, and where what
reads it would as well read what it is a copy of, that is needed in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.ir.constant import values as constants
from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Var, int_value
from autosched.ir.functor import expr_children, walk, walk_expr
from autosched.ir.patterns import choice_of, has_loads, loads_from, loads_in, update_of
from autosched.ir.stmt import Block, Buffer, BufferStore, PrimFunc
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.lower.regions import shape_of
from space.copies import Copies
from space.elements import NOWHERE, Ints, Mask, Scalar, Site, UnknownError, even, of_rank, sites_in, value_at

LARGE = 1 << 24  # elements from which on nothing is worked out one by one: that would cost seconds

PARTS = 1 << 14  # of a product of int8, which is no more

Table = tuple[Ints, Ints]  # the lowest and the highest value


class TooLargeError(Exception):
    """What is asked for are more elements than are looked at."""


class Known:
    """What is known of the elements of a program's tensors.

    Args:
        func: a program in blocks, as forms are.
        given: what of tensors that it is given is known, by name; else what their ranges say.
        results: which elements of tensors are results, by name, as masks; of parameters that it stores all are, without.
        made: names of tensors that are stored where products read them, so that their elements may be copies of others'.
        aside: names of those that need not be stored: what is a copy of their elements is no copy of anything in memory.
        same: by tensor, which element is needed in the place of each of its: by the tensor that has it, places in order, or
            ``NOWHERE``. Without, the text tells what is a copy of what.

    Attributes:
        sites: its blocks, in order; those that are more than one store are none.
        needed: by tensor, which elements have to be in it: those that a result changes with, but what products read that another
            tensor holds as well.
        read: of these, by (block, tensor that it reads in its text, tensor that holds them), what a block needs.
        copied: by tensor that has copies of others' elements, which these are, by those.
        unseen: tensors that are stored, or read, in a way that is not understood, or too many elements of which would have to be
            looked at: they may hold anything, and none of them counts.
    """

    def __init__(
        self, func: PrimFunc, given: Mapping[str, Table], results: Mapping[str, Mask],
        made: Set[str] = frozenset(), aside: Set[str] = frozenset(),
        same: Mapping[Buffer, Mapping[Buffer, Ints]] | None = None,
    ) -> None:
        self.func, self._same = func, same
        self.values = ValueBounds(func)
        self.tables: dict[Buffer, Table] = {}
        self.unseen: set[Buffer] = set()
        self.needed: dict[Buffer, Mask] = {}
        self.read: dict[tuple[str, Buffer, Buffer], Mask] = {}
        found = list(sites_in(func))
        self.sites = [site for _, site in found if site is not None]
        self._envs: dict[int, dict[Var, Ints]] = {}
        self._known: dict[int, dict[int, tuple[Expr, Table]]] = {}
        self._counts: dict[int, npt.NDArray[np.float64]] = {}
        self._wants: dict[tuple[int, int], Mask] = {}
        self._aside, self._holders = aside, dict[Buffer, Buffer]()
        self._copies = Copies(self, [(site, _stored(block)) for block, site in found], made)
        for buffer in func.buffers:
            if buffer.name in given:
                self.tables[buffer] = given[buffer.name]
        for constant in func.constants:
            value = constants(constant).astype(np.int64)
            self.tables[constant.buffer] = even(value), even(value)
        for block, site in found:
            if site is None:
                self._give_up(block)
            else:
                self._forwards(site)
        written = {site.store.buffer for site in self.sites}
        for buffer in func.buffers:
            if buffer in written or buffer.name in results:
                found_all = results.get(buffer.name, np.ones([1] * len(buffer.shape), np.bool_))
                self.needed[buffer] = dict(self._instead(buffer, found_all)).get(buffer, np.zeros((), np.bool_))
        for site in reversed(self.sites):
            self._backwards(site)
        self.copied = {buffer: self._copied(buffer) for buffer in written if buffer.name in made}
        self._copies.forget()
        # Worked out anew for the few blocks that somebody asks about: of every value of every block they would fill the memory.
        self._known, self._envs = {}, {}

    # -- forwards -------------------------------------------------------------------------------------------------------

    def _give_up(self, block: Block) -> None:
        """Knows nothing of what a block stores that is none."""
        for store in (s for s in walk(block) if isinstance(s, BufferStore)):
            self.unseen |= {store.buffer, *(x.buffer for x in loads_in(store.value))}

    def _copied(self, buffer: Buffer) -> dict[Buffer, Mask]:
        """Which elements of a tensor are those of others."""
        if self._same is not None:
            others = {b: places != NOWHERE for b, places in self._same.get(buffer, {}).items() if b is not buffer}
            return {b: even(held.reshape(shape_of(buffer))) for b, held in others.items()}
        try:
            return {} if buffer in self.unseen else self._copies.copied(buffer)
        except (UnknownError, TooLargeError):
            self.unseen.add(buffer)
            return {}

    def _forwards(self, site: Site) -> None:
        buffer, store = site.store.buffer, site.store
        self.values.know_reduction(site.block)
        starts = loads_in(site.block.init.value) if isinstance(site.block.init, BufferStore) else []
        if any(x.buffer in self.unseen for x in (*loads_in(store.value), *starts)):
            self.unseen.add(buffer)  # nor is it known what is made of them
            return
        try:
            if site.block.init is None:
                made = self.value(site, store.value) if not loads_from(store.value, buffer) else self._whole(buffer)
            else:
                made = self._reduced(site)
            self._put(site, made)
        except (UnknownError, TooLargeError):
            self.unseen.add(buffer)

    def _reduced(self, site: Site) -> Table:
        """What a reduction stores: what it starts with, and as much more as its terms may be together."""
        low, high = self._whole(site.store.buffer)
        terms = self.terms(site)
        if terms is None or not isinstance(site.block.init, BufferStore):
            return low, high
        first = self.value(site, site.block.init.value)
        found = self._summed(site, terms)
        ends = found[0] + first[0], found[1] + first[1]
        if self._copies.meets(site):
            ends = self._copies.bounds(self._copies.reduced(site), *ends)
        least, most = dtype_bounds(site.store.buffer.dtype)
        fits = (ends[0] >= least) & (ends[1] <= most)
        return np.where(fits, np.maximum(ends[0], low), low), np.where(fits, np.minimum(ends[1], high), high)

    def _summed(self, site: Site, terms: tuple[BufferLoad, BufferLoad]) -> Table:
        """What a block's products are together, at least and at most, result by result.

        Of numbers that the program has one factor is known; of others what they are at most tells as much.
        """
        sides = [self.value(site, x) for x in terms]
        for (w, same), (low, high) in (sides, sides[::-1]):
            if np.array_equal(w, same):
                up, down = np.maximum(w, 0), np.minimum(w, 0)
                ends = [self.sums(site, [up, a]) + self.sums(site, [down, b]) for a, b in ((low, high), (high, low))]
                return ends[0], ends[1]
        most = self.sums(site, [np.maximum(np.abs(low), np.abs(high)) for low, high in sides])
        return -most, most

    def sums(self, site: Site, parts: Sequence[Ints]) -> Ints:
        """Sums of products of numbers over a block's reduction, for all its results.

        Args:
            site: the block.
            parts: the numbers, for all of its iterators.
        """
        scale = prod(int(x.ravel()[0]) for x in parts if x.size == 1)
        found = self.contract(site, [x for x in parts if x.size > 1], set(site.spatial)) * scale
        return np.asarray(found).astype(np.int64)

    def _whole(self, buffer: Buffer) -> Table:
        low, high = self.values.of_buffer(buffer)
        return np.asarray(low), np.asarray(high)

    def _put(self, site: Site, made: Table) -> None:
        """Stores what a block makes."""
        buffer = site.store.buffer
        before = self.tables.get(buffer)
        if before is None and buffer in self.func.buffers and _order(site, shape_of(buffer)) is None:
            before = self._whole(buffer)  # what of a parameter is not stored stays as it is
        low, high = self.placed(site, made, before, self._whole(buffer))
        self.tables[buffer] = low, high

    def placed(self, site: Site, made: Sequence[Ints], before: Sequence[Ints] | None, whole: Sequence[Ints]) -> tuple[Ints, ...]:
        """Tables of a tensor's elements, several at once, once a block has stored some.

        Args:
            site: the block.
            made: what it stores, for all its iterators.
            before: the tables before; None where no block has stored any.
            whole: what is said of an element of which nothing is known.

        Raises:
            TooLargeError: the tensor is too large to look at.
        """
        shape = shape_of(site.store.buffer)
        order = _order(site, shape)
        alike = all(x.size == 1 for x in made)
        if order is not None and before is None:
            return tuple(self._ordered(site, x, order) for x in made)
        if alike and (before is None or all(np.array_equal(x.ravel(), y.ravel()) for x, y in zip(before, made))):
            # Elements that no block stores are nobody's.
            return tuple(x.reshape([1] * len(shape)) for x in made)
        self.require_few(shape)
        env = self.env(site)
        at = tuple(np.broadcast_arrays(*(value_at(i, env) for i in site.store.indices)))
        sides = []
        for old, new in zip(whole if before is None else before, made):
            side = np.broadcast_to(old, shape).copy()
            side[at] = np.broadcast_to(new, at[0].shape)
            sides.append(even(side))
        return tuple(sides)

    def _ordered(self, site: Site, value: Ints, order: Sequence[int | None]) -> Ints:
        """A value of a block's iterators as a table of the tensor that they store in order."""
        own = [iv.var for iv in site.block.iter_vars]
        value = of_rank(value, len(own))
        stored = [at for at in order if at is not None]
        rest = [n for n in range(len(own)) if n not in stored]
        moved = value.transpose([*stored, *rest]).reshape([value.shape[at] for at in stored])
        return moved.reshape([1 if at is None else value.shape[at] for at in order])

    # -- values ---------------------------------------------------------------------------------------------------------

    def env(self, site: Site) -> dict[Var, Ints]:
        """The values of a block's iterators, each along a dimension of its own, in their order."""
        if id(site) not in self._envs:
            own = [iv.var for iv in site.block.iter_vars]
            self._envs[id(site)] = {
                v: np.arange(site.extents[v]).reshape([-1 if n == k else 1 for n in range(len(own))]) for k, v in enumerate(own)}
        return self._envs[id(site)]

    def value(self, site: Site, e: Expr) -> Table:
        """What a value may be, for all iterators of a block.

        Args:
            site: the block.
            e: an integer expression in it.

        Raises:
            TooLargeError: for too many of them it is another one.
        """
        known = self._known.setdefault(id(site), {})
        if id(e) not in known:
            low, high = self._value(site, e)
            least, most = dtype_bounds(e.dtype) if e.dtype != "handle" else (0, 0)
            fits = (low >= least) & (high <= most)  # a result outside of the type wraps
            if not np.all(fits):
                low, high = np.where(fits, low, least), np.where(fits, high, most)
            known[id(e)] = e, (np.asarray(low), np.asarray(high))
        return known[id(e)][1]

    def _value(self, site: Site, e: Expr) -> Table:
        env = self.env(site)
        if not has_loads(e):
            try:
                _require_few(e, env)
                found = np.asarray(value_at(e, env)).astype(np.int64)
            except UnknownError:
                return self._ranged(site, e)
            return found, found
        if isinstance(e, BufferLoad):
            return self._load(site, e)
        if isinstance(e, Cast):
            return self.value(site, e.value)
        choice = choice_of(e)
        if choice is not None:
            yes, no = self.value(site, choice[1]), self.value(site, choice[2])
            if has_loads(choice[0]):
                return np.minimum(yes[0], no[0]), np.maximum(yes[1], no[1])
            _require_few(choice[0], env)
            holds = value_at(choice[0], env) != 0
            return _small(holds, yes[0], no[0]), _small(holds, yes[1], no[1])
        parts = expr_children(e)
        if isinstance(e, BinOp) and e.op in ("+", "-", "*", "min", "max"):
            a, b = (self.value(site, x) for x in parts)
            if e.op in ("+", "-"):
                ends = (a[0] + b[0], a[1] + b[1]) if e.op == "+" else (a[0] - b[1], a[1] - b[0])
                return self._copies.bounds(self._copies.combined(site, e), *ends) if self._copies.meets(site, e) else ends
            if e.op == "*":
                corners = [x * y for x in a for y in b]
                return np.minimum.reduce(corners), np.maximum.reduce(corners)
            pick = np.minimum if e.op == "min" else np.maximum
            return pick(a[0], b[0]), pick(a[1], b[1])
        if isinstance(e, Call) and e.op in ("shift_left", "shift_right") and isinstance(e.args[1], IntImm):
            low, high = self.value(site, e.args[0])
            by = e.args[1].value
            if 0 <= by < 32:
                return (low << by, high << by) if e.op == "shift_left" else (low >> by, high >> by)
        return self._ranged(site, e)

    def _ranged(self, site: Site, e: Expr) -> Table:
        low, high = self.values.of(e, {iv.var: iv.dom for iv in site.block.iter_vars})
        return np.asarray(low), np.asarray(high)

    def _load(self, site: Site, e: BufferLoad) -> Table:
        if e.buffer in self.unseen or e.buffer not in self.tables:
            return self._whole(e.buffer)
        low, high = self.tables[e.buffer]
        return self.at(site, low, e), self.at(site, high, e)

    def at(self, site: Site, table: npt.NDArray[Scalar], e: BufferLoad | BufferStore) -> npt.NDArray[Scalar]:
        """What of a table stands where a block reads or stores; what is read where no condition lets it is anything.

        Args:
            site: the block.
            table: of the tensor's elements.
            e: what reads or stores them.

        Raises:
            TooLargeError: these are too many.
        """
        if table.size == 1:
            return table.reshape(())
        env = self.env(site)
        at = [value_at(i, env).clip(0, n - 1) if n > 1 else np.zeros((), np.int64) for i, n in zip(e.indices, table.shape)]
        self.require_few(np.broadcast_shapes(*(x.shape for x in at)))
        return np.asarray(table[tuple(at)])

    def require_few(self, shape: Sequence[int]) -> None:
        """Refuses to look at many elements one by one.

        Args:
            shape: of them.

        Raises:
            TooLargeError: as it says.
        """
        if prod(shape) > LARGE:
            raise TooLargeError

    # -- backwards ------------------------------------------------------------------------------------------------------

    def wanted(self, site: Site) -> Mask:
        """Which results of a block are needed, for all its iterators.

        Args:
            site: the block.
        """
        needed = self.needed.get(site.store.buffer)
        if needed is None or site.store.buffer in self.unseen:
            return np.zeros((), np.bool_)
        return np.asarray(self.at(site, needed, site.store))

    def _backwards(self, site: Site) -> None:
        try:
            wanted = self.wanted(site)
            if not np.any(wanted):
                return
            terms = self.terms(site) if site.block.init is not None else None
            if isinstance(site.block.init, BufferStore):
                self._need(site, site.block.init.value, wanted)
            if terms is None:
                update = update_of(site.store) if site.block.init is not None else None
                self._need(site, site.store.value if update is None else update[1], wanted, update is not None)
                return
            for load, other in (terms, terms[::-1]):
                told = {v for i in load.indices for v in walk_expr(i) if isinstance(v, Var)}
                parts = [self.some(site, other), wanted]
                self._mark_held(site, load, np.asarray(self.contract(site, parts, told)) > 0)
        except (UnknownError, TooLargeError):
            self.unseen |= {x.buffer for x in loads_in(site.store.value)}

    def _need(self, site: Site, e: Expr, wanted: Mask, compared: bool = False) -> None:
        """Marks what a value is made of, where it is wanted and not one number anyway; of what is compared that is remembered."""
        low, high = self.value(site, e)
        wanted = _small(low == high, np.zeros((), np.bool_), wanted)
        if compared:
            key = id(site.block), id(e)
            self._wants[key] = self._wants[key] | wanted if key in self._wants else wanted
        if not has_loads(e) or not np.any(wanted):
            return
        if isinstance(e, BufferLoad):
            self._mark(site, e, wanted)
            return
        choice = choice_of(e)
        if choice is not None and not has_loads(choice[0]):
            holds = value_at(choice[0], self.env(site)) != 0
            self._need(site, choice[1], wanted & holds)
            self._need(site, choice[2], wanted & ~holds)
            return
        parts = expr_children(e)
        if isinstance(e, BinOp) and e.op in ("min", "max"):
            a, b = (self.value(site, x) for x in parts)
            # Where one of both always is the result, nobody asks for the other.
            under = a[1] <= b[0], b[1] <= a[0]
            for part, off in zip(parts, under[::-1] if e.op == "min" else under):
                self._need(site, part, wanted & ~off, True)
            return
        for part in parts:
            self._need(site, part, wanted)

    def compares(self, site: Site, e: Expr) -> Mask:
        """Where a block needs a value that it compares with another one, for all its iterators.

        Args:
            site: the block.
            e: an operand of a minimum or maximum in it, or what it takes the extremum of.
        """
        return self._wants.get((id(site.block), id(e)), np.zeros((), np.bool_))

    def _mark_held(self, site: Site, load: BufferLoad, wanted: Mask) -> None:
        """Marks the elements that a product reads, in the tensors that hold them."""
        for buffer, held, places in self._copies.held(site, load) if self._same is None else ():
            there = np.broadcast_arrays(wanted & held, places)
            flat = np.zeros(prod(shape_of(buffer)), np.bool_)
            flat[there[1][there[0]]] = True
            self._need_of(site, load.buffer, buffer, even(flat.reshape(shape_of(buffer))))
            # Of what need not be stored itself the first copy is.
            stands = self._copies.stands(buffer) and buffer.name not in self._aside
            if stands or self._holders.setdefault(buffer, load.buffer) is not load.buffer:
                wanted = wanted & ~held
        self._mark(site, load, wanted)

    def _need_of(self, site: Site, read: Buffer, buffer: Buffer, found: Mask) -> None:
        """Takes in what a block needs of a tensor, where it reads the same one, or another that has its elements."""
        for holder, there in self._instead(buffer, found) if np.any(found) else ():
            before, key = self.needed.get(holder), (site.block.name, read, holder)
            self.needed[holder] = there if before is None else there | before
            self.read[key] = there | self.read[key] if key in self.read else there

    def _instead(self, buffer: Buffer, found: Mask) -> Iterator[tuple[Buffer, Mask]]:
        """Which elements of which tensors are needed in the place of some of a tensor."""
        if self._same is None or buffer not in self._same:
            yield buffer, found
            return
        flat = np.broadcast_to(found, shape_of(buffer)).ravel()
        for holder, places in self._same[buffer].items():
            there = np.zeros(prod(shape_of(holder)), np.bool_)
            own = places[flat]
            there[own[own != NOWHERE]] = True
            yield holder, even(there.reshape(shape_of(holder)))

    def _mark(self, site: Site, load: BufferLoad, wanted: Mask) -> None:
        """Marks the elements that are read for some iterators of a block."""
        env, own = self.env(site), [iv.var for iv in site.block.iter_vars]
        shape = shape_of(load.buffer)
        dims = [{v for v in walk_expr(i) if isinstance(v, Var)} for i in load.indices]
        wanted = of_rank(wanted, len(own))
        told = set[Var]().union(*dims)
        wanted = np.asarray(wanted.any(axis=tuple(n for n, v in enumerate(own) if v not in told), keepdims=True))
        moved = {v for n, v in enumerate(own) if wanted.shape[n] > 1}
        # Dimensions that some iterators move together, those among them on which it depends what is wanted, are looked at as one.
        groups: list[tuple[set[Var], list[int]]] = [(moved, [])]
        for d, read in enumerate(dims):
            together = [g for g in groups if g[0] & read]
            rest = [g for g in groups if not g[0] & read]
            groups = [*rest, (read.union(*(g[0] for g in together)), sorted([d, *(x for g in together for x in g[1])]))]
        found = np.ones([1] * len(shape), np.bool_)
        for variables, group in groups:
            at = [value_at(load.indices[d], env) for d in group]
            held = wanted if variables & moved else np.ones((), np.bool_)
            sizes = [shape[d] for d in group]
            if max(prod(np.broadcast_shapes(held.shape, *(x.shape for x in at))), prod(sizes)) > LARGE:
                raise TooLargeError
            held, *at = np.broadcast_arrays(held, *at)
            inside = np.logical_and.reduce([held, *((x >= 0) & (x < n) for x, n in zip(at, sizes))])
            table = np.zeros(sizes, np.bool_)
            table[tuple(x[inside] for x in at)] = bool(inside.any())
            table = even(table)
            entries = dict(zip(group, table.shape))
            found = found & table.reshape([entries.get(d, 1) for d in range(len(shape))])
        self._need_of(site, load.buffer, load.buffer, found)

    def some_of(self, buffer: Buffer, varied: bool = False) -> Mask:
        """Which elements of a tensor count, a dimension of 1 wherever all along it are alike.

        Args:
            buffer: it.
            varied: without those that are one number, also where all are.
        """
        if buffer in self.unseen or buffer not in self.tables:
            return np.ones([1] * len(buffer.shape), np.bool_)
        low, high = self.tables[buffer]
        some = np.asarray(low != high) if varied else counted(low, high)
        return some.reshape(some.shape if some.size > 1 else [1] * len(buffer.shape))

    # -- sums of products -----------------------------------------------------------------------------------------------

    def terms(self, site: Site) -> tuple[BufferLoad, BufferLoad] | None:
        """The factors of a sum of products of elements; None of any other block.

        Args:
            site: the block.
        """
        update = update_of(site.store) if site.block.init is not None else None
        if update is None or update[0] != "+" or not (isinstance(update[1], BinOp) and update[1].op == "*"):
            return None
        a, b = (x.value if isinstance(x, Cast) else x for x in (update[1].a, update[1].b))
        return (a, b) if isinstance(a, BufferLoad) and isinstance(b, BufferLoad) else None

    def some(self, site: Site, load: BufferLoad) -> Mask:
        """Where what a block reads counts, for all its iterators.

        Args:
            site: the block.
            load: what it reads.
        """
        if load.buffer in self.unseen:
            return np.zeros((), np.bool_)
        return counted(*self.value(site, load))

    def counts(self, site: Site, terms: tuple[BufferLoad, BufferLoad]) -> npt.NDArray[np.float64]:
        """How many products each result of a block has that may be something else than 0, for all its iterators.

        Args:
            site: the block.
            terms: its factors.
        """
        if any(x.buffer in self.unseen for x in terms):
            return np.zeros([1] * len(site.block.iter_vars))
        if id(site) not in self._counts:
            self._counts[id(site)] = self.contract(site, [self.some(site, x) for x in terms], set(site.spatial))
        return self._counts[id(site)]

    def far(self, site: Site, terms: tuple[BufferLoad, BufferLoad]) -> npt.NDArray[np.float64]:
        """How many products of any elements, at most, reach as far as those of each result of a block do, in parts of ``PARTS``.

        Args:
            site: the block.
            terms: its factors.
        """
        counts = self.counts(site, terms) * PARTS
        table = self.tables.get(site.store.buffer)
        if table is None or site.store.buffer in self.unseen:
            return counts
        one, other = (self._whole(x.buffer) for x in terms)
        corners = [int(a) * int(b) for a in one for b in other]
        low, high = (self.at(site, x, site.store) for x in table)
        least, most = min(*corners, 0), max(*corners, 0)
        reach = np.maximum(np.ceil(high * PARTS / most) if most else 0, np.ceil(low * PARTS / least) if least else 0)
        return np.asarray(np.minimum(counts, np.maximum(reach, counts > 0)))

    def contract(self, site: Site, parts: Sequence[npt.NDArray[Any]], to: set[Var]) -> npt.NDArray[np.float64]:
        """For how many values of the other iterators all of some conditions hold; of numbers, what their products add up to.

        Args:
            site: the block.
            parts: conditions, or numbers where they are not all alike, for all of its iterators.
            to: iterators.

        Returns:
            Numbers for all iterators, with a dimension of 1 for the others and for those that no condition depends on.
        """
        own = [iv.var for iv in site.block.iter_vars]
        parts = [of_rank(x, len(own)) for x in parts]
        if not all(x.any() for x in parts):
            return np.zeros([1] * len(own))
        parts = [x for x in parts if x.size > 1]
        moved = {n for x in parts for n, size in enumerate(x.shape) if size > 1}
        times = prod(site.extents[v] for n, v in enumerate(own) if v not in to and n not in moved)
        kept = [n for n, v in enumerate(own) if v in to and n in moved]
        if not parts:
            return np.full([1] * len(own), float(times))
        if prod(site.extents[own[n]] for n in moved) > LARGE << 4 or prod(site.extents[own[n]] for n in kept) > LARGE:
            raise TooLargeError
        operands: list[object] = []
        for x in parts:
            axes = [n for n, size in enumerate(x.shape) if size > 1]
            operands += [x.reshape([x.shape[n] for n in axes]).astype(np.float64), axes]
        found = np.einsum(*operands, kept, optimize=len(parts) > 1)  # type: ignore[call-overload]
        return np.asarray(found * times).reshape([site.extents[v] if n in kept else 1 for n, v in enumerate(own)])


def tables(
    func: PrimFunc, some: Mapping[str, Mask], values: Mapping[str, Ints], ends: Mapping[str, Table],
) -> dict[str, Table]:
    """What is known of the tensors that a program is given.

    Args:
        func: the program.
        some: which elements may be something else than 0, by name.
        values: what they are, by name.
        ends: the lowest and the highest that those may be which are not 0, by name; else what is promised of the tensor.
    """
    ranges, found = ValueBounds(func), dict[str, Table]()
    for buffer in func.buffers:
        if buffer.name in values:
            found[buffer.name] = values[buffer.name], values[buffer.name]
        elif buffer.name in some:
            low, high = ends.get(buffer.name, ranges.of_buffer(buffer))
            found[buffer.name] = np.where(some[buffer.name], low, 0), np.where(some[buffer.name], high, 0)
    return found


def counted(low: Ints, high: Ints) -> Mask:
    """Which elements count: those that may take several values; of numbers that the program has, where all are, those but 0.

    A number that stands where an element is masked is the same whatever is given: what is made of it is known beforehand, or
    made once for all results.

    Args:
        low: the lowest that each may be.
        high: the highest.
    """
    varied = np.asarray(low != high)
    return varied if varied.any() else np.asarray(low != 0)


def _stored(block: Block) -> set[Buffer]:
    return {s.buffer for s in walk(block) if isinstance(s, BufferStore)}


def _small(holds: Mask, yes: npt.NDArray[Scalar], no: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """A choice between two, as small as it may be."""
    if np.all(holds):
        return yes
    if not np.any(holds):
        return no
    return np.where(holds, yes, no)


def _require_few(e: Expr, env: Mapping[Var, Ints]) -> None:
    """Refuses a value that is another one for too many iterators.

    Raises:
        TooLargeError: as it says.
    """
    told = {v for v in walk_expr(e) if isinstance(v, Var) and v in env}
    if prod(env[v].size for v in told) > LARGE:
        raise TooLargeError


def _order(site: Site, shape: Sequence[int]) -> list[int | None] | None:
    """Which iterator stores along each dimension of a tensor, each along one that it goes all along; None along one element."""
    own = [iv.var for iv in site.block.iter_vars]
    found: list[int | None] = []
    for index, size in zip(site.store.indices, shape):
        if int_value(index) == 0 and size == 1:
            found.append(None)
        elif isinstance(index, Var) and index in own and site.extents[index] == size and own.index(index) not in found:
            found.append(own.index(index))
        else:
            return None
    return found
