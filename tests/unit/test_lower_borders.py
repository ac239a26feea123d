"""What borders leave of a nest, compiled, against the same in plain Python; and rows in order by one key."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from autosched.lower._border_kernel import kinds, listed_uops, representing, shortened
from autosched.lower.affine import Lin, Loop
from autosched.lower.nest import Steps, cases, in_order, interval, make_grid, sort_out
from autosched.lower.regions import common


def whole(values: object, *shape: int) -> np.ndarray:
    return np.array(values, dtype=np.int64).reshape(shape)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_of_each_instance_is_counted_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d, c = int(rng.integers(1, 12)), int(rng.integers(0, 4)), int(rng.integers(0, 5))
    extents, strides = rng.integers(1, 6, d), rng.integers(0, 5, (d, 3))
    which = rng.integers(0, d, c) if d else np.zeros(0, dtype=np.int64)
    factors, rests = rng.choice([-3, -1, 1, 2], len(which)), rng.integers(-4, 12, (len(which), n))
    position, base = np.sort(rng.integers(0, 5, n)), rng.integers(0, 9, (n, 3))
    expected = []
    for r in range(n):
        own = [[i for i in range(extents[k]) if all(factors[j] * i + rests[j, r] >= 0 for j in np.flatnonzero(which == k))]
               for k in range(d)]
        if all(own):
            begin = base[r] + sum([strides[k] * own[k][0] for k in range(d)], start=np.zeros(3, dtype=np.int64))
            run = len({*position[: r + 1].tolist()}) - 1
            expected.append((position[r], run, begin.tolist(), [len(i) for i in own]))
    lengths, run = np.empty((n, d), dtype=np.int64), np.empty(n, dtype=np.int64)
    kept = shortened(rests, factors, which, extents, strides, position, base, lengths, run)
    assert [(position[r], run[r], base[r].tolist(), lengths[r].tolist()) for r in range(kept)] == expected


@pytest.mark.parametrize("seed", range(40))
def test_kinds_and_what_they_come_to_are_counted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(0, 15)), int(rng.integers(1, 4))
    lengths, run, listed = rng.integers(1, 3, (n, d)), np.sort(rng.integers(0, 6, n)), int(rng.integers(0, 1 << d))
    told = [tuple(x for k, x in enumerate(row) if not listed >> k & 1) for row in lengths.tolist()]
    kind, first, last = np.zeros((3, n), dtype=np.int64)
    counted = np.zeros(2, dtype=np.int64)
    count = kinds(lengths, run, listed, kind, first, last, counted)
    order = sorted(set(told))
    assert count == len(order) and [order[k] for k in kind] == told and [told[r] for r in first[:count]] == order
    assert counted.tolist() == [len(set(zip(run.tolist(), told))), len({*run.tolist()})]
    some, each = np.flatnonzero(rng.integers(0, 2, n)), rng.integers(1, 9, count)
    written = [int(each[kind[r]]) * int(np.prod([lengths[r, k] for k in range(d) if listed >> k & 1])) for r in some]
    assert listed_uops(lengths, listed, some, kind, each) == sum(written)


@pytest.mark.parametrize("seed", range(30))
def test_of_positions_with_one_number_the_first_is_taken(seed: int) -> None:
    rng = np.random.default_rng(seed)
    positions = int(rng.integers(1, 12))
    run, found = np.sort(rng.integers(0, positions, 20)), rng.choice([0, 1, 5, 1 << 40, -(1 << 60), 8], positions)
    first = {int(m): p for p, m in reversed([*enumerate(found)])}
    # In a table without room to spare, numbers meet others at their places.
    for size in (1 << positions.bit_length(), 1 << positions.bit_length() + 1):
        some = np.zeros(20, dtype=np.int64)
        count = representing(run, found, np.full(size, -1), some)
        assert some[:count].tolist() == [r for r, p in enumerate(run) if first[int(found[p])] == p]


@pytest.mark.parametrize("high", [9, (1 << 62) // 4 - 1, (1 << 62) // 4, (1 << 62) // 4 + 1, (1 << 63) - 1])
def test_rows_come_in_order_of_their_keys_then_of_their_steps(high: int) -> None:
    rng = np.random.default_rng(0)
    position, step = rng.integers(0, 9, 60), rng.integers(0, 4, 60)
    position[::7], step[0] = high, 3
    assert in_order(position, step).tolist() == sorted(range(60), key=lambda r: (position[r], step[r]))
    assert in_order(position[:0], step[:0]).tolist() == []


def test_paths_share_what_all_begin_with() -> None:
    a, b, c = Loop("a", 2), Loop("b", 2), Loop("b", 2)
    assert common([]) == () and common([(a, b)]) == (a, b) and common([(a, b), ()]) == ()
    assert common([(a, b, c), (a, b), (a, b, c)]) == (a, b) and common([(a, b), (a, c)]) == (a,)
    assert common([(b, a), (c, a)]) == ()  # equal by their looks alone


def test_a_condition_on_several_loops_leaves_the_longest_to_the_instruction() -> None:
    y, k, o = Loop("y", 7), Loop("k", 3), Loop("o", 4)
    cond, alone = Lin({o: 7, y: 1, k: 1}, -1), Lin({o: 1}, -1)
    dims, unrolled, limits, _ = sort_out(Steps.of([y, k], [Lin({y: 5, k: 2}), Lin({k: 1})]), [cond, alone])
    assert unrolled == [k] and limits == [alone] and [(d.extent, d.strides) for d in dims] == [(7, (5, 0))]
    assert dims[0].limits == [(1, Lin({o: 7, k: 1}, -1))]
    apart, *_ = sort_out(Steps.of([y, Loop("u", 2, notes={"vta.loop": "unroll"})], [Lin({y: 1})]), [])
    assert [d.extent for d in apart] == [7] and not apart[0].limits


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_grid_counts_iterations_and_numbers_those_of_one_place(repeats: int) -> None:
    outer, one, own = Loop("o", 2), Loop("p", 1), Loop("u", repeats)
    site = type("Site", (), {"outer": (outer, one), "name": "s"})()
    grid = make_grid(site, [own], (), {outer: 10, one: 4}, 7)
    assert grid.position.tolist() == [7] * repeats + [17] * repeats and grid.step.tolist() == [*range(repeats)] * 2
    assert grid.values[outer].tolist() == [0] * repeats + [1] * repeats and grid.values[own].tolist() == [*range(repeats)] * 2
    assert [x.tolist() for x in interval([], 3, grid)] == [[0] * grid.count, [3] * grid.count]


@pytest.mark.parametrize("count", [1, 3, 20, 62, 63, 64, 65, 80])
def test_no_condition_that_may_fail_is_left_out(count: int) -> None:
    rng = np.random.default_rng(count)
    a, b, c = Loop("a", 6), Loop("b", 5), Loop("c", 4)
    conds = []
    for _ in range(count):
        ka, kb, kc = rng.choice([-3, -2, -1, 1, 2], 3).tolist()
        conds.append(Lin({a: ka, b: kb, c: kc}, int(rng.integers(-6, 12))))
    found = cases(cast(Any, SimpleNamespace(inner=[c], outer=[a, b], conds=conds)))
    values = [v.reshape(-1) for v in np.indices((6, 5, 4))]
    fails = [(cond.evaluate(dict(zip((a, b, c), values))) < 0).reshape(30, 4).any(axis=1) for cond in conds]
    assert sum(mask.astype(int) for mask, _ in found).tolist() == [1] * 30
    for mask, told in found:
        for at in np.flatnonzero(mask):
            may = [cond for cond, own in zip(conds, fails) if own[at]]
            # More than a key tells apart are all told everywhere.
            assert [id(cond) for cond in told] == [id(cond) for cond in (may if count < 64 else conds)]
