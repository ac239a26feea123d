"""Which elements of a program's tensors are elements of others as they are: a program that reads those need not make them.

What limits let through, a choice takes, a shift by nothing or a factor of one leave alone, is an element of a parameter, or of
what another block has stored. A value that is made of one element of int8 and of numbers is followed as a function of it, worked
out for all of its values: so it does not matter in how many steps it is made, or what is added and taken away again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, Var
from autosched.ir.functor import expr_children, replace_buffers, substitute_stmt
from autosched.ir.patterns import choice_of, has_loads, loads_from
from autosched.ir.stmt import Buffer, BufferStore
from autosched.lower.regions import shape_of
from space.elements import DIVISIONS, OPERATIONS, Ints, Mask, Site, UnknownError, value_at, wrapped

if TYPE_CHECKING:
    from space.known import Known

BYTE = "int8"  # the type of what products read
EVERY = np.arange(-128, 128)  # values of an element
LARGE = 1 << 12  # functions from which on no more are told apart: numbers that a program has are functions as well
SHIFTS, BITS = ("shift_left", "shift_right"), 32  # what is shifted further is nothing that is understood
UNKNOWN, SAME = 0, 1  # numbers of functions: none that is known, and the element itself


@dataclass(frozen=True)
class Line:
    """Values that are each a function of one element, or a number.

    Args:
        place: number of the element, over all tensors, from 1; 0 of a number, and of what is made otherwise.
        which: number of the function; ``UNKNOWN`` of what is made otherwise.
    """

    place: Ints
    which: Ints

    @property
    def parts(self) -> tuple[Ints, Ints]:
        """Both."""
        return self.place, self.which


ANY = Line(np.asarray(0), np.asarray(UNKNOWN))


class _Functions:
    """Functions of an element, each with a number."""

    def __init__(self) -> None:
        self.values = [EVERY, EVERY]
        self._numbers: dict[bytes, int] = {EVERY.tobytes(): SAME}
        self._joined: dict[tuple[object, ...], int] = {}

    def number(self, values: Ints) -> int:
        """The number of a function.

        Args:
            values: what it makes of all values of an element, or of each.

        Raises:
            UnknownError: there are too many.
        """
        values = np.broadcast_to(values, EVERY.shape).astype(np.int64)
        found = self._numbers.setdefault(values.tobytes(), len(self.values))
        if found == len(self.values):
            if found >= LARGE:
                raise UnknownError
            self.values.append(values)
        return found

    def numbers(self, which: Ints) -> tuple[Ints, Ints]:
        """What functions are at least, and at most."""
        ends = np.array([[v.min(), v.max()] for v in self.values])
        return ends[which, 0], ends[which, 1]

    def fixed(self, which: Ints) -> Mask:
        """Which functions are one number."""
        low, high = self.numbers(which)
        return np.asarray((low == high) & (which != UNKNOWN))

    def joined(self, key: object, parts: Sequence[Ints], make: Callable[..., Ints]) -> Ints:
        """Functions that are made of others.

        Args:
            key: what is done to them.
            parts: numbers of these, for all iterators of a block.
            make: what makes values of theirs.

        Raises:
            UnknownError: there are too many.
        """
        every = np.broadcast_arrays(*parts)
        codes = np.zeros(every[0].shape, np.int64)
        for part in every:
            codes = codes * len(self.values) + part
        kinds, first, back = np.unique(codes, return_index=True, return_inverse=True)
        found = np.zeros(len(kinds), np.int64)
        for n, at in enumerate(first):
            own = tuple(int(part.flat[at]) for part in every)
            if UNKNOWN in own:
                continue
            if (key, own) not in self._joined:
                self._joined[key, own] = self.number(make(*(self.values[m] for m in own)))
            found[n] = self._joined[key, own]
        return np.asarray(found[back].reshape(codes.shape))


class Copies:
    """What elements are made of, as far as it is one element and numbers.

    Args:
        known: what is known of a program so far; each question is about what its blocks have stored before.
        blocks: its blocks in order, those that are none of its sites too, with what they store.
        made: names of tensors that blocks store where products read them.
    """

    def __init__(self, known: Known, blocks: Sequence[tuple[Site | None, Set[Buffer]]], made: Set[str]) -> None:
        self.known = known
        self._order = {id(site): n for n, (site, _) in enumerate(blocks) if site is not None}
        self._last = {buffer: n for n, (_, stored) in enumerate(blocks) for buffer in stored}
        self._odd = {buffer for site, stored in blocks if site is None for buffer in stored}
        self._stores: dict[Buffer, list[Site]] = {}
        for site, _ in blocks:
            if site is not None:
                self._stores.setdefault(site.store.buffer, []).append(site)
        self._made = {b for b in self._last if b.name in made}
        # Tensors of which an element may be another one's: also such that are only on their way to memory.
        self._kept = {b for b in (*known.func.buffers, *self._last) if b.dtype == BYTE}
        self._same = _repeated(self._stores)
        self._functions = _Functions()
        self._roots: dict[Buffer, frozenset[Buffer]] = {}
        self._found: dict[tuple[int, int], frozenset[Buffer]] = {}
        self._tables: dict[Buffer, Line] = {}
        self._first: dict[Buffer, int] = {}
        self._numbered = 1

    # -- which tensors a value may be of --------------------------------------------------------------------------------

    def roots(self, buffer: Buffer) -> frozenset[Buffer]:
        """Tensors whose elements those of a tensor may be, itself among them; none where nothing is known.

        Args:
            buffer: one that no block stores any more.
        """
        if buffer not in self._roots:
            found = frozenset((buffer,)) if buffer in self._kept and buffer not in self._odd else frozenset[Buffer]()
            if buffer not in self._odd:
                found = found.union(*(self._made_of(site) for site in self._stores.get(buffer, ())))
            self._roots[buffer] = found
        return self._roots[buffer]

    def meets(self, site: Site, e: Expr | None = None) -> bool:
        """Whether two parts of a value, or of what a block sums up, may be made of the same element.

        Args:
            site: the block.
            e: the value in it; without, what it reduces to.
        """
        parts = expr_children(e) if e is not None else self._reduced(site)
        if len(parts) != 2:
            return False
        plain = [isinstance(x, BufferLoad) and x.buffer not in self._stores for x in map(_without_cast, parts)]
        # Of two elements that are read hardly any are the same one, and to find out takes as long as if they were.
        return not all(plain) and bool(self._of(site, parts[0]) & self._of(site, parts[1]))

    def _of(self, site: Site, e: Expr) -> frozenset[Buffer]:
        key = (id(site), id(e))
        if key not in self._found:
            self._found[key] = self._look(site, e)
        return self._found[key]

    def _look(self, site: Site, e: Expr) -> frozenset[Buffer]:
        none = frozenset[Buffer]()
        if not has_loads(e):
            return none
        if isinstance(e, BufferLoad):
            late = self._last.get(e.buffer, -1) >= self._order[id(site)]
            return none if late or e.buffer in self.known.unseen else self.roots(self._same.get(e.buffer, e.buffer))
        if isinstance(e, Cast):
            return self._of(site, e.value)
        choice = choice_of(e)
        if choice is not None:
            return none if has_loads(choice[0]) else self._of(site, choice[1]) | self._of(site, choice[2])
        if not isinstance(e, BinOp | Call) or e.op not in OPERATIONS:
            return none
        parts = expr_children(e)
        own = [self._of(site, x) for x in parts]
        if not any(own):
            return none
        found = own[0] & own[1] if self.meets(site, e) else none
        always = self._always(site, e)
        return found.union(*(roots for roots, other, mine in zip(own, parts[::-1], always)
                             if self._is_number(site, other) or np.any(mine)))

    def _made_of(self, site: Site) -> frozenset[Buffer]:
        """Tensors whose elements those may be that a block stores."""
        if site.block.init is None:
            return frozenset() if loads_from(site.store.value, site.store.buffer) else self._of(site, site.store.value)
        parts = self._reduced(site)
        if not parts:
            return frozenset()
        own = self._of(site, parts[1])
        return own if self._is_number(site, parts[0]) else own & self._of(site, parts[0]) if self.meets(site) else frozenset()

    def _reduced(self, site: Site) -> tuple[Expr, ...]:
        """What a block of products with numbers starts with, and the factor that is none of them; () of any other."""
        terms = self.known.terms(site)
        if terms is None or not isinstance(site.block.init, BufferStore):
            return ()
        for weight, load in (terms, terms[::-1]):
            low, high = self.known.value(site, weight)
            if np.array_equal(low, high):
                return site.block.init.value, load
        return ()

    def _is_number(self, site: Site, e: Expr) -> bool:
        """Whether a value is a number anywhere."""
        low, high = self.known.value(site, e)
        return bool(np.any(low == high))

    def _always(self, site: Site, e: BinOp | Call) -> tuple[Mask, Mask]:
        """Where the one of two is what their minimum, or maximum, always is, and where the other."""
        if e.op not in ("min", "max"):
            return np.zeros((), np.bool_), np.zeros((), np.bool_)
        a, b = (self.known.value(site, x) for x in expr_children(e))
        under = np.asarray(a[1] <= b[0]), np.asarray(b[1] <= a[0])
        return under if e.op == "min" else (under[1], under[0])

    # -- values ---------------------------------------------------------------------------------------------------------

    def line(self, site: Site, e: Expr) -> Line:
        """What a value is made of, for all iterators of a block.

        Args:
            site: the block.
            e: an integer expression in it.

        Raises:
            TooLargeError: for too many of them it is another one.
        """
        return self._with_numbers(self.combined(site, e) if self._of(site, e) else ANY, *self.known.value(site, e))

    def combined(self, site: Site, e: Expr) -> Line:
        """The same of an expression by what its parts are made of, without what is known of itself.

        Args:
            site: the block.
            e: the expression.
        """
        if isinstance(e, BufferLoad):
            return self._load(site, e)
        if isinstance(e, Cast):
            return self._joined((e.dtype,), [self.line(site, e.value)], lambda x: wrapped(x, e.dtype))
        choice = choice_of(e)
        if choice is not None:
            yes, no = (self.line(site, x) for x in choice[1:])
            return _chosen(value_at(choice[0], self.known.env(site)) != 0, yes, no)
        assert isinstance(e, BinOp | Call)
        a, b = (self.line(site, x) for x in expr_children(e))
        first, second = self._always(site, e)
        return _chosen(first, a, _chosen(second, b, self._operated(e.op, e.dtype, a, b)))

    def _operated(self, op: str, dtype: str, a: Line, b: Line) -> Line:
        """What an operation makes of two values."""
        def made(x: Ints, y: Ints) -> Ints:
            if (op in DIVISIONS and not np.all(y)) or (op in SHIFTS and np.any((y < 0) | (y >= BITS))):
                raise UnknownError
            return wrapped(np.asarray(OPERATIONS[op](x, y)), dtype)

        return self._joined((op, dtype), [a, b], made)

    def _joined(self, key: object, parts: Sequence[Line], make: Callable[..., Ints]) -> Line:
        """Functions of values, where all of them that are no numbers are made of the same element."""
        place, one = np.zeros((), np.int64), np.ones((), np.bool_)
        for part in parts:
            one = one & ((place == 0) | (part.place == 0) | (place == part.place))
            place = np.maximum(place, part.place)
        which = np.where(one, self._functions.joined(key, [part.which for part in parts], make), UNKNOWN)
        return Line(np.where((which == UNKNOWN) | self._functions.fixed(which), 0, place), which)

    def bounds(self, line: Line, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """The lowest and the highest of values, where it is known what they are made of.

        Args:
            line: what they are made of.
            low: the lowest otherwise.
            high: the highest.
        """
        least, most = self._functions.numbers(line.which)
        known = line.which != UNKNOWN
        return np.where(known, np.maximum(least, low), low), np.where(known, np.minimum(most, high), high)

    def reduced(self, site: Site) -> Line:
        """What a block stores is made of, for all its iterators.

        Args:
            site: the block.
        """
        if site.block.init is None:
            return self.line(site, site.store.value)
        terms, parts = self.known.terms(site), self._reduced(site)
        if terms is None or not parts:
            return ANY
        start, own = (self.line(site, x) for x in parts)
        numbers, _ = self.known.value(site, terms[0] if parts[1] is terms[1] else terms[1])
        fixed, dtype = self._functions.fixed(own.which), site.store.buffer.dtype
        some = np.asarray((numbers != 0) & ~fixed).astype(np.int64)
        count = self.known.sums(site, [some])
        one = np.asarray(count == 1)  # of several terms each may be made of another element
        rest = self.known.sums(site, [numbers, np.where(fixed, self._functions.numbers(own.which)[0], 0)])
        factor = self._numbers(np.where(one, self.known.sums(site, [some * numbers]), 0))
        line = _chosen(one, Line(*(self.known.sums(site, [some, part]) for part in own.parts)), self._numbers(count * 0))
        whole = _chosen(count <= 1, self._operated("*", dtype, line, factor), ANY)
        return self._operated("+", dtype, self._operated("+", dtype, start, self._numbers(rest)), whole)

    def _numbers(self, values: Ints) -> Line:
        """Numbers as functions."""
        kinds, back = np.unique(values, return_inverse=True)
        which = np.array([self._functions.number(n) for n in kinds], np.int64)
        return Line(np.zeros((), np.int64), which[back].reshape(values.shape))

    def _with_numbers(self, line: Line, low: Ints, high: Ints) -> Line:
        """A line, and numbers where values can only be one."""
        held = np.asarray(low == high)
        return _chosen(held, self._numbers(np.where(held, low, 0)), line) if np.any(held) else line

    def _load(self, site: Site, e: BufferLoad) -> Line:
        buffer = self._same.get(e.buffer, e.buffer)
        if self.roots(buffer) != {buffer}:
            return Line(*(self.known.at(site, part, e) for part in self.table(buffer).parts))
        place, shape = np.zeros((), np.int64), shape_of(buffer)
        env = self.known.env(site)
        for index, size in zip(e.indices, shape):
            place = place * size + value_at(index, env).clip(0, size - 1)
            self.known.require_few(place.shape)
        return Line(place + self._start(buffer), np.asarray(SAME))

    def table(self, buffer: Buffer) -> Line:
        """What the elements of a tensor are made of, one dimension for each of its own.

        Args:
            buffer: one that no block stores any more.
        """
        if buffer in self._tables:
            return self._tables[buffer]
        found: tuple[Ints, ...] | None = None
        for site in self._stores.get(buffer, ()):
            found = self.known.placed(site, self.reduced(site).parts, found, ANY.parts)
        line = ANY if found is None else Line(*found)
        if buffer in self.known.tables:
            line = self._with_numbers(line, *self.known.tables[buffer])
        if buffer in self._kept:
            self.known.require_few(shape_of(buffer))
            own = np.arange(prod(shape_of(buffer)), dtype=np.int64).reshape(shape_of(buffer)) + self._start(buffer)
            line = _chosen(line.which == UNKNOWN, Line(own, np.asarray(SAME)), line)
        self._tables[buffer] = line
        return line

    def _start(self, buffer: Buffer) -> int:
        """The number of a tensor's first element."""
        if buffer not in self._first:
            self._first[buffer] = self._numbered
            self._numbered += prod(shape_of(buffer))
        return self._first[buffer]

    # -- copies ---------------------------------------------------------------------------------------------------------

    def held(self, site: Site, load: BufferLoad) -> Iterator[tuple[Buffer, Mask, Ints]]:
        """Tensors of which a block reads elements where it reads another one, where it does, and which of them, in order.

        Args:
            site: the block.
            load: what it reads.
        """
        others = self._of(site, load) - {load.buffer} if load.buffer in self._made else frozenset[Buffer]()
        for buffer in sorted(others, key=self._start):
            found = self._pure(self._load(site, load), buffer)
            if found is not None:
                yield buffer, *found

    def copied(self, buffer: Buffer) -> dict[Buffer, Mask]:
        """Which elements of a tensor are those of others, as they are, by tensor.

        Args:
            buffer: it.
        """
        others = sorted(self.roots(buffer) - {buffer}, key=self._start)
        found = ((other, self._pure(self.table(buffer), other)) for other in others)
        return {other: pure[0] for other, pure in found if pure is not None} if buffer.dtype == BYTE else {}

    def _pure(self, line: Line, root: Buffer) -> tuple[Mask, Ints] | None:
        """Where values are elements of one tensor as they are, and which of them; None where none is."""
        places = line.place - self._start(root)
        held = (line.which == SAME) & (places >= 0) & (places < prod(shape_of(root)))
        return (np.asarray(held), np.asarray(places)) if np.any(held) else None

    def stands(self, buffer: Buffer) -> bool:
        """Whether a tensor is in memory, and not only on its way there.

        Args:
            buffer: it.
        """
        return buffer in self._made or buffer in self.known.func.buffers

    def forget(self) -> None:
        """Lets go of all that takes space."""
        self._tables, self._found = {}, {}


