"""Equal lists of micro-ops are one, in the order of their first use; a dictionary of their contents says which are equal."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import LoweringError
from autosched.lower import limits, uops
from autosched.lower._border_kernel import patterned
from autosched.lower._uop_kernel import distinct
from autosched.lower.compute import Kernels
from sim import isa


def drawn(seed: int) -> Kernels:
    """Instructions of few lists and few places, many of which come to the same."""
    rng = np.random.default_rng(seed)
    patterns = [rng.integers(0, 2, (int(rng.integers(0, 4)), 3)) for _ in range(int(rng.integers(1, 7)))]
    n = int(rng.integers(1, 40))
    return Kernels(
        np.zeros((n, isa.NCOLS), dtype=np.int64), np.arange(n), np.zeros(n, dtype=np.int64), rng.integers(0, len(patterns), n),
        rng.integers(0, 2, (n, 3)), patterns,
    )


@pytest.mark.parametrize("seed", range(40))
def test_lists_are_told_by_what_is_in_them(seed: int) -> None:
    kernels = drawn(seed)
    order = np.random.default_rng(seed).permutation(len(kernels.pattern))
    numbers: dict[bytes, int] = {}
    content, expected = [], np.zeros(len(order), dtype=np.int64)
    for row in order:
        own = kernels.patterns[kernels.pattern[row]] + kernels.base[row]
        if own.tobytes() not in numbers:
            numbers[own.tobytes()] = len(content)
            content.append(own)
        expected[row] = numbers[own.tobytes()]
    found, kernel_of = uops.collect(kernels, order)
    assert kernel_of.tolist() == expected.tolist() and found.length.tolist() == [len(c) for c in content]
    assert found.triples.tolist() == np.concatenate(content).tolist()
    assert [found.triples[s : s + n].tolist() for s, n in zip(found.slot, found.length)] == [c.tolist() for c in content]
    # In tables without room to spare, lists meet others at their places.
    flat, ends = np.concatenate(kernels.patterns), np.cumsum([len(p) for p in kernels.patterns])
    again, first = np.zeros((2, len(order)), dtype=np.int64)
    known, table = (np.full(1 << n.bit_length(), -1) for n in (len(order), len(content)))
    assert distinct(kernels.pattern, kernels.base, order, flat, ends, known, table, again, first) == len(content)
    assert again.tolist() == expected.tolist()


def test_of_some_rows_only_their_lists_count() -> None:
    kernels = drawn(7)
    found, kernel_of = uops.collect(kernels, np.array([3, 0]))
    lists = [kernels.patterns[kernels.pattern[row]] + kernels.base[row] for row in (3, 0)]
    assert found.triples.tolist() == np.concatenate(lists[: len(found.length)]).tolist() and kernel_of[3] == 0


def test_a_program_without_instructions_has_no_lists() -> None:
    none = np.zeros(0, dtype=np.int64)
    empty = Kernels(np.zeros((0, isa.NCOLS), dtype=np.int64), none, none, none, np.zeros((0, 3), dtype=np.int64), [])
    found, kernel_of = uops.collect(empty, none)
    assert found.triples.shape == (0, 3) and not len(found.slot) and not len(kernel_of)


def test_more_micro_ops_than_a_buffer_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = drawn(3)
    order = np.arange(len(kernels.pattern))
    total = len(uops.collect(kernels, order)[0].triples)
    monkeypatch.setattr(limits, "LIMITS", limits.Limits(uops=total))
    uops.collect(kernels, order)
    monkeypatch.setattr(limits, "LIMITS", limits.Limits(uops=total - 1))
    with pytest.raises(LoweringError, match=f"the program has {total} micro-ops or more"):
        uops.collect(kernels, order)


@pytest.mark.parametrize("seed", range(40))
def test_instructions_share_a_list_where_their_pieces_are_of_a_kind_and_as_far_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    base, kind = rng.integers(0, 2, (n, 3)), np.sort(rng.integers(0, 2, n))
    order = np.concatenate([rng.permutation(np.flatnonzero(kind == k)) for k in range(2)])
    cuts = (np.diff(kind[order]) != 0) | (rng.random(n - 1) < 0.5)
    starts = np.concatenate([[0], 1 + np.flatnonzero(cuts)])
    room = np.full(1 << len(starts).bit_length() if len(starts) & (len(starts) - 1) else 2 * len(starts), -1)
    which, first = np.zeros((2, len(starts)), dtype=np.int64)
    count = patterned(base, kind, order, starts, room, which, first)
    known: dict[tuple[int, bytes], int] = {}
    for number, (begin, end) in enumerate(zip(starts, [*starts[1:], n])):
        steps = base[order[begin:end]] - base[order[begin]]
        mark = int(kind[order[begin]]), steps.tobytes()
        assert known.setdefault(mark, which[number]) == which[number]
        assert which[number] < len(known) and (which[number] < len(known) - 1 or first[which[number]] <= number)
    assert count == len(known) and sorted(first[:count]) == first[:count].tolist()
    assert [int(np.flatnonzero(which == k)[0]) for k in range(count)] == first[:count].tolist()
