"""How full the elements of packed tensors are: what holds something of the program's, and what packing filled up with zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autosched.ir.expr import is_int
from autosched.ir.functor import walk, walk_expr
from autosched.ir.host import moves_only
from autosched.ir.interp import written
from autosched.ir.patterns import choice_of
from autosched.ir.scopes import ACC, WGT
from autosched.ir.simplify import conjuncts
from autosched.ir.stmt import BufferStore, PrimFunc
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.lower.host_work import run_stage
from autosched.lower.regions import shape_of
from space.elements import Ints, Mask, even
from space.known import Known, Table, tables
from space.least_epilogue import blocks_of
from space.normalise.blocks import elements_of, turning_point

if TYPE_CHECKING:
    from space.model import Model
    from space.operands import Operand

Array = npt.NDArray[np.generic]

LARGE = 1 << 26  # elements from which on a tensor is not looked at: that would cost a second and as many bytes


@dataclass(frozen=True)
class Filling:
    """What of a packed tensor is the program's.

    Args:
        lanes: share of all its lanes.
        rows: share of the rows of its elements that have any, which are the lanes of the result where it is a weight.
        most: different elements of the program's tensors that are in it, at most.
        whole: whether it may hold all of these tensors, as they are; else it is a part, or made of them.
        moved: whether it holds elements of them, as they are.
        once: share of its lanes that would hold each of these elements once: what is there again, another layout need not hold.
        some: which of its lanes may be something else than 0; None where that is not known.
        values: what it holds, where the host makes it of nothing, or of what it has made so.
        ends: the lowest and the highest that its lanes may be, where that is promised of what it is made of; else None.
    """

    lanes: Fraction
    rows: Fraction
    most: int
    whole: bool = field(default=False, compare=False)
    moved: bool = field(default=False, compare=False)
    once: Fraction = field(default=Fraction(1), compare=False)
    some: Mask | None = field(default=None, compare=False)
    values: Ints | None = field(default=None, compare=False)
    ends: Table | None = field(default=None, compare=False)


@lru_cache(maxsize=8)  # sketches that differ in their stages only are packed alike
def fillings(stages: tuple[PrimFunc, ...]) -> Mapping[str, Filling]:
    """By name, what of each tensor that the host packs is the program's.

    Args:
        stages: those of the host in front of the accelerator, in order. What one of them computes counts as full; what is
            large is not looked at, and holds each element of what it is made of once.
    """
    have: dict[str, Array] = {}
    most: dict[str, int] = {}
    moved: dict[str, bool] = {}
    some: dict[str, Mask] = {}
    values: dict[str, Ints] = {}
    ends: dict[str, Table] = {}
    for stage in stages:
        outputs = written(stage)
        given = [b for b in stage.buffers if b not in outputs]
        plain = moves_only(stage)
        if any(elements_of(b) > LARGE for b in stage.buffers):
            for b in outputs:
                have[b.name] = np.broadcast_to(np.ones((), b.dtype), shape_of(b))
                most[b.name] = sum(most.get(x.name, elements_of(x)) for x in given) if plain else elements_of(b)
                # Where it chooses, what it chooses is not looked at, and may be 0.
                some[b.name] = np.full([1] * len(b.shape), not _chooses(stage))
                ends.pop(b.name, None)
            continue
        for b in given:
            have.setdefault(b.name, np.ones(shape_of(b), b.dtype))
        moved.update({b.name: plain and all(moved.get(x.name, True) for x in given) for b in outputs})
        known = None if plain and not _promises(stage, ends) else Known(stage, tables(stage, some, {}, ends), {})
        made, told = run_stage(stage, have), dict[str, Array]()
        if all(x.name in values for x in given):
            told = run_stage(stage, {x.name: np.broadcast_to(values[x.name], shape_of(x)).astype(x.dtype) for x in given})
        for b in outputs:
            array = made[b.name]
            if b.name not in have and b.name in told:
                values[b.name] = even(told[b.name].astype(np.int64))
            else:
                values.pop(b.name, None)
            some[b.name] = even(array != 0) if plain or known is None else known.some_of(b)
            ends.pop(b.name, None)
            if known is not None and b in known.tables and b not in known.unseen:
                low, high = known.tables[b]
                whole = dtype_bounds(b.dtype)
                if np.any(low > whole[0]) or np.any(high < whole[1]):
                    ends[b.name] = low, high
            have[b.name] = array if plain else np.ones_like(array)
            most[b.name] = sum(most.get(x.name, have[x.name].size) for x in given) if plain else array.size
    found = {name: _unseen(have[name].size, size, moved.get(name, True)) if have[name].size > LARGE
             else _filling(have[name] != 0, size, moved.get(name, False)) for name, size in most.items()}
    return {name: replace(filling, some=some[name], values=values.get(name), ends=ends.get(name))
            for name, filling in found.items()}


def _chooses(stage: PrimFunc) -> bool:
    """Whether what a stage stores depends on the place."""
    stores = (s.value for s in walk(stage.body) if isinstance(s, BufferStore))
    return any(choice_of(e) is not None for value in stores for e in walk_expr(value))


def _promises(stage: PrimFunc, ends: Mapping[str, Table]) -> bool:
    """Whether of parts of what a stage makes other values are promised than of others: what is of one tensor the program says."""
    values, outputs = ValueBounds(stage), written(stage)
    given = [b for b in stage.buffers if b not in outputs]
    narrow = (is_int(b.dtype) and values.of_buffer(b) != dtype_bounds(b.dtype) for b in given)
    return any(b.name in ends for b in stage.buffers) or (len(given) > 1 and any(narrow))



def _unseen(size: int, most: int, moved: bool) -> Filling:
    """Of a tensor that is not looked at: it holds different elements at most, and packing may have filled up the rest."""
    share = min(Fraction(most, size), Fraction(1))
    return Filling(share, share, most, moved=moved, once=share)


def _filling(full: npt.NDArray[np.bool_], most: int, moved: bool) -> Filling:
    rows, count = full.any(axis=-1), int(np.count_nonzero(full))
    lanes, share = Fraction(count, full.size), Fraction(int(np.count_nonzero(rows)), rows.size)
    return Filling(lanes, share, most, moved and count >= most, moved, Fraction(min(count, most), full.size) if moved else lanes)


def shares(model: Model, full: Mapping[str, Filling]) -> tuple[Fraction, Fraction]:
    """Of a nest's products, and of the lanes of its results, the shares that are the program's; all where the layout is fixed.

    Args:
        model: of the nest.
        full: how full tensors are, by name.
    """
    nest, c = model.nest, model.config
    own = [o for o in nest.operands if o.scope == WGT and o.consumer == nest.anchor and o.name in full]
    weights = [full[o.name] for o in own]
    others = [full[o.name].lanes for o in nest.operands if o.scope != WGT and o.name in full]
    products = max([min(f.lanes, f.once) for f in weights], default=Fraction(1))
    results = max([_rows(model, o, full[o.name]) for o in own] or others, default=Fraction(1))
    stored = blocks_of(nest)[nest.out].body
    used = model.unpacked.get(stored.buffer.name) if isinstance(stored, BufferStore) and not nest.also else None
    if used is not None:
        results = min(results, Fraction(used, model.out_elements * c.batch * c.block_out))
    return products, results


def _rows(model: Model, weight: Operand, filling: Filling) -> Fraction:
    """The share of a nest's results that a weight of its sum makes anything of.

    Of the elements that a result sums over some may leave its row out, as those do that hold a band's beginning and its end: it
    is a result all the same.

    Args:
        model: of the nest.
        weight: of its sum.
        filling: of the weight.
    """
    sums = {*model.nest.reduce}
    over = [d for d, (coeffs, _) in enumerate(weight.dims) if (moved := {a for a, c in enumerate(coeffs) if c}) and moved <= sums]
    seen = prod(size for _, size in weight.dims) * model.config.block_in * model.config.block_out <= LARGE
    if filling.some is None or filling.some.ndim != len(weight.dims) + 2 or not (filling.moved and seen):
        return filling.rows
    rows = filling.some.any(axis=(*over, -1))
    return max(filling.rows, Fraction(int(np.count_nonzero(rows)), rows.size))


def least_products(model: Model, full: Mapping[str, Filling]) -> int:
    """How many products a sum has, at least, of those with any; 0 where it is not known.

    As many have all of them, where nothing is ``masked``.

    Args:
        model: of the nest.
        full: how full tensors are, by name.
    """
    nest, c = model.nest, model.config
    padded = any(not all(row) for o in nest.operands for row in o.inside)
    if nest.anchor is None or (padded and not model.padding.dims):
        return 0
    products, results = shares(model, full)
    vectors = max(model.out_elements * results, Fraction(1, LARGE))
    every = int(model.padding.extents.prod()) * c.block_in * products / vectors
    return int(every * model.padding.ends[0])


def repeats(model: Model, full: Mapping[str, Filling], operands: Sequence[Operand]) -> Fraction:
    """The share that is left of results if those that read the same elements of operands count once, at least.

    So many different elements, by how many a result reads, are so many different results.

    Args:
        model: of a nest, in a form that has no elements repeatedly of its own accord, to fill lanes.
        full: how full tensors are, by name.
        operands: those of its sum.
    """
    if not model.origins:
        return Fraction(1)
    held = [f.once / f.lanes for o in operands if (f := full.get(o.name)) is not None and f.moved and f.lanes]
    # Of places side by side (``times``) windows read several elements; others of a block of the program's own may be alike.
    copied = [Fraction(own, max(sum(o.inside[d]) if o.inside else size, 1)) for o in operands if o.producer is not None
              for d, (own, (_, size)) in enumerate(zip(o.source, o.dims)) if not o.times or o.times[d] == 1]
    return prod([min(share, Fraction(1)) for share in (*held, *copied)], start=Fraction(1))


def masked(func: PrimFunc) -> bool:
    """Whether a program chooses by more than single indices that are beyond something: sums may be of fewer products than others.

    Args:
        func: as a user writes it.
    """
    values = [s.value for s in walk(func.body) if isinstance(s, BufferStore)]
    found = [choice[0] for value in values for e in walk_expr(value) if (choice := choice_of(e)) is not None]
    return any(turning_point(c) is None for condition in found for c in conjuncts(condition))


def derived(model: Model, full: Mapping[str, Filling]) -> frozenset[str]:
    """Addends that the host works out of a nest's own factors, as for padding with another number than 0.

    Another program has that number among its data, and nothing to add.

    Args:
        model: of the nest.
        full: how full tensors are, by name.
    """
    nest, of = model.nest, model.origins
    factors = frozenset[str]().union(*(
        of.get(o.name, frozenset()) for o in nest.operands if o.scope != ACC and o.consumer == nest.anchor))
    return frozenset(o.name for o in nest.operands if o.scope == ACC and o.name in full and not full[o.name].moved
                     and of.get(o.name) and of[o.name] <= factors)


def part(count: int, share: Fraction) -> int:
    """A share of a number of elements, in whole ones: however tensors are packed, so many are needed for what is in these."""
    return -(-count * share.numerator // share.denominator)
