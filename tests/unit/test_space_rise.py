"""Rise: of rows that mean the same one is a point, so kinds of tiles that come to the same are one."""

from __future__ import annotations

import numpy as np
import pytest

from space.rules.rise import FROM_WHOLE, OTHERS, WHOLE


def kinds(first: tuple[int, int]) -> list[bool]:
    """Whether a first part of 8 x 2 of such tiles, the others' being 2 x 2, is of two kinds, by kind; of two tiles in front."""
    from space import _rise_kernel

    def by_part(*figures: tuple[int, ...]) -> np.ndarray:
        return np.array(figures, dtype=np.int64)[..., None]

    extents, tiles = by_part((8, 2, 4), (8, 2, 4)), by_part((*first, 4), (2, 2, 4))
    none, around = np.zeros((2, 1), dtype=np.int64), np.full((2, 1), 2, dtype=np.int64)
    position, room = np.arange(3, dtype=np.int64)[:, None], np.zeros((4, 3), dtype=np.int64)
    return [bool(_rise_kernel.two(0, 2, kind, extents, tiles, position, none, none + 1, around, 2, 1, 0, room))
            for kind in (WHOLE, OTHERS, FROM_WHOLE)]


@pytest.mark.parametrize(("first", "found"), [((1, 2), [False, True, False]), ((1, 1), [True, True, True])])
def test_whole_tiles_in_front_are_a_kind_where_they_were_not_whole(first: tuple[int, int], found: list[bool]) -> None:
    assert kinds(first) == found
