"""Which elements the text of a program reads and stores, instance by instance, as arrays of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Not, Select, Var, const, int_value
from autosched.ir.functor import expr_children, substitute, walk, walk_expr
from autosched.ir.patterns import choice_of, has_loads, loads_from
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, For, PrimFunc, Range
from autosched.schedule.kit.nests import runs_whole
from autosched.target import Target
from space.normalise import conditions, initial
from space.normalise.blocks import elements_of

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Of a tensor's elements, or of a value for all iterators of a block: one dimension for each, of 1 where all along it are alike.
Scalar = TypeVar("Scalar", bound=np.generic)

LARGE = 1 << 23  # places from which on an access is not looked at: that would cost a second
NOWHERE = -1  # in place of an element: a constant, or nothing that is known


class UnknownError(Exception):
    """What is stored or read where is not told by the iterators alone, or by too many of them."""


@dataclass(frozen=True)
class Site:
    """A block of one store that runs once for each value of its iterators.

    Args:
        block: it.
        store: its store.
        spatial: iterators that say what is stored, in order.
        reduce: the others.
        extents: of all of them.
    """

    block: Block
    store: BufferStore
    spatial: tuple[Var, ...]
    reduce: tuple[Var, ...]
    extents: Mapping[Var, int]

    def shape(self, variables: Sequence[Var]) -> tuple[int, ...]:
        """Extents of some iterators."""
        return tuple(self.extents[v] for v in variables)


@dataclass(frozen=True)
class Access:
    """Places of a tensor for every value of some iterators.

    Args:
        variables: the iterators that tell them, in the order of the block.
        places: numbers of elements, a dimension for each iterator; NOWHERE where a condition does not hold.
    """

    variables: tuple[Var, ...]
    places: Ints


def in_blocks(func: PrimFunc, target: Target) -> PrimFunc:
    """A program with a block for every store, as far as it can be, each in loops of its own; otherwise as it is written.

    Args:
        func: the program as the user wrote it.
        target: the machine.
    """
    sch = conditions.single(func)
    with suppress(ScheduleError, AssertionError):  # blocks that are none of these count for nothing
        initial.plainly(sch, target)
    return sch.func


def sites_in(func: PrimFunc) -> Iterator[tuple[Block, Site | None]]:
    """The blocks of a program in its order, each as a site where it is one.

    Args:
        func: in blocks.
    """
    around = [s for s in walk(func.body) if isinstance(s, For)]
    for node in walk(func.body):
        if not isinstance(node, BlockRealize) or node.block.name == "root":
            continue
        realize = node if runs_whole(node, around) else _from_zero(node, around)
        block = realize.block
        extents = {iv.var: int_value(iv.dom.extent) or 0 for iv in block.iter_vars}
        known = isinstance(block.init, BufferStore | None) and isinstance(block.body, BufferStore)
        if not (known and runs_whole(realize, around)):
            yield block, None
            continue
        assert isinstance(block.body, BufferStore)
        told = {v for i in block.body.indices for v in walk_expr(i) if isinstance(v, Var)}
        spatial = tuple(iv.var for iv in block.iter_vars if iv.var in told)
        reduce = tuple(iv.var for iv in block.iter_vars if iv.var not in told)
        yield block, Site(block, block.body, spatial, reduce, extents)


def _from_zero(realize: BlockRealize, around: Sequence[For]) -> BlockRealize:
    """A block of one store that runs over a part of its iterators' domains as one that runs over all of its own, from 0."""
    block, loops_of = realize.block, {loop.var: loop for loop in around}
    moved, values, iters = dict[Var, Expr](), [], []
    for iv, value in zip(block.iter_vars, realize.iter_values):
        form = linear_form(value)
        (var, step), *others = form[0].items() if form is not None and form[0] else [(None, 0)]
        first = None if form is None else int_value(form[1])
        if var is None or others or step != 1 or first is None or var not in loops_of:
            return realize
        if first:
            moved[iv.var] = iv.var + const(first, iv.var.dtype)
        values.append(var)
        iters.append(replace(iv, dom=Range(const(0, iv.var.dtype), loops_of[var].extent)))
    if not isinstance(block.body, BufferStore) or not isinstance(block.init, BufferStore | None):
        return realize

    def put(s: BufferStore) -> BufferStore:
        return BufferStore(s.buffer, tuple([substitute(i, moved) for i in s.indices]), substitute(s.value, moved))

    init, body = None if block.init is None else put(block.init), put(block.body)
    return replace(realize, iter_values=tuple(values), block=replace(block, iter_vars=tuple(iters), init=init, body=body))


