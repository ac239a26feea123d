"""A site's loops sorted out: which become instructions, which an instruction runs through, and between which bounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

import numpy as np

from autosched.errors import LoweringError
from autosched.lower.affine import Ints, Lin, Loop, Pick
from autosched.lower.limits import LIMITS, check_instructions
from autosched.lower.tree import Site

NOTES = ("hw", "uop", "unroll")
BITS = 63  # of a key that is not negative
FEW = 1024  # iterations of nests whose values are remembered: 8 KB a loop


@dataclass(eq=False, slots=True)
class Dim:
    """A loop (or several that act as one) inside an instruction.

    Args:
        extent: iterations.
        strides: per operand, elements from one iteration to the next.
        note: the schedule's choice of ``vta.loop``, or None.
        limits: pairs (coefficient, rest) with ``coefficient * index + rest >= 0`` required.
        pads: the same for the source of a load: where it fails, the element is 0.
    """

    extent: int
    strides: tuple[int, ...]
    note: str | None = None
    limits: list[tuple[int, Lin]] = field(default_factory=list)
    pads: list[tuple[int, Lin]] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Whether all iterations always run."""
        return not self.limits and not self.pads


@dataclass(eq=False, slots=True)
class Grid:
    """The instances of a site: loop values, and where each stands in program order.

    Args:
        values: per loop, its value in each instance.
        position: program-order key of each instance.
        step: number of the instance within its position.
        count: instances.
    """

    values: dict[Loop, Ints]
    position: Ints
    step: Ints
    count: int

    def take(self, keep: Pick, loops: Collection[Loop] | None = None) -> Grid:
        """The instances that ``keep`` (mask or indices) selects, with the values of some loops where no others are asked for."""
        values = {loop: v[keep] for loop, v in self.values.items() if loops is None or loop in loops}
        position = self.position[keep]
        return Grid(values, position, self.step[keep], len(position))

    def evaluate(self, lin: Lin) -> Ints:
        """A form for every instance."""
        result = np.empty(self.count, dtype=np.int64)
        result[:] = lin.evaluate(self.values)
        return result


def note_of(loop: Loop) -> str | None:
    """The schedule's ``vta.loop`` choice for a loop.

    Raises:
        LoweringError: kind ``annotation``: an unknown choice.
    """
    if "vta.loop" not in loop.notes:
        return None
    note = str(getattr(loop.notes["vta.loop"], "value", loop.notes["vta.loop"]))
    if note not in NOTES:
        raise LoweringError("annotation", f"vta.loop of {loop.name} is {note!r}; one of {', '.join(NOTES)}")
    return note


@dataclass(frozen=True, eq=False, slots=True)
class Steps:
    """A site's own loops before any condition.

    Args:
        noted: the schedule's choice for each of them, outermost first.
        strides: of each, per operand, elements from one iteration to the next.
        apart: those that are instances by that choice, or as an index is not linear.
    """

    noted: Mapping[Loop, str | None]
    strides: Mapping[Loop, tuple[int, ...]]
    apart: frozenset[Loop]

    @staticmethod
    def of(loops: Sequence[Loop], offsets: Sequence[Lin]) -> Steps:
        """The steps of loops, outermost first, over operands of these element indices."""
        noted = {loop: note_of(loop) for loop in loops}
        apart = frozenset([loop for loop, note in noted.items() if note == "unroll"])
        tables = [offset.terms for offset in offsets]
        return Steps(
            noted, {loop: tuple([terms.get(loop, 0) for terms in tables]) for loop in loops},
            apart.union(*[offset.opaque_loops() for offset in offsets]),
        )


def sort_out(
    steps: Steps, limits: Sequence[Lin], pads: Sequence[Lin] = ()
) -> tuple[list[Dim], list[Loop], list[Lin], list[Lin]]:
    """Divides a site's own loops.

    Args:
        steps: of these loops.
        limits: forms that must be >= 0 for an instance to run.
        pads: forms that must be >= 0 for the source to count.

    Returns:
        the loops inside the instruction as dimensions; the loops that are instances (opaque indices, conditions of several
        variables, ``vta.loop = unroll``); the limits and the pads that instances decide alone.
    """
    loops = steps.noted
    apart = set(steps.apart)
    for lin in (*limits, *pads):
        apart |= lin.opaque_loops()
    found = {id(cond): cond.loops() for cond in (*limits, *pads)}
    for own in found.values():
        # Of equal extents the innermost stays: sets of loops have no order of their own that a second run would repeat.
        mine = [loop for loop in loops if loop in own and loop not in apart]
        if len(mine) > 1:
            apart.update(sorted(mine, key=lambda loop: loop.extent)[:-1])
    strides = steps.strides
    dims = {loop: Dim(loop.extent, strides[loop], note) for loop, note in loops.items() if loop not in apart}
    alone: tuple[list[Lin], list[Lin]] = ([], [])
    for which, conds in enumerate((limits, pads)):
        for cond in conds:
            own = found[id(cond)]
            involved = next((loop for loop in dims if loop in own), None)
            if involved is None:
                alone[which].append(cond)
                continue
            dim = dims[involved]
            rest = Lin({term: c for term, c in cond.terms.items() if term is not involved}, cond.const)
            (dim.pads if which else dim.limits).append((cond.coef(involved), rest))
    return list(dims.values()), [loop for loop in loops if loop in apart], *alone


