"""What is left to do behind the loads: results that need most of what is loaded end late (docs/bound/late_results.md)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, prod

import numpy as np

from autosched.ir.scopes import ACC, INP, WGT
from sim.timing import PIPELINE_CYCLES as PIPELINE
from space.figures import Floats
from space.least_epilogue import least_epilogue
from space.least_loads import latency
from space.model import Model
from space.operands import Operand
from space.rule import Ints

COUNTS = 256  # numbers of complete results that are looked at, at most: each makes a bound
SPANS = 64  # of numbers of complete results of a column that are looked at together, at most


def behind_loads(model: Model, used: Mapping[str, int]) -> int:
    """Cycles from when LOAD can begin to the last operation on a result, at least; 0 where nothing is known.

    Look at the moment when some number of results have all their products. What is not loaded by then still has its products to
    come, and what is loaded took LOAD its time. All other results have their stages to come.

    Args:
        model: of the only nest of a program in a fixed layout, where no results are alike and no product is in two sums.
        used: by memory, how many elements of the factor that is loaded there some product uses.
    """
    nest, config = model.nest, model.config
    factors = [o for o in nest.operands if o.scope != ACC]
    if nest.anchor is None or not nest.tensorized or nest.wides or nest.halos or len(factors) != 2 or len(used) < 2:
        return 0
    if any(s.products for s in nest.stages) or any(o.readers != (nest.anchor,) for o in factors):
        return 0
    inp, wgt = sorted(factors, key=lambda o: o.scope != INP)
    if not _is_product(model, inp, wgt):
        return 0
    operations = len(least_epilogue(nest, model.target, laid_out=False, visit=True).named)
    if not operations:
        return 0
    rows, every, taps = _rows(model, inp)
    columns = prod(int(model.extents[a]) for a in nest.spatial if wgt.uses(a))
    counts = _counts(rows * columns)
    row, column = (Fraction(size, config.bus_bytes) for size in (config.inp_elem_bytes, config.wgt_elem_bytes))
    loads = sum(latency(model.config, o.scope) for o in factors) + row * used[INP] + column * used[WGT]
    slack = least_slack(rows, every, columns, float(row), float(column), counts)
    best = max((taps * slack + (rows * columns - counts + 1) * operations).tolist())
    return max(0, ceil(loads + Fraction(best))) + PIPELINE * operations


def _is_product(model: Model, inp: Operand, wgt: Operand) -> bool:
    """Whether each result is of a row of the one factor and a column of the other, over reductions that both are read along.

    What is padded is known tap by tap, and no factor is a constant, of which less than all may have to be loaded.
    """
    nest = model.nest
    if inp.scope != INP or wgt.scope != WGT or (inp.producer is not None and not model.padding.taps) or wgt.producer is not None:
        return False
    if {inp.name, wgt.name} & {c.buffer.name for c in nest.func.constants} or inp.name == wgt.name:
        return False
    apart = all(inp.uses(a) != wgt.uses(a) for a in nest.spatial if model.extents[a] > 1)
    return apart and all(inp.uses(a) and wgt.uses(a) for a in nest.reduce if model.extents[a] > 1)


def _rows(model: Model, inp: Operand) -> tuple[int, Ints, int]:
    """(rows with a product, of every step of the padded reductions the rows that read no padding there, other steps for each)."""
    nest, padding = model.nest, model.padding
    rows = prod(int(model.extents[a]) for a in nest.spatial if inp.uses(a))
    steps = prod(int(model.extents[a]) for a in nest.reduce)
    found, beside = np.ones(1, dtype=np.int64), rows
    for places, own in padding.places():
        found, beside = np.multiply.outer(found, own).ravel(), beside // places
    return padding.vectors(rows), found * beside, steps // len(found)


def _counts(results: int) -> Ints:
    """The numbers of complete results that are looked at."""
    return np.unique(np.linspace(1, results, min(results, COUNTS)).astype(np.int64))


def least_slack(rows: int, every: Ints, columns: int, row: float, column: float, counts: Ints) -> Floats:
    """Products that are still to come, less the cycles that their operands take to load, at least; summed up over some steps.

    Let ``b`` columns have complete results, and the one that has most ``a`` of them, from ``low`` to ``high``: ``a b`` is no less
    than their number. So many rows are loaded wherever they read no padding, and of a step so many columns as have more complete
    results than read padding there. With d of the other rows and w of the other columns not loaded, ``columns d + every w - d w``
    products of it are to come. That less what these elements take to load is linear in each of both, and least at the corners.

    Args:
        rows: with a product.
        every: of each step of a reduction, how many read no padding there.
        columns: of the other factor.
        row: cycles that an element of a row takes to load.
        column: cycles that one of a column takes.
        counts: numbers of complete results, shape (n,).

    Returns:
        Of every number, shape (n,).
    """
    high = np.unique(np.linspace(0, rows, min(rows, SPANS) + 1).astype(np.int64))[1:]
    low, missing = np.array([1, *(high[:-1] + 1)]), rows - every
    found = np.full(len(counts), np.inf)
    for b in range(1, columns + 1):
        enough = -(-counts // b)
        # Of so many results no span has too few: the others, most of them, are left out.
        count, span = np.nonzero(enough[:, None] <= high)
        least = np.maximum(enough[count], low[span])
        # Columns that are not needed at a step have no more complete results than read padding there.
        spare, each = np.maximum(counts[count, None] - b * missing, 0), np.maximum(high[span, None] - missing, 0)
        needed = np.where(missing > 0, np.minimum(-(-spare // np.maximum(each, 1)), b), b)
        d, w = np.minimum(every, np.maximum(rows - least, 0)[:, None]), columns - needed
        rest, beside = d * (columns - row), w * (every - column)
        corners = np.minimum(np.minimum(0.0, rest), np.minimum(beside, rest + beside - d * w)).sum(axis=-1)
        np.minimum.at(found, count, corners)
    return found
