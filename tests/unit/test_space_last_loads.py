"""What is left to do behind the loads, where every result needs most of what is loaded."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from autosched import te
from autosched.ir import PrimFunc
from autosched.workloads import workload
from space import Space, last_loads
from space.last_loads import least_slack


def least_of_all(reads: np.ndarray, columns: int, row: int, column: int) -> dict[int, int]:
    """By number of complete results the least that products to come exceed what is not loaded by, over all sets that are loaded.

    Args:
        reads: which row reads something at which step, shape (rows, steps).
        columns: of the other factor.
        row: cycles of an element of a row.
        column: cycles of an element of a column.
    """
    rows, steps = reads.shape
    places = [(m, k) for m in range(rows) for k in range(steps) if reads[m, k]]
    found: dict[int, int] = {}
    for some in product((False, True), repeat=len(places) + columns * steps):
        d, w = ~reads, np.array(some[len(places) :]).reshape(columns, steps)
        for place, there in zip(places, some):
            d[place] = there
        made = d[:, None, :] & w[None] & reads[:, None, :]
        needed = np.broadcast_to(reads[:, None, :], made.shape)
        complete = int((made == needed).all(axis=2)[reads.any(axis=1)].sum())
        left = row * sum(not there for there in some[: len(places)]) + column * int((~w).sum())
        value = int(needed.sum() - made.sum()) - left
        for count in range(complete + 1):
            found[count] = min(found.get(count, value), value)
    return found


@pytest.mark.parametrize(("rows", "columns", "steps"), [(3, 2, 2), (2, 3, 2), (5, 2, 1), (4, 3, 1), (1, 4, 2), (4, 1, 2)])
@pytest.mark.parametrize("costs", [(1, 1), (1, 2), (2, 1), (1, 3), (2, 3), (4, 4)])
def test_no_set_of_loaded_elements_leaves_less(rows: int, columns: int, steps: int, costs: tuple[int, int]) -> None:
    reads = np.ones((rows, steps), dtype=bool)
    counts = np.arange(1, rows * columns + 1)
    said = least_slack(rows, np.array([rows]), columns, *costs, counts) * steps
    found = least_of_all(reads, columns, *costs)
    assert all(s <= found[c] for c, s in zip(counts.tolist(), said))
    assert said[-1] == found[rows * columns] == 0 and said.min() == min(found[c] for c in counts.tolist())


@pytest.mark.parametrize("spans", [1, 2, 64])
@pytest.mark.parametrize("costs", [(1, 1), (1, 2), (2, 1), (3, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_nor_where_rows_read_padding(seed: int, costs: tuple[int, int], spans: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many numbers of complete results of a column are looked at together."""
    monkeypatch.setattr(last_loads, "SPANS", spans)
    rng = np.random.default_rng(seed)
    rows, columns, steps = [(4, 2, 2), (3, 3, 2), (3, 2, 3)][seed % 3]
    reads = rng.random((rows, steps)) < 0.6
    reads[rng.integers(rows, size=steps), np.arange(steps)] = True
    every, there = reads.sum(axis=0), int(reads.any(axis=1).sum())
    counts = np.arange(1, there * columns + 1)
    said = least_slack(there, every, columns, *costs, counts)
    found = least_of_all(reads, columns, *costs)
    assert all(s <= found[c] for c, s in zip(counts.tolist(), said))


