"""Conditions on a few of an access' loops, which hold wherever it is inside of its buffer: against all iterations. And sums."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.ir.expr import IntImm
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Atom, Lin, Loop, Term
from autosched.lower.regions import _beyond
from autosched.lower.tree import Access

TILE, PLACE = Loop("o", 9), Loop("i", 4)


def access(index: Lin, size: int, extent: int = 1) -> Access:
    return Access(Buffer("b", (IntImm(size),), "int8"), (index,), (extent,))


@pytest.mark.parametrize(("index", "size", "extent", "cond", "outside"), [
    # Tiles of four that begin at -1: the last one is outside of 31 elements, and its first place the last of 32.
    (Lin({TILE: 4, PLACE: 1}, -1), 31, 1, Lin({TILE: -1}, 7), True),
    (Lin({TILE: 4, PLACE: 1}, -1), 32, 1, Lin({TILE: -1}, 7), False),
    # One that begins at -4 ends at -1, and one that begins at -3 at 0.
    (Lin({TILE: 4, PLACE: 1}, -4), 99, 1, Lin({TILE: 1}, -1), True),
    (Lin({TILE: 4, PLACE: 1}, -3), 99, 1, Lin({TILE: 1}, -1), False),
    (Lin({TILE: 4, PLACE: 1}, -5), 99, 2, Lin({TILE: 1}, -1), True),
    (Lin({TILE: 4, PLACE: 1}, -4), 99, 2, Lin({TILE: 1}, -1), False),
    # The other loop runs the other way.
    (Lin({TILE: 4, PLACE: -1}, 2), 31, 1, Lin({TILE: -1}, 7), True),
    (Lin({TILE: 4, PLACE: -1}, 1), 31, 1, Lin({TILE: -1}, 7), False),
    # About all of its loops: that is for others to see.
    (Lin({TILE: 4, PLACE: 1}, -1), 31, 1, Lin({TILE: -4, PLACE: -1}, 31), False),
    (Lin({TILE: 4, PLACE: 1}, -1), 31, 1, Lin({}, -1), False),
])
def test_where_a_condition_fails(index: Lin, size: int, extent: int, cond: Lin, outside: bool) -> None:
    assert _beyond(cond, access(index, size, extent)) is outside


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(-3, 4), min_size=3, max_size=3), st.integers(-8, 8), st.integers(1, 12), st.integers(1, 3),
       st.lists(st.integers(-2, 2), min_size=3, max_size=3), st.integers(-4, 4))
def test_what_fails_is_outside(steps: list[int], start: int, size: int, extent: int, terms: list[int], const: int) -> None:
    loops = [Loop("a", 4), Loop("b", 3), Loop("c", 2)]
    index = Lin({loop: c for loop, c in zip(loops, steps) if c}, start)
    cond = Lin({loop: c for loop, c in zip(loops, terms) if c}, const)
    if not _beyond(cond, access(index, size, extent)):
        return
    for at in product(range(4), range(3), range(2)):
        if sum(c * x for c, x in zip(terms, at)) + const < 0:
            first = sum(c * x for c, x in zip(steps, at)) + start
            assert first >= size or first + extent <= 0, (at, first)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(-2, 2), min_size=4, max_size=4), st.integers(-9, 9), st.integers(-3, 3)),
                max_size=5))
def test_a_total_is_the_sum_of_its_parts(given: list[tuple[list[int], int, int]]) -> None:
    """One after the other, and all at once: with the same terms in the same order, and none that cancels."""
    loops = [Loop("a", 4), Loop("b", 3), Loop("c", 6)]
    rest = Atom("%", Lin({loops[2]: 1}), Lin({}, 4))
    terms: list[Term] = [*loops, rest]
    parts = [(Lin({t: c for t, c in zip(terms, steps) if c}, const), scale) for steps, const, scale in given]
    one = Lin()
    for lin, scale in parts:
        one = one.add(lin, scale)
    total = Lin.total(parts)
    assert total == one and list(total.terms) == list(one.terms) and all(total.terms.values())
