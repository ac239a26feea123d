"""Inputs on which a program shows what it computes.

Values drawn over their whole ranges tell little: of a convolution that ends in a clip nearly every output is one of the clip's
ends, whatever the weights are. Here each parameter gets a centre and a reach, found by walking the program's expressions with a
mean and a variance per tensor (terms taken as independent, sums as normal), so that most of what reaches a clip lies inside it.
Around that, values come in several magnitudes, and a few are the corners of their range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from autosched.ir.constant import values
from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Select, int_value, is_float, is_int
from autosched.ir.functor import all_exprs, stmt_children, walk_expr
from autosched.ir.interp import random_array, random_inputs, written
from autosched.ir.patterns import loads_from
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, PrimFunc, Stmt
from autosched.ir.value_bounds import Interval, dtype_bounds

Array = np.ndarray[Any, Any]
Many = float | Array  # one number, or one per choice of magnitudes
Moments = tuple[Many, Many]  # mean, variance

INSIDE = 0.8  # share of values inside every clip, by the estimate, at which the search for magnitudes is content
LOST = 0.2  # with a smaller share inside, a search from whole ranges has led nowhere
LEAST_GAIN = 1e-4  # what a step has to gain, relatively, while so little is inside
CHOICES = 300_000  # a search weighs no more: those for ten wide parameters, and what a second or two allow
SHIFTS = (0, 15)  # what all implementations take for a shift count
LEAST_REACH = 4  # a parameter keeps at least this many values on either side of its centre, where its range has them
MAGNITUDES = (0, 1, 0, 2)  # halvings of the reach, by turns along the first axis of several elements
LEANS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)
RARE = 512  # one in so many elements is a corner


@dataclass(frozen=True)
class Spread:
    """How a parameter is drawn: integers around ``centre``, at most ``reach`` away, within ``range``."""

    range: Interval
    centre: int
    reach: int
    corners: float = 0.0

    @property
    def ends(self) -> Interval:
        """The lowest and highest ordinary value."""
        return max(self.range[0], self.centre - self.reach), min(self.range[1], self.centre + self.reach)

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of a value, corners included."""
        low, high = self.ends
        mean, variance = (low + high) / 2, ((high - low + 1) ** 2 - 1) / 12
        away = [(x - mean) ** 2 for x in self.range]
        return mean, variance * (1 - self.corners) + self.corners * sum(away) / 2


@dataclass(frozen=True)
class _Store:
    """A value stored to one element ``steps`` times; ``updates``: it is made of what stood there."""

    value: Expr
    steps: int
    updates: bool