@pytest.mark.parametrize("seed", range(20))
def test_looking_at_numbers_together_says_no_more(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(8, 40)), int(rng.integers(2, 7))
    every, costs = rng.integers(rows // 2, rows + 1, size=6), rng.integers(1, 20, size=2).tolist()
    counts = np.arange(1, rows * columns + 1)
    found = {}
    for spans in (1, 3, rows):
        monkeypatch.setattr(last_loads, "SPANS", spans)
        found[spans] = least_slack(rows, every, columns, *costs, counts)
    assert (found[1] <= found[3]).all() and (found[3] <= found[rows]).all()


def behind(func: PrimFunc) -> int:
    """Cycles of the load chain besides the words of data and weights."""
    machine = Space(func, "vta-de10").machine
    return machine.terms["load chain"] - sum(words for name, words in machine.words.items() if not name.startswith("b"))


LATENCY = 2 * 6  # of the first load of data and that of weights
ONE = 7 + 3 * 7  # a product, and three operations on its result


@pytest.mark.parametrize(("name", "cycles"), [
    # Of 144 results 15 may be complete in time. More of them take rows and columns that bring no more products than they take.
    ("dense:m=48,k=1024,n=48", LATENCY + 3 * (6 + 144 - 15)), ("dense:m=48,k=1024,n=48,bias=1", LATENCY + 3 * (6 + 144 - 15)),
    ("dense:m=48,k=1024,n=48,tail=cast", LATENCY + 7),  # nothing is done to results
    ("dense:m=32,k=512,n=32", LATENCY + 3 * (6 + 64 - 31)),  # all but one of a column
    ("dense:m=16,k=1024,n=16", LATENCY + ONE), ("dense:m=1,k=1024,n=1024", LATENCY + ONE),  # loads take longer than products
])
def test_results_end_behind_the_loads(name: str, cycles: int) -> None:
    assert behind(workload(name).func) == cycles


def dense(shift: int, gate: bool = False) -> PrimFunc:
    """48 rows by 48 columns over 1024, shifted and clipped; or half of each, twice."""
    groups = 2 if gate else 1
    x = te.placeholder((groups, 48, 64 // groups, 1, 16), "int8", name="x")
    w = te.placeholder((groups, 3, 64 // groups, 16, 16), "int8", name="w")
    k, c = te.reduce_axis((0, 64 // groups), "k"), te.reduce_axis((0, 16), "c")
    s = te.compute((groups, 48, 3, 1, 16), lambda g, m, n, b, o: te.sum(
        x[g, m, k, b, c].astype("int32") * w[g, n, k, o, c].astype("int32"), axis=[k, c]), name="s")
    out = te.compute(s.shape, lambda *i: te.min(te.max(s(*i) >> shift, -128), 127).astype("int8"), name="out")
    return te.create_prim_func([x, w, out])


@pytest.mark.parametrize(("shift", "operations"), [(8, 3), (10, 3), (11, 2), (12, 1), (14, 1)])
def test_operations_are_those_that_a_micro_op_makes_due(shift: int, operations: int) -> None:
    """16 products of int8 shifted by 11 are -127 to 128: what is beyond that, a program might clip before it comes in."""
    assert behind(dense(shift)) == LATENCY + max(operations * (6 + 144 - 15), ONE)


def test_of_groups_nothing_is_known() -> None:
    assert behind(dense(8, gate=True)) == LATENCY + ONE


@pytest.mark.parametrize("seed", range(6))
def test_every_number_of_results_of_a_column_is_looked_at(seed: int) -> None:
    """Also those of which there are enough, in columns that are needed only where they have more than read padding."""
    rng = np.random.default_rng(seed)
    rows, columns, steps = int(rng.integers(4, 12)), int(rng.integers(2, 6)), int(rng.integers(1, 4))
    every = rng.integers(1, rows + 1, size=steps)
    row, column = rng.uniform(0, 6, size=2).tolist()
    counts = np.arange(1, rows * columns + 1)
    found = least_slack(rows, every, columns, row, column, counts)
    for count, said in zip(counts.tolist(), found.tolist()):
        best = np.inf
        for b in range(1, columns + 1):
            for a in (a for a in range(1, rows + 1) if a * b >= count):
                total = 0.0
                for n in every.tolist():
                    padded = rows - n
                    spare = max(count - b * padded, 0)
                    w = columns - (min(-(-spare // max(a - padded, 1)), b) if padded else b)
                    d = min(n, rows - a)
                    total += min(0.0, d * (columns - row), w * (n - column), d * (columns - row) + w * (n - column) - d * w)
                best = min(best, total)
        assert said == pytest.approx(best, abs=1e-9)
