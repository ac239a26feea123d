"""Rectangles of buffers that accesses touch, with some loops fixed and the others run through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from autosched.ir.expr import IntImm
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Lin, Loop
from autosched.lower.tree import Access, Site


@dataclass(frozen=True, eq=False, slots=True)
class Box:
    """Per dimension: ``base`` (of the fixed loops) plus ``low`` to ``high``, inclusive."""

    bases: tuple[Lin, ...]
    lows: tuple[int, ...]
    highs: tuple[int, ...]

    def contains(self, other: Box, shape: Sequence[int] = ()) -> bool:
        """Whether ``other`` lies inside for every value of the fixed loops; False when that is not plain.

        Args:
            other: the box.
            shape: of the buffer, if what of ``other`` sticks out of it does not count: a whole dimension holds any part.
        """
        for d, (base, low, high) in enumerate(zip(self.bases, self.lows, self.highs)):
            if base == other.bases[d] and low <= other.lows[d] and high >= other.highs[d]:
                continue
            if not shape or base.terms or base.const + low > 0 or base.const + high < shape[d] - 1:
                return False
        return True

    def widened(self, shape: Sequence[int]) -> Box:
        """A box around this one that takes dimensions whole where it is as wide as they are.

        What sticks out of the buffer is never accessed, so ``x - 1`` to ``x + 3`` of 4 is 0 to 3 wherever x is.
        """
        whole = [high - low + 1 >= size for low, high, size in zip(self.lows, self.highs, shape)]
        return Box(
            tuple([Lin() if w else base for w, base in zip(whole, self.bases)]),
            tuple([0 if w else low for w, low in zip(whole, self.lows)]),
            tuple([size - 1 if w else high for w, high, size in zip(whole, self.highs, shape)]),
        )

    def hull(self, other: Box) -> Box | None:
        """The smallest box around both, or None where their bases differ."""
        if self.bases != other.bases:
            return None
        lows = tuple([min(a, b) for a, b in zip(self.lows, other.lows)])
        highs = tuple([max(a, b) for a, b in zip(self.highs, other.highs)])
        return Box(self.bases, lows, highs)

    def separates(self, loop: Loop) -> bool:
        """Whether different iterations of a fixed loop have disjoint boxes."""
        return any(
            abs(base.coef(loop)) > high - low
            for base, low, high in zip(self.bases, self.lows, self.highs)
        )


@lru_cache(8192)
def box(access: Access, fixed: tuple[Loop, ...]) -> Box:
    """The box of an access when the ``fixed`` loops stand still, inside the buffer where that is plain."""
    keep = set(fixed)
    bases, lows, highs = [], [], []
    for index, extent, limit in zip(access.indices, access.extents, shape_of(access.buffer)):
        base, low, high = index.restrict(keep)
        high += extent - 1
        if not base.terms:
            # Instances that a predicate leaves out would overshoot.
            low, high = max(low, 0), min(high, limit - 1)
        bases.append(base)
        lows.append(low)
        highs.append(high)
    return Box(tuple(bases), tuple(lows), tuple(highs))


def full_box(shape: Sequence[int]) -> Box:
    """A whole buffer."""
    return Box((Lin(),) * len(shape), (0,) * len(shape), tuple([s - 1 for s in shape]))


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    """A buffer's constant shape."""
    return tuple([s.value if isinstance(s, IntImm) else 0 for s in buffer.shape])


def common(paths: Sequence[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    """The loops that all paths share, outermost first."""
    shared: list[Loop] = []
    for level in zip(*paths):
        if any(loop is not level[0] for loop in level):
            break
        shared.append(level[0])
    return tuple(shared)


def harmless(cond: Lin, write: Access, fixed: Sequence[Loop]) -> bool:
    """Whether a condition on a write leaves out nothing that a read could want within one pass of the ``fixed`` loops.

    It does when it keeps an index inside the buffer, or when it only picks iterations that write the same place.
    """
    tight = cond.tight()
    for index, extent in zip(write.indices, shape_of(write.buffer)):
        if tight == index.tight() or tight == index.scale(-1).plus(extent - 1).tight():
            return True
    loops = cond.loops()
    return not (loops & set(fixed)) and not (loops & write.loops())


def covers(writer: Site, target: Box, fixed: Sequence[Loop]) -> bool:
    """Whether a site writes all of ``target`` in one pass of the ``fixed`` loops."""
    shape = shape_of(writer.write.buffer)
    return box(writer.write, fixed).contains(target, shape) and all(harmless(c, writer.write, fixed) for c in writer.conds)