def access(site: Site, at: BufferLoad | BufferStore, given: Sequence[Expr] = ()) -> Access:
    """Where a tensor is read or written.

    Args:
        site: the block that does.
        at: what it reads or writes.
        given: conditions under which it does.

    Raises:
        UnknownError: the iterators alone do not tell, or they take too many values.
    """
    told = {v for e in (*at.indices, *given) for v in walk_expr(e) if isinstance(v, Var)}
    variables = tuple(v for v in (*site.spatial, *site.reduce) if v in told)
    if told - set(variables) or prod(site.shape(variables)) > LARGE or elements_of(at.buffer) > LARGE:
        raise UnknownError
    env = {v: np.arange(n).reshape(-1, *[1] * (len(variables) - k - 1))
           for k, (v, n) in enumerate(zip(variables, site.shape(variables)))}
    places: Ints = np.zeros((), np.int64)
    outside: list[Mask] = []
    for index, extent in zip(at.indices, at.buffer.shape):
        size, found = int_value(extent) or 0, value_at(index, env)
        # Asked index by index, of which each has few iterators: all of them together are many.
        if np.any(beyond := (found < 0) | (found >= size)):
            outside.append(beyond)
        places = places * size + found
    held = np.ones((), np.bool_)
    for condition in given:
        held = held & (value_at(condition, env) != 0)
    if any(np.any(beyond & held) for beyond in outside):
        raise UnknownError
    return Access(variables, np.broadcast_to(places if np.all(held) else np.where(held, places, NOWHERE), site.shape(variables)))


def spread(found: Access, over: Sequence[Var], site: Site) -> Ints:
    """Places for every value of some iterators, in their order; what does not depend on one is repeated.

    Args:
        found: of these iterators or of some of them, in that order.
        over: iterators.
        site: the block that they are of.

    Raises:
        UnknownError: there are too many.
    """
    if prod(site.shape(over)) > LARGE:
        raise UnknownError
    own = [site.extents[v] if v in found.variables else 1 for v in over]
    return np.broadcast_to(found.places.reshape(own), site.shape(over))


def distinct(numbers: Ints) -> bool:
    """Whether no element is there twice, without what is NOWHERE."""
    several = int(np.count_nonzero(numbers != NOWHERE))
    if not several:
        return True
    low, high = int(numbers.min()), int(numbers.max())
    if high - low + 1 < several:
        return False  # there are not so many different ones
    if low >= NOWHERE and high <= 8 * several:
        met = np.zeros(high + 2, dtype=np.bool_)
        met[numbers] = True  # the last place is that of what is NOWHERE
        return int(np.count_nonzero(met[:-1])) == several
    some = np.sort(numbers[numbers != NOWHERE])
    return not np.any(some[1:] == some[:-1])


def distinct_along(numbers: Ints, axes: Sequence[int]) -> bool:
    """Whether no element is there twice along some dimensions together, for each place along the others."""
    if not axes:
        return True
    # There are many of them: half as long they are sorted in half the time.
    kind = np.int32 if int(numbers.max(initial=0)) <= np.iinfo(np.int32).max else np.int64
    last = np.array(np.moveaxis(numbers, axes, range(-len(axes), 0)), dtype=kind, order="C")
    rows = last.reshape(prod(last.shape[: numbers.ndim - len(axes)]), -1)
    rows.sort(axis=1)
    return not np.any((rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] != NOWHERE))


def branches(value: Expr) -> tuple[tuple[Expr, Expr], ...] | None:
    """(value, condition) of both sides of a choice that no data makes; None of any other value.

    Args:
        value: any.
    """
    found = choice_of(value)
    if found is None or has_loads(found[0]):
        return None
    return (found[1], found[0]), (found[2], Not(found[0]))


def unsettled(func: PrimFunc) -> set[Buffer]:
    """Tensors with elements that are not written just once, or of which that is not known.

    Args:
        func: in blocks.
    """
    times: dict[Buffer, Ints] = {}
    odd: set[Buffer] = set()
    for block, site in sites_in(func):
        if site is None:
            odd |= {s.buffer for s in walk(block) if isinstance(s, BufferStore)}
            continue
        buffer = site.store.buffer
        try:
            places = spread(access(site, site.store), site.spatial, site)
        except UnknownError:
            odd.add(buffer)
            continue
        seen = times.setdefault(buffer, np.zeros(elements_of(buffer), np.int64))
        np.add.at(seen, places.ravel(), 1)
        if site.block.init is None and loads_from(site.store.value, buffer):
            odd.add(buffer)
    return odd | {buffer for buffer, seen in times.items() if np.any(seen > 1)}


