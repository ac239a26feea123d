"""Which results and products of a nest are the same ones: they need be formed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from autosched.ir.scopes import ACC
from space.model import Model
from space.operands import Operand


def repeated(model: Model, operands: Sequence[Operand], most: bool = False) -> int:
    """How many results have the same operands, at most: some spatial axes tell which these are, the others repeat them.

    Along axes that none of them is read along they are the same, and so they are along a diagonal of two that move as one.

    Args:
        model: of the nest.
        operands: of it.
        most: where not all results count, and those may be left that are the same as most others; else it is a mean.
    """
    axes, sizes = model.nest.axes, [size for o in operands for _, size in o.dims]
    strides, told = np.cumprod([1.0, *sizes]), list[tuple[int, int]]()  # extents of axes, and how far they move a place
    rows, alike, tied = np.empty((0, len(sizes))), 1, False
    for a in sorted(model.nest.spatial, key=lambda a: -axes[a].extent):
        row = np.array([coeffs[a] for o in operands for coeffs, _ in o.dims], dtype=np.float64)
        more = np.vstack([rows, row])
        independent = np.linalg.matrix_rank(more) == len(more)
        if not independent and (not row.any() or strides[-1] > 2**53):
            alike *= axes[a].extent
            continue
        rows, tied = (more, tied) if independent else (rows, True)
        if strides[-1] <= 2**53:
            told.append((axes[a].extent, int(row @ strides[:-1])))
    if not tied:
        return alike
    # Of axes that only together tell a place, as its digits do, not all combinations need be places of their own.
    places, times = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    for extent, step in told:
        places, which = np.unique(np.add.outer(places, np.arange(extent) * step), return_inverse=True)
        times = np.bincount(which.ravel(), weights=times.repeat(extent)).astype(np.int64)
    return alike * (int(times.max()) if most else -(-prod(extent for extent, _ in told) // len(places)))


def recurring(model: Model, factors: Sequence[Operand]) -> int:
    """In how many sums, or places of one, a product may stand: along reductions that one of its factors is not read along.

    Args:
        model: of the nest.
        factors: of its products.
    """
    axes = (a for a, axis in enumerate(model.nest.axes) if axis.reduce)
    return prod(model.nest.axes[a].extent for a in axes if not all(o.uses(a) for o in factors))


def same_factors(model: Model, kin: Callable[[str], frozenset[str]]) -> bool:
    """Whether the anchor multiplies a tensor by itself, and not each element by its own place alone.

    Args:
        model: of the nest.
        kin: by name, the tensors that one has elements of.
    """
    own = [o for o in model.nest.operands if o.scope != ACC and o.consumer == model.nest.anchor]
    made = [frozenset[str]().union(*(model.origins.get(name, frozenset((name,))) for name in kin(o.name))) for o in own]
    moves = [{a for a in model.nest.spatial if o.uses(a)} for o in own]
    return any(made[n] & made[m] and moves[n] != moves[m] for n in range(len(own)) for m in range(n))


def factors_of(model: Model, block: str | None, kin: Callable[[str], frozenset[str]]) -> list[set[frozenset[str]]]:
    """The tensors that a sum of products multiplies: by factor, what the host makes those of that it is, or has elements of.

    Args:
        model: of the nest.
        block: the sum.
        kin: by name, the tensors that one has elements of.
    """
    own = (o.name for o in model.nest.operands if o.scope != ACC and block in o.readers)
    return [{model.origins.get(name, frozenset((name,))) for name in kin(one)} for one in own]


def in_common(some: Sequence[set[frozenset[str]]], others: Sequence[set[frozenset[str]]], free: bool) -> bool:
    """Whether two sums may have products in common.

    Args:
        some: the factors of the one.
        others: those of the other.
        free: whether the host may add up weights, so that one tensor that both multiply is enough.
    """
    held = [[bool(a & b) for b in others] for a in some]
    return any(map(any, held)) if free else all(map(any, held)) and all(map(any, zip(*held)))
