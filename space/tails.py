"""What the last of several tiles along an axis reads, where it is less than the others read: how it lies on chip."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from autosched.ir.scopes import ACC
from space.plan import Mask

if TYPE_CHECKING:
    from space.model import Model

SHORT = 16  # iterations


def dense(model: Model) -> Mask:
    """Along which dimensions what the last tile reads lies densely on chip, though it is less; shape (operands, dims).

    So it does for products where nothing but the tiles of one axis moves it, index by index: then all of its readers cut it
    alike, and lowering gives the last tile rows of its own length (``autosched/lower/ends.py``).
    """
    found = np.zeros(model.dims[1].shape[:2], dtype=np.bool_)
    for k, operand in enumerate(model.nest.operands):
        for d, (coeffs, _) in enumerate(operand.dims):
            moving = [c for c, extent in zip(coeffs, model.extents) if c and extent > 1]
            found[k, d] = operand.scope != ACC and moving == [1] and not operand.reach(d)
    return found


def uneven(model: Model, axis: int) -> bool:
    """Whether the last of several pieces of a reduction may be smaller.

    Where a short one has divisors all the way, there is an even piece of nearly any size, and a space that is larger for nothing.
    What one load brings for all steps (``Operand.over``) it would bring for those that the last piece has not, too.
    """
    extent = int(model.extents[axis])
    even = [size for size in range(1, extent + 1) if extent % size == 0]
    outside = any(axis in operand.over for operand in model.nest.operands)
    return not outside and alone(model, axis) and (extent > SHORT or any(b > 2 * a for a, b in pairwise(even)))


def alone(model: Model, axis: int) -> bool:
    """Whether what products read of the last iterations of a reduction is no more than a smaller box, densely on chip."""
    moved = [(k, d) for k, o in enumerate(model.nest.operands) for d, (coeffs, _) in enumerate(o.dims) if coeffs[axis]]
    return model.nest.tensorized and all(model.dense[k, d] for k, d in moved)
