"""What brings elements of int32 together: no program that adds, copies and multiplies by one does it in fewer cycles."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from turns import in_turn

from autosched import te
from autosched.ir import PrimFunc
from autosched.search import TuneReport, tune
from space import Space

Sum = tuple[int, ...]
State = tuple[tuple[Sum, ...], frozenset[Sum]]
ROWS, BLOCKS = 6, 5
SHAPE = (ROWS, BLOCKS, 1, 16)
VECTORS = ROWS * BLOCKS


def steps(cells: tuple[Sum, ...], stored: frozenset[Sum]) -> Iterator[tuple[int, tuple[Sum, ...], Sum]]:
    """Every operation of a cycle or two: what it costs, the accumulators behind it, and what it stores."""
    for d, own in enumerate(cells):
        for s, other in enumerate(cells):
            if s != d:
                both = tuple(a + b for a, b in zip(own, other))
                yield 2, (*cells[:d], both, *cells[d + 1 :]), both
                yield 1, (*cells[:d], other, *cells[d + 1 :]), other
        yield 1, cells, own
        for sign in (1, -1):
            for came in stored:
                made = tuple(a + sign * b for a, b in zip(own, came))
                yield 1, (*cells[:d], made, *cells[d + 1 :]), made


def least(wanted: list[set[int]]) -> int:
    """The fewest cycles in which any program stores some sums: of elements that accumulators hold, with one that is free.

    Two accumulators are added in two cycles; in one, one is copied to another, or what was stored is multiplied by one or minus
    one and added. Every operation stores what it makes.
    """
    elements = sorted(set[int]().union(*wanted))
    width = len(elements)
    goal = {tuple(int(e in one) for e in elements) for one in wanted}
    start = tuple(tuple(int(a == b) for b in range(width)) for a in range(width))
    queue: list[tuple[int, int, State]] = [(0, 0, ((*start, (0,) * width), frozenset()))]
    seen: dict[State, int] = {}
    count = 0
    while queue:
        cost, _, (cells, stored) = heapq.heappop(queue)
        if goal <= stored:
            return cost
        for more, after, out in steps(cells, stored):
            state = tuple(sorted(after)), stored | {out}
            if any(abs(x) > 1 for cell in after for x in cell) or seen.get(state, cost + more + 1) <= cost + more:
                continue
            seen[state] = cost + more
            count += 1
            heapq.heappush(queue, (cost + more, count, state))
    raise AssertionError("sums are always reached")


@pytest.mark.parametrize(("wanted", "counted", "reached"), [
    ([{0, 1}], 2, True),
    ([{0, 1}, {2, 3}], 4, True),
    ([{0, 1, 2}], 3, True),  # two are added, and what that stored is added to the third
    ([{0, 3}, {1, 3}], 2, False),  # one is part of all: it is stored, and comes in by a product
    ([{0, 1}, {1, 2}], 3, True),  # what both have in common is stored
])
def test_no_program_brings_elements_together_in_fewer_cycles(wanted: list[set[int]], counted: int, reached: bool) -> None:
    """Pairs, three, one for all and windows that overlap, as the formulas count them."""
    found = least(wanted)
    assert found >= counted and (found == counted) == reached


def operand(name: str, shape: tuple[int, ...] = SHAPE) -> Any:
    return te.placeholder(shape, "int32", name=name)


A, B, C, D, ROW = operand("a"), operand("b"), operand("c"), operand("d"), operand("row", (1, BLOCKS, 1, 16))
LONG = operand("long", (ROWS + 1, BLOCKS, 1, 16))


def program(value: Callable[..., Any], reads: Sequence[Any], ranges: Sequence[tuple[int, int] | None] = ()) -> PrimFunc:
    out = te.compute(SHAPE, lambda *at: value(*at).astype("int8"), name="o")
    return replace(te.create_prim_func([*reads, out]), value_ranges=(*ranges, None) if ranges else ())


def row(*at: Any) -> Any:
    return ROW[0, at[1], 0, at[3]]


NARROW = (-100, 100)
CASES: list[tuple[str, PrimFunc, int, int]] = [  # the program, cycles of a vector that bring operands together, its operations
    ("two", program(lambda *i: A[i] + B[i], [A, B]), 2, 0),
    ("a difference, whose tensor the host negates", program(lambda *i: A[i] - B[i], [A, B]), 0, 0),
    ("three", program(lambda *i: A[i] + B[i] + C[i], [A, B, C]), 3, 0),
    ("three and a shift, which needs all of them", program(lambda *i: (A[i] + B[i] + C[i]) >> 1, [A, B, C]), 4, 1),
    ("three that may be bytes", program(lambda *i: (A[i] + B[i] + C[i]) >> 1, [A, B, C], [NARROW] * 3), 3, 1),
    ("two and a clip", program(lambda *i: te.max(A[i] + B[i], te.const(0, "int32")), [A, B]), 2, 1),
    ("the larger of two", program(lambda *i: te.max(A[i], B[i]), [A, B]), 2, 0),
    ("the least of three", program(lambda *i: te.min(te.min(A[i], B[i]), C[i]), [A, B, C]), 3, 0),
    ("the larger of two, one of which may be always", program(lambda *i: te.max(A[i], B[i]), [A, B], [None, NARROW]), 0, 0),
    ("the larger of one and a sum", program(lambda *i: te.max(A[i] + C[i], B[i]), [A, C, B]), 0, 0),
    ("one for all rows", program(lambda *i: A[i] + row(*i), [A, ROW]), 1, 0),
    ("one for all rows, and a shift", program(lambda *i: (A[i] + row(*i)) >> 1, [A, ROW]), 2, 1),
    ("two and one for all rows", program(lambda *i: A[i] + row(*i) + B[i], [A, ROW, B]), 2, 0),
    ("one that is known", program(lambda *i: A[i] + B[i], [A, B], [None, (3, 3)]), 0, 0),
    ("one alone", program(lambda *i: A[i] + 5, [A]), 0, 0),
    ("one that is read twice", program(lambda *i: LONG[i] + LONG[(i[0] + 1, *i[1:])], [LONG]), 0, 0),
    ("what is narrowed on the way", program(
        lambda *i: (A[i] + B[i] + C[i] + D[i]).astype("int8").astype("int32") >> 1, [A, B, C, D]), 0, 1),
    ("a sum of another value", program(lambda *i: (A[i] >> 1) + B[i], [A, B]), 0, 1),
]


@pytest.mark.parametrize(("func", "together", "named"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_operands_of_stages_need(func: PrimFunc, together: int, named: int) -> None:
    machine = Space(func, "vta-de10").machine
    assert machine.vector == together + named
    assert machine.terms["stages"] == VECTORS * (together + named) + 6 * (bool(together) + named)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(("name", "target"), in_turn(case[0] for case in CASES if case[2]))
def test_schedules_stay_above(name: str, target: str, tmp_path: Path) -> None:
    (func,) = (case[1] for case in CASES if case[0] == name)
    found = tune(func, target=target, trials=6, jobs=1, log=tmp_path, sampler="draft")
    assert isinstance(found, TuneReport) and found.verified and found.cycles is not None
    assert found.machine_bound <= found.cycles and not found.violations


def test_what_is_taken_away_again_is_no_operand() -> None:
    """The host negates what is taken away: two tensors, of which one says all about the other."""
    t = te.compute(SHAPE, lambda *i: A[i] + B[i], name="t")
    u = te.compute(SHAPE, lambda *i: C[i] - t[i], name="u")
    out = te.compute(SHAPE, lambda *i: (u[i] + A[i]).astype("int8"), name="o")
    assert Space(te.create_prim_func([A, B, C, out]), "vta-de10").machine.terms["stages"] == 0


def windows(shape: tuple[int, ...], at: Callable[[Any, Any], Any], taps: int, outs: int, tail: Callable[[Any], Any]) -> PrimFunc:
    x = te.placeholder(shape, "int32", name="x")
    k = te.reduce_axis((0, taps), name="k")
    total = te.compute((outs, 1, 16), lambda i, b, lane: te.sum(x[at(i, k), b, lane], axis=k), name="total")
    return te.create_prim_func([x, te.compute((outs, 1, 16), lambda *i: tail(total[i]).astype("int8"), name="o")])


@pytest.mark.parametrize(("step", "tail", "cycles"), [
    (3, lambda e: e, 8 * 3),  # eight groups of three: every group's first two cost two cycles, the third one
    (3, lambda e: e >> 1, 8 * 4),  # all bits matter: a product brings in half of them
    (2, lambda e: e, 16 + 1),  # seventeen elements that windows connect
    (2, lambda e: e >> 1, 2 * 16),
])
def test_what_windows_need(step: int, tail: Callable[[Any], Any], cycles: int, tmp_path: Path) -> None:
    func = windows((7 * step + 3, 1, 16), lambda i, k: i * step + k, 3, 8, tail)
    assert Space(func, "vta-de10").machine.terms["products"] == cycles
    found = tune(func, target="vta-de10", trials=4, jobs=1, log=tmp_path, sampler="random")
    assert isinstance(found, TuneReport) and found.verified and found.cycles is not None and found.machine_bound <= found.cycles