@dataclass
class _Walk:
    """Means and variances of a program's tensors, and how much of what is clipped lies inside: for many choices at once."""

    stores: Mapping[Buffer, Sequence[_Store]]
    given: Mapping[Buffer, Moments]
    inside: Many = 1.0
    known: dict[Buffer, Moments] = field(default_factory=dict)

    def buffer(self, buffer: Buffer) -> Moments:
        if buffer in self.given:
            return self.given[buffer]
        if buffer not in self.known:
            # While it is being worked out, a tensor that is updated in place counts as empty.
            self.known[buffer] = (0.0, 0.0)
            self.known[buffer] = self._stored(buffer)
        return self.known[buffer]

    def _stored(self, buffer: Buffer) -> Moments:
        found: Moments = (0.0, 0.0)
        for store in self.stores.get(buffer, ()):
            if not store.updates:
                found = self.of(store.value)
        for store in self.stores.get(buffer, ()):
            if store.updates:
                found = self._updated(buffer, store.value, store.steps, found)
        return found

    def _updated(self, buffer: Buffer, value: Expr, steps: float, start: Moments) -> Moments:
        """After ``steps`` updates in place: a sum grows with them, a maximum slowly, anything else is taken once."""
        if isinstance(value, BinOp) and value.op in ("+", "-", "min", "max"):
            mine = [isinstance(s, BufferLoad) and s.buffer is buffer for s in (value.a, value.b)]
            if any(mine):
                mean, variance = self.of(value.b if mine[0] else value.a)
                if value.op in ("min", "max"):
                    away = np.sqrt(2 * math.log(max(steps, 1.0)) * variance)
                    return mean + (away if value.op == "max" else -away), variance / max(1.0, math.log(max(steps, 1.0)))
                sign = -1 if value.op == "-" else 1
                return start[0] + sign * steps * mean, start[1] + steps * variance
        self.known[buffer] = start
        return self.of(value)

    def of(self, expr: Expr) -> Moments:
        if isinstance(expr, IntImm):
            return float(expr.value), 0.0
        if isinstance(expr, BufferLoad):
            return self.buffer(expr.buffer)
        if isinstance(expr, Cast):
            return self.of(expr.value)
        if isinstance(expr, Select):
            return self._either(expr.true_value, expr.false_value)
        if isinstance(expr, Call) and expr.op == "if_then_else":
            return self._either(expr.args[1], expr.args[2])
        if isinstance(expr, Call) and expr.op in ("shift_left", "shift_right"):
            return self._shifted(expr)
        if isinstance(expr, BinOp) and is_int(expr.dtype):
            return self._binary(expr)
        if is_int(expr.dtype):
            low, high = dtype_bounds(expr.dtype)
            return (low + high) / 2, (high - low) ** 2 / 12
        return 0.0, 1.0

    def _either(self, a: Expr, b: Expr) -> Moments:
        """A choice between a tensor's value and the zero of its padding is taken for the value."""
        return self.of(b if int_value(a) is not None else a)

    def _shifted(self, expr: Call) -> Moments:
        mean, variance = self.of(expr.args[0])
        by = int_value(expr.args[1])
        counts = [by] if by is not None else range(SHIFTS[0], SHIFTS[1] + 1)
        sign = 1 if expr.op == "shift_left" else -1
        first = sum(2.0 ** (sign * k) for k in counts) / len(counts)
        second = sum(4.0 ** (sign * k) for k in counts) / len(counts)
        # An arithmetic shift rounds down.
        low = 0.5 if expr.op == "shift_right" else 0.0
        return mean * first - low, np.maximum(0.0, (variance + mean * mean) * second - (mean * first) ** 2)

    def _binary(self, expr: BinOp) -> Moments:
        clipped, low, high = _unclipped(expr)
        if clipped is not expr:
            return self._clipped(clipped, low, high)
        (am, av), (bm, bv) = self.of(expr.a), self.of(expr.b)
        if expr.op == "+":
            return am + bm, av + bv
        if expr.op == "-":
            return am - bm, av + bv
        if expr.op == "*":
            return am * bm, av * bv + av * bm * bm + bv * am * am
        if expr.op in ("min", "max"):
            return (np.minimum if expr.op == "min" else np.maximum)(am, bm), (av + bv) / 2
        if expr.op in ("//", "%"):
            known = np.logical_and(bv == 0, np.greater(bm, 0))
            by = np.where(known, bm, 1.0)
            mean, variance = (am / by - 0.5, av / by**2) if expr.op == "//" else ((by - 1) / 2, by * by / 12)
            return np.where(known, mean, 0.0), np.where(known, variance, av + bv)
        return 0.0, av + bv

    def _clipped(self, expr: Expr, low: float, high: float) -> Moments:
        """A normal value cut at constants: what lies strictly inside is noted, and counts as all there is."""
        mean, variance = self.of(expr)
        deviation = np.sqrt(2 * variance) + 1e-9
        # Where no integer is inside, whatever the inputs are, the others are what counts.
        if high - low >= 2:
            # From half below the first integer inside to half above the last.
            self.inside = self.inside * (0.5 * (_erf((high - 0.5 - mean) / deviation) - _erf((low + 0.5 - mean) / deviation)))
        middle = np.minimum(np.maximum(mean, low), high)
        return middle, np.minimum(variance, (high - low) ** 2 / 12)


