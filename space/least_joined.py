"""What is due where an operand joins every result behind shifts and clips (a residual); proven in docs/bound/residuals.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

import numpy as np
import numpy.typing as npt

from autosched.ir.constant import values as constants
from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.scopes import INP, WGT
from autosched.ir.stmt import Block, Buffer, BufferStore
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from space.nest import Nest
from space.operands import Operand

Table = npt.NDArray[np.int64]

MARGIN = 2  # by which a range has to reach past a clip for that to be seen
STEPS = 4  # of the result, at least, ahead of a clip: more than a clip or two can make
FLAT = 4  # times longer than what rounding keeps equal is what only a clip does
RUN = 16  # values of the operand for which a pattern has to hold
WIDE = 1 << 10  # values of what the operand joins, at most
PERIODS = (1, 2, 4, 8)  # after which a staircase is looked for to rise
PLACES = 33  # at which of them what the result does is looked at
WRAP = 256  # what is stored is the low byte
FACTORS = range(-128, 128)
SHIFTS = range(1, 9)
SHIFT_AND_SCALE = 2
BITS = 32
SHIFTING = ("shift_left", "shift_right")
OPERATIONS: Mapping[str, Callable[[Table, Table], Table]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "min": np.minimum, "max": np.maximum,
    "shift_left": np.left_shift, "shift_right": np.right_shift,
}


def joined_operations(
    nest: Nest, blocks: Mapping[str, Block], values: ValueBounds, bends: Mapping[str, Set[str]],
) -> int:
    """Cycles of a vector that an operand makes due which is added behind shifts and clips; 0 where that is not understood.

    They come on top of a shift, a maximum, a minimum and the operand's product, where these are due.

    The result is a function of two numbers: of the sum of products, by what the stages ahead make of it, and of the operand's
    element. Its values say what is needed, whatever the text looks like:

    * for the largest sums it rises with the operand and then is constant: two minima; so for the smallest, mirrored: two maxima;
    * it steps with the sum at places that the operand does not move, and with the operand in steps that are not alike: two
      shifts, and something that scales what the first one leaves; and where no sum of multiples, shifted, has these steps, a
      constant that is added. Where the operand does move these places, one shift would do, but only behind a product that scales
      the operand as the sum is: beyond 8 bits that is something more.

    Args:
        nest: of which nothing comes together but the operand and the sum.
        blocks: its blocks, by name.
        values: the ranges of what they make.
        bends: by block, which of ``shift_right``, ``max`` and ``min`` change what comes in, by more than a step or two.
    """
    found = _joins(nest, blocks)
    if found is None or not _makes_any_number(nest, values):
        return 0
    at, operand, factor = found
    bent = [n for n, s in enumerate(nest.stages[:at]) if bends.get(s.block)]
    if not bent:
        return 0
    cut = bent[-1] + 1
    head = [blocks[s.block] for s in nest.stages[:cut]]
    ahead = set[str]().union(*(bends.get(b.name, set()) for b in head))
    before = _made(head[-1])
    element = next(b for b in nest.func.buffers if b.name == operand.name)
    low, high = values.of_buffer(before)
    least, most = values.of_buffer(element)
    came = np.arange(least, most + 1)[None, :]
    # Every value between the ends is there: sums of two parameters' products are any number, and what is done to them keeps that.
    whole = "shift_right" in ahead and all(map(_keeps_whole, head))
    shifts = (e for b in head for e in _operations(b) if isinstance(e, Call) and e.op == "shift_right")
    shift = sum(int_value(e.args[1]) or 0 for e in shifts)
    clips, steps, behind = 0, None, False
    # Where sums are not clipped ahead, all that is done to them is done near 0 as well.
    for op, first in (("min", max(low, high - WIDE)), ("max", low), ("shift_right", max(low, -WIDE // 2))):
        if op not in ahead or (op == "shift_right" and len(ahead) > 1):
            continue
        carried = np.arange(first, min(high, first + WIDE) + 1)[:, None]
        table = _tail(nest, blocks, cut, nest.stages[at].block, {before: carried, element: came}, factor * came, values)
        if table is not None and op != "shift_right":
            end = table[-1] if op == "min" else -table[0]
            clips += _rises_and_stops(end)
            behind |= bool(np.ptp(end))
        if table is not None and whole:
            steps = _in_steps(table, least, shift) if steps is None else steps
    # Ahead of the sum a constant may be what the accumulator starts with; but there the operand has no say behind a clip.
    return clips + (min(steps or 0, SHIFT_AND_SCALE + behind))


def _joins(nest: Nest, blocks: Mapping[str, Block]) -> tuple[int, Operand, int] | None:
    """(the stage that reads an operand of which every result has an element of its own, that operand, its factor)."""
    if nest.anchor is None or not nest.tensorized or nest.wides or nest.halos or nest.forks or nest.live > 1:
        return None
    made = {s.buffer for b in blocks.values() for s in (b.init, b.body) if isinstance(s, BufferStore)}
    given = {b.name: b for b in nest.func.buffers if b not in made}
    fixed = {c.buffer.name: constants(c) for c in nest.func.constants}
    if not all(o.name in given or o.name in fixed for o in nest.operands):
        return None
    for at, stage in enumerate(nest.stages):
        for operand in nest.operands:
            alone = sum(o.name == operand.name for o in nest.operands) == 1 and operand.readers == (stage.block,)
            if not at or not alone or operand.name not in given or operand.producer is not None or not _is_own(nest, operand):
                continue
            if given[operand.name].dtype != "int8":
                continue
            if not stage.products:
                return at, operand, 0
            tile = next((fixed[o.name] for o in nest.operands if o.name in fixed and stage.block in o.readers), None)
            if stage.products == 1 and not stage.fresh and tile is not None and tile.ndim == 2:
                factor = int(tile[0, 0])
                if factor and np.array_equal(tile, factor * np.eye(*tile.shape, dtype=tile.dtype)):
                    return at, operand, factor
    return None


def _is_own(nest: Nest, operand: Operand) -> bool:
    """Whether every result reads an element of its own: each spatial axis moves one dimension, and no two the same one."""
    moved = [[a for a in nest.spatial if nest.axes[a].extent > 1 and coeffs[a]] for coeffs, _ in operand.dims]
    axes = sorted(a for own in moved for a in own)
    return all(len(own) < 2 for own in moved) and axes == sorted(a for a in nest.spatial if nest.axes[a].extent > 1)


def _makes_any_number(nest: Nest, values: ValueBounds) -> bool:
    """Whether sums of products take all values between their ends: factors are parameters that may be 0 and 1, one of them -1."""
    given = {b.name: values.of_buffer(b) for b in nest.func.buffers}
    ranges = [given.get(o.name) for o in nest.operands if nest.anchor in o.readers and o.scope in (INP, WGT)]
    held = [r for r in ranges if r is not None and r[0] <= 0 and r[1] >= 1]
    return len(held) == len(ranges) and any(low < 0 for low, _ in held)


def _keeps_whole(block: Block) -> bool:
    """Whether a stage makes all integers of an interval out of all integers of another one."""
    return block.init is None and all(e.op in ("+", "-", "min", "max", "shift_right") for e in _operations(block))


def _operations(block: Block) -> list[BinOp | Call]:
    """What a stage does, indices aside."""
    assert isinstance(block.body, BufferStore)
    return [e for e in walk_expr(block.body.value) if isinstance(e, BinOp | Call)]


def _made(block: Block) -> Buffer:
    store = block.body
    assert isinstance(store, BufferStore)
    return store.buffer


def _tail(
    nest: Nest, blocks: Mapping[str, Block], cut: int, joins: str, known: Mapping[Buffer, Table], product: Table,
    values: ValueBounds,
) -> Table | None:
    """What is stored, by what the stages ahead of some make and the operand's element; None where it is not understood."""
    env = dict(known)
    for name in (*(s.block for s in nest.stages[cut:]), nest.out):
        block = blocks[name]
        start = block.body if block.init is None else block.init
        if not isinstance(start, BufferStore) or (block.init is not None and name != joins):
            return None
        found = value_of(start.value, env, values)
        if found is None:
            return None
        env[start.buffer] = found + product if block.init is not None else found
    low, high = dtype_bounds("int8")
    whole = np.broadcast_to(env[_made(blocks[nest.out])], np.broadcast_shapes(*(v.shape for v in known.values())))
    return (whole - low) % (high - low + 1) + low


