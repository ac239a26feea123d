"""What points mean: loops, tiles, places and banks of many points at once.

A point tiles every axis once. The loops over tiles stand in one order, spatial ones first; a load at depth ``d`` stands inside
the first ``d`` of them. The output may be cut into parts (boxes that follow each other), which share the order and the places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from space.rule import Ints, Points

Mask = npt.NDArray[np.bool_]
Figures = TypeVar("Figures")


@dataclass
class Part:
    """A box of the axes with its own tiles; or all parts of a plan at once, with one more dimension in front (``Plan.stack``).

    Args:
        extents: iterations of every axis, shape (n, axes).
        tiles: iterations inside a tile, shape (n, axes).
        on: in which rows the part exists, shape (n,).
        lows: first index of every axis, shape (n, axes).
        slices: 0, or 1 + the spatial axis along which the last stages and the store go slice by slice, shape (n,).
        thick: indices of that axis in a slice, the last of which may be smaller, shape (n,).
        init: outer loops around the sum's initial values, shape (n,).
        out: outer loops around the stages and the store, shape (n,); the others are the sum's own.
    """

    extents: Ints
    tiles: Ints
    on: Mask
    lows: Ints
    slices: Ints
    thick: Ints
    init: Ints
    out: Ints
    _outer: tuple[Ints, Ints, Ints] | None = field(default=None, init=False, repr=False)

    @property
    def divided(self) -> bool:
        """Whether ``outer`` is known already."""
        known = self._outer
        return known is not None and known[0] is self.extents and known[1] is self.tiles

    @property
    def outer(self) -> Ints:
        """Tiles along every axis, the last of which may be smaller, shape (n, axes)."""
        if self._outer is None or not self.divided:
            self._outer = self.extents, self.tiles, -(-self.extents // self.tiles)
        return self._outer[2]

    def take_outer(self, outer: Ints) -> None:
        """Takes over what ``outer`` would work out."""
        self._outer = self.extents, self.tiles, outer

    @property
    def figures(self) -> tuple[npt.NDArray[Any], ...]:
        """What a part is made of, in the order of its arguments."""
        return self.extents, self.tiles, self.on, self.lows, self.slices, self.thick, self.init, self.out

    def of(self, rows: Ints) -> Part:
        """That of some rows, shape (m,)."""
        part = Part(*(_rows(own, rows) for own in self.figures))
        if self.divided:
            part.take_outer(_rows(self.outer, rows))
        return part

    def some(self, parts: Sequence[bool], rows: Ints) -> Part:
        """Of a stack that of some parts, and of these some rows."""
        found = Part(*(_of_all(own, parts, rows) for own in self.figures))
        if self.divided:
            found.take_outer(_of_all(self.outer, parts, rows))
        return found

    def stands(self, views: tuple[npt.NDArray[Any], ...]) -> bool:
        """Whether its figures are those very ones still."""
        extents, tiles, on, lows, slices, thick, init, out = views
        alike = self.extents is extents and self.tiles is tiles and self.on is on and self.lows is lows
        return alike and self.slices is slices and self.thick is thick and self.init is init and self.out is out

    @property
    def rest(self) -> Ints:
        """Iterations of the last tile along every axis, shape (n, axes)."""
        return np.asarray(self.extents - (self.outer - 1) * self.tiles, dtype=np.int64)

    @property
    def short(self) -> Ints:
        """By how many iterations the last tile along every axis is smaller than the others, shape (n, axes)."""
        return np.asarray(self.tiles - self.rest, dtype=np.int64)


@dataclass
class Plan:
    """The meaning of ``n`` points of one sketch; rules fill it in.

    Args:
        parts: in the order of execution; the main one, from which the others are cut, is ``parts[main]``.
        position: place of every axis' outer loop, shape (n, axes).
        attach: per operand, the number of outer loops around its load, shape (n,).
        banks: per operand, banks beyond the first, shape (n,).
        acc_banks: those of the accumulator beyond the first, shape (n,).
        drops: whether products with padding are left out, shape (n,).
        first: whether addends are loaded before all else, shape (n,).
        keep: per operand, whether the first part loads it for all parts, shape (n,).
        main: index of the main part.
        falls: whether the part behind that is of smaller tiles, in some rows (``rules/fall.py``).
        others: what rules from elsewhere say, by name, shape (n,) each: they may be shown some of the rows only.
        memo: what the model has worked out of a plan that is complete, by name; None while rules fill it in.
    """

    parts: list[Part]
    position: Ints
    attach: list[Ints]
    banks: list[Ints]
    acc_banks: Ints
    drops: Mask
    first: Mask
    keep: list[Mask]
    main: int = 0
    falls: bool = False
    others: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    memo: dict[object, Any] | None = None
    _stack: Part | None = field(default=None, repr=False)
    _views: list[tuple[Part, tuple[npt.NDArray[Any], ...]]] = field(default_factory=list, repr=False)

    @property
    def last(self) -> list[Part]:
        """The parts that are cut off the end, one after the other."""
        return self.parts[self.main + 1 + self.falls :]

    @property
    def body(self) -> Part:
        """The main part."""
        return self.parts[self.main]

    def __len__(self) -> int:
        return len(self.position)

    def complete(self) -> None:
        """Rules have said all: what is worked out from now on stays."""
        self._stack = self.stack
        self.memo = {}

    def of(self, rows: Ints) -> Plan:
        """That of some rows, shape (m,), as if there were no others; complete."""
        others = {name: _rows(own, rows) for name, own in self.others.items()}
        every = self.stack
        there = [n == self.main or bool(on.any()) for n, on in enumerate(every.on.take(rows, axis=1))]
        operands = [[_rows(own, rows) for own in each] for each in (self.attach, self.banks, self.keep)]
        plan = Plan(
            [], _rows(self.position, rows), operands[0], operands[1],
            _rows(self.acc_banks, rows), _rows(self.drops, rows), _rows(self.first, rows), operands[2],
            sum(there[: self.main]), self.falls and there[self.main + 1], others,
        )
        plan.take(every.some(there, rows))
        plan.complete()
        if self.memo is not None and plan.memo is not None and "loads" in self.memo:
            # Worked out of every row by itself.
            plan.memo["loads"] = self.memo["loads"].of_rows(there, rows)
        return plan

    @property
    def stack(self) -> Part:
        """All parts as one, their figures of shape (parts, n): one operation on all of them costs little more than on one.

        The parts' own figures are views of it until a rule gives one of them others. So what is written into it is theirs.
        """
        known = self._stack
        if known is None or (self.memo is None and not self._stands()):
            made = [columns_of_all([p.extents for p in self.parts]), columns_of_all([p.tiles for p in self.parts]),
                    np.array([p.on for p in self.parts]), columns_of_all([p.lows for p in self.parts])]
            known = Part(*made, *(np.array([own[n] for own in (p.figures for p in self.parts)]) for n in range(4, 8)))
            if all(p.divided for p in self.parts):
                known.take_outer(columns_of_all([p.outer for p in self.parts]))
            self.take(known, self.parts)
        return known

    def _stands(self) -> bool:
        """Whether the parts are those of the stack, as they are."""
        if len(self._views) != len(self.parts):
            return False
        return all(part is known and part.stands(views) for part, (known, views) in zip(self.parts, self._views))

    def take(self, every: Part, parts: Sequence[Part] = ()) -> None:
        """Takes over all parts at once.

        Args:
            every: their figures, shape (parts, n) each; (parts, n, axes) of axes, a figure of an axis side by side.
            parts: those that get views of it, if there are some that others know.
        """
        self._stack, self._views, self.parts = every, [], list(parts)
        figures, divided = every.figures, every.divided
        for n in range(len(every.on)):
            own = tuple([figure[n] for figure in figures])
            if parts:
                part = parts[n]
                part.extents, part.tiles, part.on, part.lows, part.slices, part.thick, part.init, part.out = own
            else:
                part = Part(*own)
                self.parts.append(part)
            if divided:
                part.take_outer(every.outer[n])
            self._views.append((part, own))

    def repeat(self, part: int) -> None:
        """Has a part stand twice, one behind the other, for a rule to make two of it."""
        of, every = [*range(part + 1), *range(part, len(self.parts))], self.stack
        found = Part(*(_taken(own, of) for own in every.figures))
        found.take_outer(_taken(every.outer, of))
        self.take(found)

    @property
    def firsts(self) -> list[Mask]:
        """Of every part, in which rows it is the first that there is, shape (n,)."""
        found, before = [], np.zeros(len(self), dtype=np.bool_)
        for part in self.parts:
            found.append(part.on & ~before)
            before = before | part.on
        return found

    def place_of(self, part: Part) -> int | None:
        """Which of the parts one is; -1 for their stack, None for one that is neither."""
        if part is self._stack:
            return -1
        return next((n for n, own in enumerate(self.parts) if own is part), None)


def _rows(figures: npt.NDArray[Any], rows: Ints) -> npt.NDArray[Any]:
    """Figures of some rows; those of a column stay side by side."""
    return figures.take(rows) if figures.ndim == 1 else figures.T.take(rows, axis=1).T


def _of_all(figures: npt.NDArray[Any], parts: Sequence[bool], rows: Ints) -> npt.NDArray[Any]:
    """Those of some parts, likewise."""
    some = figures if all(parts) else _taken(figures, np.flatnonzero(parts).tolist())
    return some.take(rows, axis=1) if some.ndim < 3 else some.swapaxes(1, 2).take(rows, axis=2).swapaxes(1, 2)


def _taken(figures: npt.NDArray[Any], parts: list[int]) -> npt.NDArray[Any]:
    """Those of some parts; figures of a column stay side by side."""
    return figures[parts] if figures.ndim < 3 else figures.swapaxes(1, 2)[parts].swapaxes(1, 2)


def columns_of_all(figures: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Figures of several parts, of shape (n, axes) each, as one, those of a column side by side; shape (parts, n, axes)."""
    return np.array([own.T for own in figures]).swapaxes(1, 2)


