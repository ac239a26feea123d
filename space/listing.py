"""The points of a design space one after the other, and how many combinations of decisions there are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from space.members import Members
from space.plan import Mask
from space.rule import Points, product
from space.rules.tiling import even

CHUNK = 1 << 15  # rows expanded at once where all are wanted: a few MB per array


class Listed(Members):
    """Points in lexicographic order, column by column: what no later column can save is left out early."""

    def blocks(self, rows: int = CHUNK) -> Iterator[Points]:
        """All points, sketch by sketch, in lexicographic order, in blocks, some empty: of few ``rows`` at once they come soon."""
        for k in self._open:
            for block in self._expand(k, self.sketches[k].loosest[None], 0, rows):
                yield self.wide(k, block)

    def enumerate(self) -> Iterator[Points]:
        """All points, block by block (non-empty)."""
        return (block for block in self.blocks() if len(block))

    def _expand(self, sketch: int, points: Points, column: int, rows: int) -> Iterator[Points]:
        columns = self.sketches[sketch].columns
        if column == len(columns):
            yield points[self.valid(self.wide(sketch, points))]
            return
        value = self._fixed.get(int(self._places[sketch][column]))
        choices = columns[column].choices if value is None else (value,)
        step = max(1, rows // len(choices))
        for first in range(0, len(points), step):
            wider = product(points[first : first + step], column, choices)
            yield from self._expand(sketch, wider[self._possible(sketch, wider, column)], column + 1, rows)

    def _possible(self, sketch: int, points: Points, column: int) -> Mask:
        """Drops what no later column can save: later ones hold what needs the least memory."""
        starts = self.sketches[sketch].starts
        nest = int(np.searchsorted(starts, column, side="right")) - 1
        model, points = list(self.sketches[sketch].split(points))[nest]
        column -= starts[nest]
        owners = [rule for rule in model.rules for _ in model.owned(rule)]
        fixed = points.copy()
        plan = model.neutral(len(points))
        for rule in model.rules:
            rule.repair(model, fixed, plan)
            rule.plan(model, fixed, plan)
            if rule is owners[column]:
                break
        mine = [n for n, owner in enumerate(owners) if model.rules.index(owner) < model.rules.index(owners[column])]
        mine = [*mine, *(n for n, owner in enumerate(owners) if owner is owners[column] and n <= column)]
        ok = np.asarray((fixed[:, mine] == points[:, mine]).all(axis=1), dtype=np.bool_)
        whole = model.plan(points[ok])
        # Tiles not decided yet are 1, the least; what does not divide yet is asked again later.
        ok[ok] = ~even(model, whole) | model.capacity(whole)
        return ok

    def raw(self) -> float:
        """Combinations of all columns' values, most of them no points; without those that are only tried around points.

        Listing leaves hardly any of these in, so that they say nothing about what it takes.
        """
        return float(sum(self._raw(k) for k in self._open))

    def _raw(self, sketch: int, tried: bool = False) -> float:
        """Combinations of the values of a sketch's columns that are drawn, or of those that are only tried around points."""
        own, columns = self.sketches[sketch], enumerate(zip(self.sketches[sketch].columns, self._places[sketch]))
        return float(np.prod([float(len(c.choices)) for n, (c, at) in columns
                              if int(at) not in self._fixed and (n in own.tried) == tried]))