def value_of(e: Expr, env: Mapping[Buffer, Table], values: ValueBounds) -> Table | None:
    """An expression's value by those of tensors; of other parameters by one that every program has to bear."""
    if isinstance(e, IntImm):
        return np.full((1, 1), e.value)
    if isinstance(e, BufferLoad):
        if e.buffer in env:
            return env[e.buffer]
        low, high = values.of_buffer(e.buffer)
        return np.full((1, 1), min(max(0, low), high)) if e.buffer in values.func.buffers else None
    if isinstance(e, Cast):
        found = value_of(e.value, env, values)
    else:
        parts = (e.a, e.b) if isinstance(e, BinOp) else e.args if isinstance(e, Call) else ()
        own = [value_of(part, env, values) for part in parts]
        name = e.op if isinstance(e, BinOp | Call) else ""
        if name not in OPERATIONS or len(own) != 2 or own[0] is None or own[1] is None:
            return None
        if name in SHIFTING and not (own[1].size == 1 and 0 <= int(own[1][0, 0]) < BITS):
            return None
        found = OPERATIONS[name](own[0], own[1])
    low, high = dtype_bounds(e.dtype)
    return found if found is not None and low <= found.min() and found.max() <= high else None  # what wraps is not understood


def _rises_and_stops(row: Table) -> bool:
    """Whether numbers rise, or fall when read backwards, and then are constant for longer than rounding can tell.

    A line that is shifted, and shifted again, keeps its value for nearly as many steps everywhere, and a maximum only keeps it
    where the line is lowest.
    """
    for numbers in (row, row[::-1]):
        steps = np.diff(numbers)
        rises = np.flatnonzero(steps)
        if len(rises) < STEPS or (steps < 0).any():
            continue
        longest = int(np.diff(rises).max())
        if len(steps) - 1 - int(rises[-1]) > FLAT * longest:
            return True
    return False


