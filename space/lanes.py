"""How full the elements of packed tensors are: what holds something of the program's, and what packing filled up with zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autosched.ir.host import moves_only
from autosched.ir.interp import written
from autosched.ir.scopes import WGT
from autosched.ir.stmt import Buffer, BufferStore, PrimFunc
from autosched.lower.host_work import run_stage
from space.least_epilogue import blocks_of
from space.normalise.blocks import elements_of

if TYPE_CHECKING:
    from space.model import Model

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
    """

    lanes: Fraction
    rows: Fraction
    most: int
    whole: bool = field(default=False, compare=False)
    moved: bool = field(default=False, compare=False)
    once: Fraction = field(default=Fraction(1), compare=False)


def fillings(stages: Sequence[PrimFunc]) -> Mapping[str, Filling]:
    """By name, what of each tensor that the host packs is the program's.

    Args:
        stages: those of the host in front of the accelerator, in order. What one of them computes counts as full; what is
            large is not looked at, and holds each element of what it is made of once.
    """
    have: dict[str, Array] = {}
    most: dict[str, int] = {}
    moved: dict[str, bool] = {}
    for stage in stages:
        outputs = written(stage)
        given = [b for b in stage.buffers if b not in outputs]
        if any(elements_of(b) > LARGE for b in stage.buffers):
            for b in outputs:
                have[b.name] = np.broadcast_to(np.ones((), b.dtype), _shape(b))
                most[b.name] = sum(most.get(x.name, elements_of(x)) for x in given) if moves_only(stage) else elements_of(b)
            continue
        for b in given:
            have.setdefault(b.name, np.ones(_shape(b), b.dtype))
        plain = moves_only(stage)
        moved.update({b.name: plain and all(moved.get(x.name, True) for x in given) for b in outputs})
        for name, array in run_stage(stage, have).items():
            have[name] = array if plain else np.ones_like(array)
            most[name] = sum(most.get(b.name, have[b.name].size) for b in given) if plain else array.size
    return {
        name: _unseen(have[name].size, size, moved.get(name, True)) if have[name].size > LARGE
        else _filling(have[name] != 0, size, moved.get(name, False))
        for name, size in most.items()
    }


def _shape(buffer: Buffer) -> tuple[int, ...]:
    return tuple(int(e.value) for e in buffer.shape)  # type: ignore[attr-defined]


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
    weights = [full[o.name] for o in nest.operands if o.scope == WGT and o.consumer == nest.anchor and o.name in full]
    others = [full[o.name].lanes for o in nest.operands if o.scope != WGT and o.name in full]
    products = max([min(f.lanes, f.once) for f in weights], default=Fraction(1))
    results = max([f.rows for f in weights] or others, default=Fraction(1))
    stored = blocks_of(nest)[nest.out].body
    used = model.unpacked.get(stored.buffer.name) if isinstance(stored, BufferStore) and not nest.also else None
    if used is not None:
        results = min(results, Fraction(used, model.out_elements * c.batch * c.block_out))
    return products, results


def least_products(model: Model, full: Mapping[str, Filling]) -> int:
    """How many products a sum has, at least, of those with any; 0 where it is not known.

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
    return int(every * model.padding.least())