def _erf(x: Many) -> Array:
    return np.array([math.erf(e) for e in np.ravel(x).tolist()]).reshape(np.shape(x))


def _unclipped(expr: Expr) -> tuple[Expr, float, float]:
    """What is clipped by constants, and the ends of the clip."""
    low, high = -math.inf, math.inf
    while isinstance(expr, BinOp) and expr.op in ("min", "max"):
        limit = int_value(expr.b)
        inner, limit = (expr.a, limit) if limit is not None else (expr.b, int_value(expr.a))
        if limit is None:
            break
        low, high = (max(low, limit), high) if expr.op == "max" else (low, min(high, limit))
        expr = inner
    return expr, low, high


def _stores(func: PrimFunc) -> dict[Buffer, list[_Store]]:
    """Per tensor: what is stored."""
    found: dict[Buffer, list[_Store]] = {}

    def visit(stmt: Stmt, steps: int) -> None:
        if isinstance(stmt, BufferStore):
            updates = loads_from(stmt.value, stmt.buffer)
            found.setdefault(stmt.buffer, []).append(_Store(stmt.value, steps, updates))
        if isinstance(stmt, BlockRealize):
            steps = math.prod([int_value(v.dom.extent) or 1 for v in stmt.block.iter_vars if v.kind == "reduce"])
        if isinstance(stmt, Block) and stmt.init is not None:
            visit(stmt.init, 1)
            visit(stmt.body, steps)
            return
        for child in stmt_children(stmt):
            visit(child, steps)

    visit(func.body, 1)
    return found


@lru_cache(maxsize=256)
def spreads(func: PrimFunc) -> tuple[Spread | None, ...]:
    """How each parameter is drawn by ``telling_inputs``; None for what is not an integer tensor that the program reads.

    Args:
        func: a program with constant shapes.
    """
    outputs = set(written(func))
    counts = _shift_counts(func)
    drawn: dict[Buffer, Spread] = {}
    for k, param in enumerate(func.params):
        if not isinstance(param, Buffer) or param in outputs or is_float(param.dtype) or param.dtype == "bool":
            continue
        declared = func.value_ranges[k] if k < len(func.value_ranges) else None
        low, high = declared if declared is not None else dtype_bounds(param.dtype)
        if param in counts and max(low, SHIFTS[0]) <= min(high, SHIFTS[1]):
            low, high = max(low, SHIFTS[0]), min(high, SHIFTS[1])
        size = math.prod([int_value(e) or 1 for e in param.shape])
        centre = min(max(0, low), high) if param not in counts else (low + high) // 2
        spread = Spread((low, high), centre, max(high - centre, centre - low))
        # A corner of a wide tensor throws its few outputs out of the clip; those of narrow ones are spread over all sums.
        drawn[param] = spread if _is_wide(spread) else replace(spread, corners=_corners(size) / max(size, 1))
    drawn = _narrowed(func, drawn, counts)
    return tuple([drawn.get(p) if isinstance(p, Buffer) else None for p in func.params])


@dataclass(frozen=True)
class _Judge:
    """How much of what a program clips lies inside."""

    stores: Mapping[Buffer, Sequence[_Store]]
    outputs: Sequence[Buffer]
    constant: Mapping[Buffer, Moments]

    def shares(self, drawn: Mapping[Buffer, Spread], changes: Sequence[Mapping[Buffer, Spread]]) -> Array:
        """For each of many choices, by what it changes of ``drawn``."""
        given: dict[Buffer, tuple[Array, Array]] = {}
        for buffer, spread in drawn.items():
            mean, variance = spread.moments
            given[buffer] = np.full(len(changes), mean), np.full(len(changes), variance)
        for k, change in enumerate(changes):
            for buffer, spread in change.items():
                given[buffer][0][k], given[buffer][1][k] = spread.moments
        walk = _Walk(self.stores, {**self.constant, **given})
        with np.errstate(over="ignore", invalid="ignore"):
            for buffer in self.outputs:
                walk.buffer(buffer)
        return np.array(np.nan_to_num(np.broadcast_to(walk.inside, len(changes))))


