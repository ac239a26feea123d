"""Where lowering puts the accumulators behind a first part of two kinds of tiles: it may be where these stored last.

The values of both kinds are held from the beginning. Lowering places buffers one after the other, each clear of the copy that the
one before it uses last if it can; with three of different sizes it often cannot, though there is room beside that copy.
"""

from __future__ import annotations

import numpy as np

from autosched.ir.scopes import ACC
from autosched.lower.arrange import arranged
from space.model import Model
from space.plan import Plan, times
from space.rule import Ints


def clear(model: Model, plan: Plan) -> tuple[Ints, Ints]:
    """Which points have a first part of two kinds, and whether the accumulators of every part are clear of what came before it.

    Returns:
        the points, shape (m,), and of every part of theirs 2 where all copies are clear of what the part before stored last, 1
        where the first one is, else 0; shape (parts, m).
    """
    if plan.main < 2 or model.nest.halos or any(operand.scope == ACC for operand in model.nest.operands):
        return np.zeros(0, dtype=np.int64), np.zeros((len(plan.parts), 0), dtype=np.int64)
    part, rows = plan.stack, np.flatnonzero(plan.parts[1].on)
    sizes, copies = model.init_elements(plan, part), model.tile_copies(plan, part)
    figures = np.stack([part.on, sizes, copies, np.maximum(model.inits_run(plan, part), 1), times(model.out_tiles(plan, part))])
    keys, which = np.unique(figures[:, :, rows].reshape(-1, len(rows)), axis=1, return_inverse=True)
    found = [_clear(key.reshape(len(figures), -1), model.depths[ACC], model.target.semantics) for key in keys.T]
    return rows, np.array(found, dtype=np.int64).T[:, which.reshape(-1)]


def _clear(figures: Ints, depth: int, semantics: str) -> list[int]:
    """Of every part of a point, as ``clear`` has it.

    Args:
        figures: of every part, whether it is there, elements of a copy, copies, passes, elements that are stored at once; shape
            (5, parts).
        depth: of the accumulator's memory.
        semantics: of the target.
    """
    there = np.flatnonzero(figures[0]).tolist()
    size, copies, passes, stored = figures[1:, there].tolist()
    # The values of both kinds are written first; what is done with the first is over before that with the second begins.
    lives = [(n if n < 2 else 2 * n, 2 * n + 1) for n in range(len(there))]
    lives[0] = (0, 2)
    places = arranged(tuple(zip(size, copies, passes, lives)), ACC, depth, semantics)
    found = [2] * figures.shape[1]
    for n in range(2, len(there)):
        (at, _, last), (first, turned, _) = places[n - 1], places[n]
        end = at + (last + 1) * size[n - 1]
        met = [first + k * size[n] < end and end - stored[n - 1] < first + (k + 1) * size[n] for k in range(copies[n])]
        found[there[n]] = 0 if met[turned] else 1 if any(met) else 2
    return found
