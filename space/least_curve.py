"""What is due where results bend from one slope to another, or rise by no power of two; proven in docs/bound/curves.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from autosched.ir.constant import values as constants
from autosched.ir.expr import BinOp, BufferLoad, Cast, Expr
from autosched.ir.functor import walk_expr
from autosched.ir.scopes import INP, WGT
from autosched.ir.stmt import Block, Buffer, BufferStore
from autosched.ir.value_bounds import Interval, ValueBounds
from space.least_joined import WRAP, Table, value_of
from space.nest import Nest

WIDE = 1 << 19  # sums to either side of 0 among which slopes are looked for that one product is too short for
FAR = 1 << 22  # beyond which no tail is looked for
FULL = 127  # a factor as large as that the host cannot have doubled; what one product can be is this times another one
LONG, MANY, MOST = 6, 20, 64  # runs that tell a slope: the flatter one of two, the steeper one, one alone
# By how much two slopes differ that take a shift each, runs that tell so, and products of a sum, so that few lanes repeat them.
FAR_APART, APART = (8, LONG, 3), (4, 2 * LONG, 6)
DEEP = 11  # products of a sum, so that three times as many take two micro-ops more
BYTES = 3 * WRAP  # sums along which a slope is more than what bytes can add that were stored
NEXT = 3  # times as long as another slope's runs are those of one that is not twice as steep
FLAT = 4  # times as long as a run is what is no slope
NEAR = 16  # a power of two is what is closer to it than by one part of so many


@dataclass(frozen=True)
class Slope:
    """A stretch of a staircase that climbs, or falls, by one.

    Args:
        step: 1 or -1.
        least: the shortest run's length.
        most: the longest one's, at most one more.
        runs: how many there are.
    """

    step: int
    least: int
    most: int
    runs: int


@dataclass(frozen=True)
class _Sum:
    """The sum that a result is a function of.

    Args:
        made: the tensor of sums.
        unit: by how much they differ.
        range: the lowest and highest of them, in units.
        products: how many of two parameters it adds up; 0 if it is one element, by a constant factor.
    """

    made: Buffer
    unit: int
    range: Interval
    products: int


def curve_operations(
    nest: Nest, blocks: Mapping[str, Block], values: ValueBounds, loaded: Set[str], products: int,
) -> tuple[tuple[str, ...], int] | None:
    """(operations that are due by name, cycles of a vector besides) of results that are a function of one sum.

    None where that is not understood, or a chain of what is written says as much.

    Args:
        nest: of which nothing comes together but what is made of the same sum.
        blocks: its blocks, by name.
        values: the ranges of what they make.
        loaded: addends that are part of the sum as it is.
        products: that a sum has at least.
    """
    plain = nest.anchor is not None and nest.tensorized and nest.stages
    if not plain or nest.wides or nest.halos or nest.forks or nest.also or not _is_no_chain(nest, blocks):
        return None
    total = _sum_of(nest, blocks, values, loaded, products)
    if total is None:
        return None
    for reach in (2 * FULL * FULL, WIDE):
        table = _results(nest, blocks, values, total, max(total.range[0], -reach), min(total.range[1], reach))
        due = None if table is None else _due(nest, blocks, values, total, table)
        if due is not None:
            return due
    return None


def _is_no_chain(nest: Nest, blocks: Mapping[str, Block]) -> bool:
    """Whether a stage takes in more than what the one before it makes and constants, or multiplies."""
    for stage in nest.stages:
        body = _store(blocks[stage.block])
        read = [e for e in walk_expr(body.value) if isinstance(e, BufferLoad) and e.indices == body.indices]
        if stage.products or len(read) > 1 or any(isinstance(e, BinOp) and e.op == "*" for e in walk_expr(body.value)):
            return True
    return False


def _store(block: Block) -> BufferStore:
    assert isinstance(block.body, BufferStore)
    return block.body


def _sum_of(
    nest: Nest, blocks: Mapping[str, Block], values: ValueBounds, loaded: Set[str], products: int,
) -> _Sum | None:
    """The sum of an anchor: of products of two parameters that the host cannot scale, or an operand's element; None of others."""
    anchor = blocks[nest.anchor or ""]
    store = _store(anchor)
    dom = {iv.var: iv.dom for iv in anchor.iter_vars}
    factors = [e for e in walk_expr(store.value) if isinstance(e, BufferLoad) and e.buffer is not store.buffer]
    if len(factors) != 2 or {e.dtype for e in factors} != {"int8"} or not isinstance(anchor.init, BufferStore):
        return None
    fixed = {c.buffer: constants(c) for c in nest.func.constants}
    (unit, tile), data = (_identity(factors, fixed), [e for e in factors if e.buffer not in fixed])
    if tile:
        (low, high), start = values.of(data[0], dom), values.of(anchor.init.value, dom)
        whole = low <= -FULL and high >= FULL and start == (0, 0) and not loaded
        return _Sum(store.buffer, unit, (low, high), 0) if whole else None
    ranges = [values.of(e, dom) for e in factors]
    # One factor of a product moves the sum to both sides, by steps of the other one.
    whole = any(low <= -FULL and high >= FULL for low, high in ranges)
    if not products or len(data) < 2 or not whole or not all(low <= 0 and high >= FULL for low, high in ranges):
        return None
    ends = [products * a * b for a in ranges[0] for b in ranges[1]]
    start = values.of(anchor.init.value, dom)
    bottom, top = min(ends) + min(start[0], 0), max(ends) + max(start[1], 0)
    for operand in {e.buffer for b in blocks.values() if isinstance(b.body, BufferStore) for e in walk_expr(b.body.value)
                    if isinstance(e, BufferLoad) and e.buffer.name in loaded}:
        low, high = values.of_buffer(operand)
        bottom, top = bottom + min(low, 0), top + max(high, 0)
    return _Sum(store.buffer, 1, (max(bottom, -FAR), min(top, FAR)), products)