def _narrowed(func: PrimFunc, drawn: dict[Buffer, Spread], fixed: set[Buffer]) -> dict[Buffer, Spread]:
    """Smaller magnitudes, until enough lies inside the clips or nothing helps."""
    judge = _Judge(_stores(func), written(func), {c.buffer: _moments_of(values(c)) for c in func.constants})
    best, found = _climbed(judge, drawn, fixed)
    # Where each of several parameters throws everything out by itself, a step of one tells nothing, or moves it far away to make
    # up for another. So they are brought near together, by half of what that helps at most: the wide ones, or else all.
    free = [b for b in drawn if b not in fixed]
    for together in ([b for b in free if _is_wide(drawn[b])], free):
        if best >= LOST or not together:
            continue
        widest = max(drawn[b].reach for b in together).bit_length()
        near = [{b: replace(drawn[b], reach=min(drawn[b].reach, 1 << k)) for b in together} for k in range(widest, 1, -1)]
        if not near:
            continue
        shares = judge.shares(drawn, near)
        start = near[int(np.argmax(shares >= shares.max() / 2))]
        best, found = max((best, found), _climbed(judge, drawn | start, fixed), key=lambda f: f[0])
    return found


def _climbed(judge: _Judge, drawn: dict[Buffer, Spread], fixed: set[Buffer]) -> tuple[float, dict[Buffer, Spread]]:
    """Smaller magnitudes and other centres, each step the best of all: the share inside, and the choice."""
    free = [b for b in drawn if b not in fixed]
    best, weighed = float(judge.shares(drawn, [{}])[0]), 0
    while free and best < INSIDE and weighed < CHOICES:
        changes: list[dict[Buffer, Spread]] = [{b: s} for b in free for s in _changed(drawn[b])]
        # Of equals, the parameter with most of its range left gives way, so that none ends up alone.
        left = [drawn[b].reach / (drawn[b].range[1] - drawn[b].range[0] + 1) for change in changes for b in change]
        for together in ([b for b in free if not _is_wide(drawn[b])], free):
            changes += [{b: _leaning(drawn[b], lean) for b in together} for lean in LEANS]
        left += [0.0] * (len(changes) - len(left))
        shares, weighed = judge.shares(drawn, changes), weighed + len(changes)
        # Equal are shares that have nine digits in common, however small they are.
        near = [int(k) for k in np.flatnonzero(shares >= shares.max() * (1 - 1e-8))]
        k = max(near, key=lambda k: (float(f"{shares[k]:.9g}"), left[k]))
        if shares[k] <= best * (1 + (1e-9 if best >= LOST else LEAST_GAIN)):
            break
        best, drawn = float(shares[k]), drawn | changes[k]
    return best, drawn


def _is_wide(spread: Spread) -> bool:
    """Whether a parameter has more than a byte of range: such tensors are what sums are moved by."""
    return spread.range[1] - spread.range[0] >= 512


@lru_cache(maxsize=4096)
def _changed(spread: Spread) -> tuple[Spread, ...]:
    """Seven tenths of the reach, and for a wide parameter the same reach around other centres."""
    reach = max(int(spread.reach * 0.7), min(LEAST_REACH, spread.reach))
    low, high = spread.range
    found = [replace(spread, reach=reach, centre=min(max(round(spread.centre * reach / max(spread.reach, 1)), low), high))]
    if _is_wide(spread):
        found[0] = replace(found[0], centre=spread.centre)
        steps = [s * (1 << k) for k in range(3, (high - low).bit_length()) for s in (1, -1)]
        found += [replace(spread, centre=c) for c in {min(max(spread.centre + s, low), high) for s in steps}]
    return tuple([s for s in found if s != spread])