def _repeated(stores: Mapping[Buffer, Sequence[Site]]) -> dict[Buffer, Buffer]:
    """By tensor that is made as another one before it is, block by block, that one."""
    found: dict[Buffer, Buffer] = {}
    first: dict[object, Buffer] = {}
    own: dict[object, Buffer] = {}
    variables: list[Var] = []
    for buffer, (site, *more) in stores.items():
        if more:
            continue
        variables += [Var(f"v{n}") for n in range(len(variables), len(site.block.iter_vars))]
        names = {iv.var: v for iv, v in zip(site.block.iter_vars, variables)}
        shape = buffer.dtype, *shape_of(buffer)
        written = replace_buffers(site.store, {**found, buffer: own.setdefault(shape, Buffer("own", buffer.shape, buffer.dtype))})
        parts = [substitute_stmt(x, names) for x in (written, site.block.init) if x is not None]
        key = (shape, tuple(site.extents.values()), tuple(x.value if isinstance(x, BufferStore) else x for x in parts),
               tuple(x.indices for x in parts[:1] if isinstance(x, BufferStore)))
        same = first.setdefault(key, buffer)
        if same is not buffer:
            found[buffer] = same
    return found


def _chosen(holds: Mask, yes: Line, no: Line) -> Line:
    if np.all(holds):
        return yes
    if not np.any(holds):
        return no
    return Line(*(np.where(holds, a, b) for a, b in zip(yes.parts, no.parts)))


def _without_cast(e: Expr) -> Expr:
    return e.value if isinstance(e, Cast) else e