def _identity(factors: Sequence[BufferLoad], fixed: Mapping[Buffer, Table]) -> tuple[int, bool]:
    """(the factor, whether it is that of an identity) of the constant among an anchor's factors."""
    tile = next((fixed[e.buffer] for e in factors if e.buffer in fixed), None)
    if tile is None or tile.ndim != 2 or not int(tile[0, 0]):
        return 1, False
    return int(tile[0, 0]), np.array_equal(tile, int(tile[0, 0]) * np.eye(*tile.shape, dtype=tile.dtype))


def _results(
    nest: Nest, blocks: Mapping[str, Block], values: ValueBounds, total: _Sum, low: int, high: int,
) -> Table | None:
    """The bytes that are stored, of all sums between two; None where it is not understood."""
    came = np.arange(low, high + 1)[:, None]
    env: dict[Buffer, Table] = {total.made: came * total.unit}
    fixed = {c.buffer: constants(c) for c in nest.func.constants}
    multiplied = {o.name for o in nest.operands if o.scope == INP and nest.anchor in o.readers}
    for name in (*(s.block for s in nest.stages), nest.out):
        block = blocks[name]
        start = block.body if block.init is None else block.init
        if not isinstance(start, BufferStore):
            return None
        for e in walk_expr(start.value):
            if isinstance(e, BufferLoad) and e.buffer in env and e.indices != start.indices:
                return None
            if isinstance(e, BufferLoad) and e.buffer not in env and not _know_given(e.buffer, blocks, values, env):
                return None
        # What is stored is the low byte.
        value = start.value.value if name == nest.out and isinstance(start.value, Cast) else start.value
        found = value_of(value, env, values)
        if block.init is not None and not _adds_zero(nest, name, values):
            # A product with an identity of the very operand that the sum is.
            factors = [e for e in walk_expr(_store(block).value) if isinstance(e, BufferLoad) and e.buffer is not start.buffer]
            factor, identity = _identity(factors, fixed)
            read = [o.name for o in nest.operands if o.scope in (INP, WGT) and name in o.readers and o.name not in
                    {b.name for b in fixed}]
            if found is None or total.products or not identity or len(read) != 1 or not multiplied >= set(read):
                return None
            found = found + factor * came
        if found is None:
            return None
        env[start.buffer] = found
    whole = np.broadcast_to(env[_store(blocks[nest.out]).buffer], came.shape)[:, 0]
    return whole % WRAP


def _adds_zero(nest: Nest, name: str, values: ValueBounds) -> bool:
    """Whether products of a block bring in an addend alone, as digits, that many results share and that may be 0.

    Digits may be 0 one by one where what they are of never is. The form in which that is added as it is, which every program
    has, says so then, and the bound is the least of all forms.
    """
    fixed, given = {c.buffer.name for c in nest.func.constants}, {b.name: b for b in nest.func.buffers}
    own = [o for o in nest.operands if o.scope in (INP, WGT) and name in o.readers and o.name not in fixed]
    if len(own) != 1 or own[0].scope != WGT or own[0].readers != (name,) or own[0].name not in given:
        return False
    low, high = values.of_buffer(given[own[0].name])
    return low <= 0 <= high


def _know_given(buffer: Buffer, blocks: Mapping[str, Block], values: ValueBounds, env: dict[Buffer, Table]) -> bool:
    """Whether a tensor is a parameter, maybe moved, that may be 0; it is told that it is."""
    made = {b.body.buffer: b.body.value for b in blocks.values() if isinstance(b.body, BufferStore)}
    source: Expr | None = made.get(buffer)
    while isinstance(source, BufferLoad):
        source = made.get(source.buffer)
    low, high = values.of_buffer(buffer)
    if source is not None or not low <= 0 <= high:
        return False
    env[buffer] = np.zeros((1, 1), dtype=np.int64)
    return True