def _leaning(spread: Spread, lean: float) -> Spread:
    """A parameter whose mean is ``lean`` of its reach: products of two such lean to one side together."""
    low, high = spread.range
    return replace(spread, centre=min(max(round(lean * spread.reach), low), high))


def _moments_of(data: Array) -> Moments:
    return (float(data.mean()), float(data.var())) if data.size else (0.0, 0.0)


def _shift_counts(func: PrimFunc) -> set[Buffer]:
    """Parameters that something is shifted by, directly or through tensors that copy them."""
    read: dict[Buffer, set[Buffer]] = {}
    for buffer, found in _stores(func).items():
        loads = [e.buffer for store in found for e in walk_expr(store.value) if isinstance(e, BufferLoad)]
        read.setdefault(buffer, set()).update(loads)
    reached: set[Buffer] = set()
    new = {
        e.buffer
        for shift in all_exprs(func.body) if isinstance(shift, Call) and shift.op in ("shift_left", "shift_right")
        for e in walk_expr(shift.args[1]) if isinstance(e, BufferLoad)
    }
    while new:
        reached |= new
        new = {b for r in new for b in read.get(r, ())} - reached
    return reached & set(func.params)


def _corners(size: int) -> int:
    """How many elements of a tensor are corners of their range."""
    return max(1, size // RARE) if size >= 32 else 0


def telling_inputs(func: PrimFunc, seed: int = 0) -> tuple[Array, ...]:
    """Random arrays for the parameters that a program only reads, of which most outputs lie inside the program's clips.

    They stay within declared value ranges and legal shift counts, come in several magnitudes, and hold a few corner values.

    Args:
        func: a program with constant shapes.
        seed: of ``numpy.random.default_rng``.

    Returns:
        One array per tensor parameter that is not written, in signature order; floats are in [-1, 1).
    """
    rng = np.random.default_rng(seed)
    outputs = set(written(func))
    arrays = []
    for param, spread in zip(func.params, spreads(func)):
        if not isinstance(param, Buffer) or param in outputs:
            continue
        shape = tuple([int_value(e) or 0 for e in param.shape])
        arrays.append(random_array(rng, shape, param.dtype) if spread is None else _draw(rng, shape, param.dtype, spread))
    return tuple(arrays)


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, spread: Spread) -> Array:
    low, high = spread.ends
    drawn = rng.integers(low, high, shape, dtype=np.int64, endpoint=True)
    centre = (low + high) // 2
    axis = next((k for k, extent in enumerate(shape) if extent > 1), None)
    if axis is not None and high - low >= 2 * LEAST_REACH:
        turns = np.resize(np.array(MAGNITUDES), shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        drawn -= centre
        drawn >>= turns
        drawn += centre
    count = _corners(drawn.size)
    if count:
        ends = spread.range
        corners = sorted({*ends, *[x for x in (-1, 0, 1) if ends[0] <= x <= ends[1]]})
        drawn.flat[rng.choice(drawn.size, count, replace=False)] = rng.permutation(np.resize(np.array(corners), count))
    return drawn.astype(dtype)


def wide_inputs(func: PrimFunc, seed: int = 0) -> tuple[Array, ...]:
    """Random arrays over whole value ranges, but for shift counts, which stay legal; else as ``telling_inputs``."""
    counts, drawn = _shift_counts(func), spreads(func)
    ranges = list(func.value_ranges) + [None] * (len(func.params) - len(func.value_ranges))
    for k, (param, spread) in enumerate(zip(func.params, drawn)):
        if param in counts and spread is not None:
            ranges[k] = spread.range
    return random_inputs(replace(func, value_ranges=tuple(ranges)), seed)
