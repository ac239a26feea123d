"""How full the elements of packed tensors are: what holds something of the program's, and what packing filled up with zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from autosched.ir.host import moves_only
from autosched.ir.interp import written
from autosched.ir.stmt import PrimFunc
from autosched.lower.host_work import run_stage

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Filling:
    """What of a packed tensor is the program's.

    Args:
        lanes: share of all its lanes.
        rows: share of the rows of its elements that have any, which are the lanes of the result where it is a weight.
        most: different elements of the program's tensors that are in it, at most.
    """

    lanes: Fraction
    rows: Fraction
    most: int


def fillings(stages: Sequence[PrimFunc]) -> Mapping[str, Filling]:
    """By name, what of each tensor that the host packs is the program's.

    Args:
        stages: those of the host in front of the accelerator, in order. What one of them computes counts as full.
    """
    have: dict[str, Array] = {}
    most: dict[str, int] = {}
    for stage in stages:
        outputs = written(stage)
        given = [b for b in stage.buffers if b not in outputs]
        for b in given:
            have.setdefault(b.name, np.ones([int(e.value) for e in b.shape], b.dtype))  # type: ignore[attr-defined]
        plain = moves_only(stage)
        for name, array in run_stage(stage, have).items():
            have[name] = array if plain else np.ones_like(array)
            most[name] = sum(most.get(b.name, have[b.name].size) for b in given) if plain else array.size
    return {name: _filling(have[name] != 0, size) for name, size in most.items()}


def _filling(full: npt.NDArray[np.bool_], most: int) -> Filling:
    rows = full.any(axis=-1)
    return Filling(
        Fraction(int(np.count_nonzero(full)), full.size), Fraction(int(np.count_nonzero(rows)), rows.size),
        min(most, int(np.count_nonzero(full))),
    )