def needed_blocks(func: PrimFunc, sites: Sequence[Site]) -> set[int]:
    """Ids of the blocks of which everything that they store is needed for a result.

    Args:
        func: in blocks.
        sites: those of its blocks that write settled tensors, in order.
    """
    needed: dict[Buffer, npt.NDArray[np.bool_]] = {b: np.ones(elements_of(b), np.bool_) for b in func.buffers}
    found: set[int] = set()
    for site in reversed(sites):
        buffer = site.store.buffer
        stored = spread(access(site, site.store), site.spatial, site)
        if buffer not in needed or not np.all(needed[buffer][stored]):
            continue
        found.add(id(site.block))
        starts = [site.block.init.value] if isinstance(site.block.init, BufferStore) else []
        for value in (site.store.value, *starts):
            for load, given in loads_under(value, ()):
                mine = needed.setdefault(load.buffer, np.zeros(elements_of(load.buffer), np.bool_))
                try:
                    places = access(site, load, given).places
                except UnknownError:
                    continue
                met = np.zeros(len(mine) + 1, dtype=np.bool_)
                met[places] = True  # the last place is that of what is NOWHERE
                mine |= met[:-1]
    return found


def loads_under(value: Expr, given: tuple[Expr, ...]) -> list[tuple[BufferLoad, tuple[Expr, ...]]]:
    """What a value loads, with the conditions under which it does; not what is loaded in indices.

    Args:
        value: any.
        given: conditions that it has already.
    """
    if isinstance(value, BufferLoad):
        return [(value, given)]
    sides = branches(value)
    parts = [(part, (*given, c)) for part, c in sides] if sides is not None else [(part, given) for part in expr_children(value)]
    return [found for part, conditions in parts for found in loads_under(part, conditions)]


def of_rank(table: npt.NDArray[Scalar], rank: int) -> npt.NDArray[Scalar]:
    """A table with a dimension for each of a block's iterators: of 1 for the first ones, which it does not depend on.

    Args:
        table: of what depends on no more than the last ones.
        rank: how many there are.
    """
    return table.reshape((1,) * (rank - table.ndim) + table.shape)


def even(table: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """A table with a dimension of 1 wherever all along it are alike.

    Args:
        table: of elements.
    """
    for d, size in enumerate(table.shape):
        if size > 1:
            first = table.take([0], axis=d)
            table = first if np.array_equal(np.broadcast_to(first, table.shape), table) else table
    return table


def value_at(e: Expr, env: Mapping[Var, Ints], read: Callable[[BufferLoad], Ints] | None = None) -> npt.NDArray[np.int64]:
    """An expression of iterators, for all their values.

    Args:
        e: of integers.
        env: the iterators' values.
        read: what is loaded; without it an expression that loads is not known.

    Raises:
        UnknownError: it is not known what it is.
    """
    if isinstance(e, IntImm):
        return np.asarray(e.value)
    if isinstance(e, Var) and e in env:
        return env[e]
    if isinstance(e, BufferLoad) and read is not None:
        return read(e)
    if isinstance(e, Not):
        return np.asarray(value_at(e.a, env, read) == 0)
    if isinstance(e, Select) or (isinstance(e, Call) and e.op == "if_then_else"):
        chosen = choice_of(e)
        assert chosen is not None
        condition, yes, no = (value_at(x, env, read) for x in chosen)
        return np.where(condition != 0, yes, no)
    if isinstance(e, Cast) and e.dtype in _WIDTHS:
        return wrapped(value_at(e.value, env, read), e.dtype)
    if isinstance(e, (BinOp, Call)) and e.op in OPERATIONS:
        a, b = (value_at(x, env, read) for x in expr_children(e))
        if e.op in DIVISIONS and np.any(b == 0):
            raise UnknownError
        return wrapped(np.asarray(OPERATIONS[e.op](a, b)), e.dtype)
    raise UnknownError


def wrapped(values: npt.NDArray[Any], dtype: str) -> Ints:
    """Integers as those of a type, where it is one of few bits.

    Args:
        values: any.
        dtype: the type.
    """
    return values.astype(dtype).astype(np.int64) if _WIDTHS.get(dtype, 64) < 64 and dtype != "bool" else np.asarray(values)


def _truncated(a: Ints, b: Ints) -> Ints:
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


_WIDTHS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"bool": 1}
DIVISIONS = ("//", "%", "truncdiv", "truncmod")
OPERATIONS: dict[str, Callable[[Ints, Ints], Any]] = {
    "truncdiv": _truncated, "truncmod": lambda a, b: a - b * _truncated(a, b),
    "shift_right": np.right_shift, "shift_left": np.left_shift,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.mod, "min": np.minimum, "max": np.maximum,
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or,
}