def columns(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rows of figures, or of points, as compiled code takes them: those of a column side by side, shape (.., columns, n).

    They themselves if they lie so already.
    """
    turned = np.ascontiguousarray(rows.swapaxes(-1, -2))
    return turned if turned.flags.writeable else turned.copy()


def give_back(points: Points, turned: Points) -> None:
    """Writes back what ``columns`` has made of rows, where it is not they themselves."""
    if not np.may_share_memory(points, turned):
        points[...] = turned.T


def stacked(figures: Ints) -> Ints:
    """Columns of figures of all parts, or of one as if it were all; shape (parts, axes, n)."""
    return figures if figures.ndim > 2 else figures[None]


def turned(plan: Plan, part: Part) -> tuple[Ints, Ints, Ints]:
    """Extents, tiles and ``outer`` of a part, or of all, as compiled code takes them, shape (parts, axes, n)."""
    return once(plan, part, "turned", lambda: (
        stacked(columns(part.extents)), stacked(columns(part.tiles)), stacked(columns(part.outer))))


def ends(plan: Plan, part: Part) -> Ints:
    """``short`` of a part, or of all, as compiled code takes it, shape (parts, axes, n)."""
    return once(plan, part, "ends", lambda: stacked(columns(part.short)))


def once(plan: Plan, part: Part, name: str, made: Callable[[], Figures]) -> Figures:
    """Figures of all parts of a complete plan, which are worked out once and not to be changed; of one part, or earlier, anew."""
    if plan.memo is None or part is not plan._stack:
        return made()
    if name not in plan.memo:
        plan.memo[name] = made()
    found: Figures = plan.memo[name]
    return found


def times(rows: Ints) -> Ints:
    """The product over the last dimension, the axes; column by column, which are far fewer than rows."""
    if not rows.shape[-1]:
        return np.ones(rows.shape[:-1], dtype=np.int64)
    found = rows[..., 0].astype(np.int64)  # a copy
    for n in range(1, rows.shape[-1]):
        found *= rows[..., n]
    return found


def indices(extents: Ints, coeffs: Sequence[int], axes: Iterable[int]) -> Ints:
    """Where every iteration of some axes stands in a dimension that they move; one dimension for each of them, in order.

    Args:
        extents: of all axes, shape (axes,).
        coeffs: by how many indices each of all axes moves it.
        axes: which.
    """
    index = np.zeros((), dtype=np.int64)
    for a in axes:
        index = np.add.outer(index, coeffs[a] * np.arange(extents[a]))
    return index


def along(values: Ints, axis: Ints) -> Ints:
    """What each row has for its own axis, shape (n,), or (parts, n) of a stack; 1 where that is negative.

    Args:
        values: a figure of every axis, shape (n, axes) or (parts, n, axes); a single vector has no axes.
        axis: shape (n,) or (parts, n).
    """
    if not values.shape[-1]:
        return np.ones(axis.shape, dtype=values.dtype)
    flat = values.reshape(-1, values.shape[-1])
    # A negative one finds something too, which does not count.
    found = flat[np.arange(len(flat)), np.maximum(axis, -1).ravel()].reshape(axis.shape)
    return np.where(axis < 0, 1, found)


def in_front(plan: Plan, points: Points, columns_of: Sequence[int], spatial: int, most: Ints, found: Ints) -> None:
    """Loops around what stands in front of some loops of several tiles of every part, counted from the innermost.

    Args:
        plan: of the rows.
        points: rows that say in front of how many, shape (n, columns).
        columns_of: of every part the column that says it, -1 where it is none, -2 where nobody asks.
        spatial: how many axes the output has.
        most: so many loops are around it at most, shape (parts, n).
        found: the result, shape (parts, n).
    """
    from space import _front_kernel

    every, of = plan.stack, np.array(columns_of, dtype=np.int64)
    _front_kernel.in_front(columns(points), of, columns(plan.position), columns(every.outer), spatial, most, found)