def _in_steps(table: Table, least: int, shift: int) -> int | None:
    """Cycles that a staircase of a result makes due; None where no place shows one.

    A place is a number of values on which the result is a staircase in both directions, clips aside: so many more of the rest, or
    of the operand, always make it rise by as much. Where the operand comes in there is a number A + f r. If what is made of the
    sum were not shifted ahead of that, or not scaled, one more of the operand would do what some more of the rest do; if nothing
    was shifted behind it, all steps of the operand would be alike.

    Args:
        table: results, by what the operand joins and by the operand.
        least: the operand's first value.
        shift: by how many bits sums were shifted to make what the operand joins.
    """
    found = _staircase(table)
    if found is None:
        return None
    part, first, (period, rise), (again, gain) = found
    if all(np.ptp(row) == 0 for row in np.diff(part, axis=1) % WRAP):
        return 0
    by_operand = [(part[: -b or None, 1:] - part[b:, :-1]) % WRAP for b in range(period)]
    wrapped = ((b, _signed(int(d[0, 0])) + w) for b, d in enumerate(by_operand) if np.ptp(d) == 0 for w in (-WRAP, 0, WRAP))
    same = [b + period * more / rise for b, more in wrapped]
    if same:
        # Behind a shift there is room for the operand as it is; ahead of it a product has to scale it.
        return int(all(b * (1 << shift) not in FACTORS for b in same))
    # Both are staircases: where they are one on so many values, they are everywhere.
    part = part[: period + 1, : again + 1]
    rest, came = np.arange(period + 1)[:, None], np.arange(again + 1)[None, :] + least + first
    for by in SHIFTS:
        e = np.arange(1 << by)[:, None, None]
        for up in (gain - WRAP, gain, gain + WRAP):
            if (rise << by) % period or (up << by) % again:
                continue
            off = (((rise << by) // period * (rest + e) + (up << by) // again * came >> by) - part) % WRAP
            if (off == off[:, :1, :1]).all(axis=(1, 2)).any():
                return SHIFT_AND_SCALE
    return SHIFT_AND_SCALE + 1


def _signed(low_byte: int) -> int:
    """A number by its low byte."""
    return (low_byte + WRAP // 2) % WRAP - WRAP // 2


def _staircase(table: Table) -> tuple[Table, int, tuple[int, int], tuple[int, int]] | None:
    """A part of a table, its first column, and along rows and columns after how many the numbers rise, and by how much."""
    for period in PERIODS:
        moves = (table[period:] - table[:-period]) % WRAP
        best: tuple[int, int, int, int] = (0, 0, 0, 0)
        for row in np.unique(np.linspace(0, max(len(moves) - STEPS * period, 0), PLACES, dtype=int)):
            part = moves[row : row + STEPS * period]
            for by in set(part[0].tolist()) - {0} if len(part) == STEPS * period else ():
                same = np.concatenate(([False], (part == by).all(axis=0), [False]))
                for a, b in np.flatnonzero(same[1:] != same[:-1]).reshape(-1, 2):
                    best = max(best, (int(b - a), int(a), int(row), int(by)))
        length, first, row, rise = best
        part = table[row : row + STEPS * period, first : first + length]
        for again in PERIODS:
            turns = (part[:, again:] - part[:, :-again]) % WRAP
            if length >= max(RUN, STEPS * again) and np.ptp(turns) == 0:
                return part, first, (period, _signed(rise)), (again, _signed(int(turns[0, 0])))
    return None