def cases(site: Site) -> list[tuple[Pick, list[Lin]]]:
    """The instances of a site over its sequencing loops, by which conditions can fail in them.

    A border concerns the tiles at it alone: where a condition holds for all values of the site's own loops, instructions need
    not mind it.

    Returns:
        pairs of a mask over the instances (in the order of ``make_grid``) and the conditions that may fail in these.
    """
    own = set(site.inner)
    tied = [c for c in site.conds if own & c.loops()]
    total = prod(loop.extent for loop in site.outer)
    # Conditions that no key can tell apart may all fail everywhere.
    if not tied or len(tied) > BITS or total > LIMITS.instructions:
        return [(np.ones(total, dtype=bool), list(site.conds))]
    values = loop_values(site.outer)
    code = np.zeros(total, dtype=np.int64)
    for k, cond in enumerate(tied):
        part, low, _ = cond.restrict(site.outer)
        code += (part.evaluate(values) < -low) * (1 << k)
    free = [c for c in site.conds if not own & c.loops()]
    return [
        (code == which, free + [c for k, c in enumerate(tied) if which >> k & 1]) for which in sorted(set(code.tolist()))
    ]


def loop_values(loops: Sequence[Loop]) -> dict[Loop, Ints]:
    """The value of every loop in all iterations of a nest, in order."""
    extents = tuple([loop.extent for loop in loops])
    # Candidates ask for the same again and again, the cases of a site and its instances as well.
    return dict(zip(loops, (_few_values if prod(extents) <= FEW else _values)(extents)))


def _values(extents: Sequence[int]) -> list[Ints]:
    """The value of every loop of a nest of these extents in all iterations, in order; for reading only."""
    found: list[Ints] = []
    outer, inner = 1, prod(extents)
    for extent in extents:
        inner //= max(extent, 1)
        own = np.empty((outer, extent, inner), dtype=np.int64)
        own[:] = np.arange(extent, dtype=np.int64)[:, None]
        found.append(own.reshape(-1))
        outer *= extent
    return found


_few_values = lru_cache(maxsize=512)(_values)


def make_grid(
    site: Site, unrolled: Sequence[Loop], limits: Sequence[Lin], strides: dict[Loop, int], start: int
) -> Grid:
    """All instances of a site over its sequencing loops and ``unrolled`` ones of its own.

    Args:
        site: the site.
        unrolled: own loops that become instances, outermost first.
        limits: forms that must be >= 0.
        strides: per sequencing loop, its weight in the program-order key.
        start: the key of the first instance.
    """
    loops = (*site.outer, *unrolled)
    total = prod(loop.extent for loop in loops)
    check_instructions(total, site.name)
    values = loop_values(loops)
    position = np.full(total, start, dtype=np.int64)
    for loop in site.outer:
        if loop.extent > 1:
            position += strides[loop] * values[loop]
    repeats = prod([loop.extent for loop in unrolled])
    step = np.zeros((total // repeats if repeats else 0, repeats), dtype=np.int64)
    if repeats > 1:
        step += np.arange(repeats, dtype=np.int64)
    grid = Grid(values, position, step.reshape(-1), total)
    for cond in limits:
        grid = grid.take(grid.evaluate(cond) >= 0)
    return grid


def within(grid: Grid, only: Pick, limits: Sequence[Lin]) -> Ints:
    """The numbers of a whole grid's instances that are in a case.

    Args:
        grid: all instances.
        only: the iterations of the sequencing loops that are in it.
        limits: forms that must be >= 0.
    """
    repeats = grid.count // max(len(only), 1)
    rows = np.flatnonzero(only if repeats == 1 else np.repeat(only, repeats))
    for cond in limits:
        rows = rows[grid.take(rows, cond.loops()).evaluate(cond) >= 0]
    return rows


def in_order(position: Ints, step: Ints) -> Ints:
    """The order of rows by their keys in the program, and of equal ones by their steps, none of which is negative."""
    span = int(step.max(initial=0)) + 1
    if int(position.max(initial=0)) >= (1 << 62) // span:
        return np.lexsort((step, position))
    # Sites' rows come in order, mostly: one key is sorted in a fraction of the time that two are.
    return (position * span + step).argsort(kind="stable")


def interval(limits: Sequence[tuple[int, Lin]], extent: int, grid: Grid) -> tuple[Ints, Ints]:
    """First and one past the last iteration that limits allow, per instance, inside 0..extent."""
    low = np.zeros(grid.count, dtype=np.int64)
    if not limits:
        return low, low + extent
    high = low + extent
    for k, rest in limits:
        value = grid.evaluate(rest)
        if k > 0:
            low = np.maximum(low, -(value // k))
        else:
            high = np.minimum(high, value // -k + 1)
    low = np.minimum(low, extent)
    return low, np.maximum(high, low)


def merge(dims: Sequence[Dim], longest: int) -> list[Dim]:
    """Joins dimensions that step through all operands like one; order is free, every site allows it."""
    rest = [d for d in dims if d.extent > 1 or not d.plain]
    changed = True
    while changed:
        changed = False
        for outer in rest:
            for inner in rest:
                if (
                    outer is not inner and outer.plain and inner.plain and outer.note == inner.note
                    and outer.extent * inner.extent <= longest
                    and all(a == b * inner.extent for a, b in zip(outer.strides, inner.strides))
                ):
                    rest[rest.index(outer)] = Dim(outer.extent * inner.extent, inner.strides, inner.note)
                    rest.remove(inner)
                    changed = True
                    break
            if changed:
                break
    return rest
