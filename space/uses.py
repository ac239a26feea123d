"""What the rest of a program has of a nest's results."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
import numpy.typing as npt

from space.joins import is_extremum
from space.least_elements import least_of
from space.least_epilogue import differences_of
from space.model import Model
from space.operands import Operand
from space.passing import stored as stored_by
from space.plan import indices


@dataclass(frozen=True)
class Uses:
    """What the rest of a program has of a nest's results.

    Args:
        share: of them, at least, that are results of the program or that another nest reads.
        pooled: results, at most, of the nests that take only the largest or smallest of several of them; None where one is read
            otherwise: what is done to each of them might be done to those few.
    """

    share: Fraction
    pooled: int | None


def uses_of(models: Sequence[Model]) -> list[Uses]:
    """Of every nest, what the rest of the program has of its results."""
    results = {b.name for b in models[0].nest.func.buffers}
    found: dict[int, Uses] = {}
    for n in reversed(range(len(models))):
        names = set(stored_by(models[n].nest))
        share, pooled = Fraction(0), 0
        places: dict[tuple[Hashable, ...], npt.NDArray[np.bool_]] = {}  # what is read, by tensor and layout
        for m in range(n + 1, len(models)):
            nest = models[m].nest
            for k, operand in enumerate(nest.operands):
                if operand.name in names:
                    # A vector is stored, and what is read may be sixteen of them, as a weight.
                    read = least_of(models[m], k) * prod(models[m].target.memories[operand.scope].lanes)
                    made = max(models[n].out_elements, 1) * models[n].config.batch * models[n].config.block_out
                    share = max(share, min(Fraction(read, made) * found[m].share, Fraction(1)))
                    if found[m].share == 1 and (own := _places(operand, models[m].extents)) is not None:
                        # Several readers together need what any of them does.
                        key = (operand.name, operand.scope, operand.source)
                        places[key] = places[key] | own if key in places else own
                        read = int(places[key].sum()) * prod(models[m].target.memories[operand.scope].lanes)
                        share = max(share, min(Fraction(read, made), Fraction(1)))
                    extremum = bool(differences_of(nest)) or (bool(nest.wides) and is_extremum(nest))
                    least = found[m].pooled
                    few = models[m].out_elements if least is None else min(models[m].out_elements, least)
                    pooled = pooled + few if extremum and pooled >= 0 else -1
        whole = bool(names & results) or not share
        found[n] = Uses(Fraction(1) if whole else share, None if whole or pooled < 0 else pooled)
    return [found[n] for n in range(len(models))]


def _places(operand: Operand, extents: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
    """Which elements of a tensor a nest reads, one dimension for each of its; None where padding or a diagonal hides that."""
    moved = [a for coeffs, _ in operand.dims for a, c in enumerate(coeffs) if c]
    if operand.producer is not None or len(moved) != len(set(moved)):
        return None
    found = np.ones((), dtype=np.bool_)
    for d, (coeffs, size) in enumerate(operand.dims):
        start = np.array(operand.within[d] if operand.within else [0]) + (operand.first[d] if operand.first else 0)
        index = np.add.outer(start, indices(extents, coeffs, [a for a, c in enumerate(coeffs) if c]))
        found = np.logical_and.outer(found, np.isin(np.arange(size), index))
    return found
