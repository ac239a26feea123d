"""Whether elements are there once: in all, and along some dimensions for each place along the others."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from space.elements import NOWHERE, distinct, distinct_along


@pytest.mark.parametrize("offset", [0, 1 << 20, 1 << 40])
@pytest.mark.parametrize("seed", range(12))
def test_elements_are_counted_one_by_one(seed: int, offset: int) -> None:
    """Also such as numbers of half the length do not hold."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 4, size=3).tolist())
    high = [8, 30, 4000][seed % 3]
    numbers = rng.integers(high, size=shape) + offset
    if seed % 2:
        numbers = rng.permutation(max(high, 27))[: numbers.size].reshape(shape) + offset
    numbers = np.where(rng.random(shape) < 0.3, NOWHERE, numbers)

    def once(some: np.ndarray) -> bool:
        there = some[some != NOWHERE].tolist()
        return len(there) == len(set(there))

    assert distinct(numbers) == once(numbers)
    for axes in ([], [0], [1, 2], [2, 0], [0, 1, 2]):
        others = [a for a in range(3) if a not in axes]
        places = product(*(range(shape[a]) for a in others))
        every = [numbers[tuple(at[others.index(a)] if a in others else slice(None) for a in range(3))] for at in places]
        assert distinct_along(numbers, axes) == all(once(np.asarray(some)) for some in every)


def test_elements_that_differ_by_a_word_are_not_the_same() -> None:
    far = np.array([[5, 5 + (1 << 32)], [NOWHERE, 7]])
    assert distinct(far) and distinct_along(far, [0, 1]) and distinct_along(far, [1])
    assert not distinct_along(far % (1 << 32), [1]) and not distinct(far % (1 << 32))