def slopes_of(table: Table) -> list[Slope]:
    """The stretches of a table of bytes that climb or fall by one after every so many, or one more; none with less than two runs.

    Args:
        table: bytes, int64 of shape (n,), modulo 256.
    """
    places = np.flatnonzero(np.diff(table)) + 1
    steps = (table[places] - table[places - 1]) % WRAP
    found: list[Slope] = []
    lengths, signs = np.diff(places).tolist(), np.where(steps == 1, 1, np.where(steps == WRAP - 1, -1, 0)).tolist()
    step, least, most, runs = 0, 0, 0, 0
    for length, before, after in zip(lengths, signs, signs[1:]):
        if before != after or not before:
            step = 0
            continue
        if before == step and max(most, length) - min(least, length) <= 1:
            least, most, runs = min(least, length), max(most, length), runs + 1
            found[-1] = Slope(step, least, most, runs)
        else:
            step, least, most, runs = before, length, length, 1
            found.append(Slope(step, least, most, runs))
    return [s for s in found if s.runs > 1]


def _due(
    nest: Nest, blocks: Mapping[str, Block], values: ValueBounds, total: _Sum, table: Table,
) -> tuple[tuple[str, ...], int] | None:
    """What slopes and tails make due."""
    slopes = slopes_of(table)
    steep = min((s for s in slopes if s.runs >= MANY), key=lambda s: (s.least, -s.runs), default=None)
    if steep is None:
        return None
    if total.products:
        # One product moves the sum along so much, by steps of its other factor, which are no longer than a run.
        seen = 2 * FULL * min(steep.least, FULL)
        steep, *slopes = (replace(s, runs=min(s.runs, seen // s.most - 1)) for s in (steep, *slopes))
    others = [s for s in slopes if s.runs >= LONG and _differ(s, steep)]
    flat = max(others, key=lambda s: s.runs, default=steep) if steep.runs >= MANY else steep
    long = steep.runs * steep.least >= BYTES
    tails = _tails(nest, blocks, values, total, flat.most)
    ends = len(set(tails.values()))
    # Where both ends are one number, or slopes are of both signs, which comparison it is that makes them is left open.
    plain = flat.step == steep.step and ends == len(tails)
    clips = tuple("max" if low == (steep.step == 1) else "min" for low in tails) if plain else ()
    if flat is steep:
        shifts = int(steep.least > 1 and steep.runs > 1 << ends)
        # A slope that is no power of two: a second shift, or what is formed twice, or two accumulators, join.
        odd = 1 << steep.least.bit_length() - 1
        between = (NEAR + 1) * odd <= NEAR * steep.least and NEAR * steep.most <= (NEAR - 1) * 2 * odd
        further = 2 * (between and long and total.products >= DEEP and steep.runs >= MOST)
        return (*("shr",) * shifts, *clips), ends - len(clips) + further
    if _jumps(table) or any(_differ(s, steep) and _differ(s, flat) for s in slopes):
        return None  # an amount of shifting that another accumulator holds may take one value after the other
    shifts = sum(s.least > 1 for s in (steep, flat))
    told = (flat.least >= by * steep.most and flat.runs >= runs and total.products >= deep
            for by, runs, deep in (FAR_APART, APART))
    shifts = shifts if long and any(told) else min(shifts, 1)
    # Amounts next to each other may be the sum's sign, and what is shifted by 31 and more an end.
    due = shifts + 2 + (ends if flat.step != steep.step or flat.least > NEXT * steep.most else 0)
    # Without a shift every state of the comparisons has one result, or one that changes with every sum.
    if shifts and max(s.runs for s in (steep, flat) if s.least > 1) <= 1 << due - 2:
        shifts, due = 0, due - shifts
    if not ends and steep.most == flat.most == 1:
        due += not _is_of_two_lines(table, steep, flat)
    named = (*("shr",) * bool(shifts), *clips)
    return named, max(due - len(named), 0)


def _jumps(table: Table) -> bool:
    """Whether a table goes by more than one somewhere."""
    return bool(np.isin(np.diff(table) % WRAP, (0, 1, WRAP - 1), invert=True).any())


def _differ(slope: Slope, other: Slope) -> bool:
    """Whether one of two slopes is no other's: one falls and the other climbs, or its runs are longer by half and more."""
    return slope.step != other.step or 2 * slope.least >= 3 * other.most


def _tails(
    nest: Nest, blocks: Mapping[str, Block], values: ValueBounds, total: _Sum, longest: int,
) -> dict[bool, int]:
    """The results for the smallest (True) and the largest sums (False), where they are one for longer than a run can be."""
    found: dict[bool, int] = {}
    low, high = total.range
    reach = min(FLAT * longest, high - low)
    for smallest, (start, end) in ((True, (low, low + reach)), (False, (high - reach, high))):
        table = _results(nest, blocks, values, total, start, end)
        if table is not None and reach == FLAT * longest and not np.ptp(table):
            found[smallest] = int(table[0])
    return found


def _is_of_two_lines(table: Table, *slopes: Slope) -> bool:
    """Whether two lines, of slopes 1 or -1, have all values of a table between them."""
    at = np.arange(len(table))
    off = np.ones(len(table), dtype=np.bool_)
    for slope in slopes:
        line = (table - slope.step * at) % WRAP
        off &= line != np.bincount(line).argmax()
    return not off.any()
