"""The compiled search for DMAs that are one: of one instance, side by side on chip, at equal distances in DRAM."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim import isa
from sim._kernels import lean, refresh

refresh(__file__, isa)

I64 = npt.NDArray[np.int64]

SRAM, DRAM = isa.SRAM, isa.DRAM
Y_PAD_0, Y_PAD_1, X_PAD_0, X_PAD_1 = isa.Y_PAD_0, isa.Y_PAD_1, isa.X_PAD_0, isa.X_PAD_1
WIDTH, ROWS, STRIDE = 0, 1, 2  # of ``figures``


@lean
def going_on(table: I64, position: I64, zeros: npt.NDArray[np.bool_], most: int, n: int, rows: I64, figures: I64) -> int:
    """Joins DMAs that go on with the rows of the one before, at the same stride; how many are left.

    Args:
        table: instructions.
        position: of each of them.
        zeros: whether it reads the page of zeros.
        most: what a field holds.
        n: how many of ``rows`` and ``figures`` there are.
        rows: instructions in program order; the result, the first of those that are joined.
        figures: width, rows and stride of each of ``rows``, shape (3, room); the result, of what is left.
    """
    left, since = 0, 0
    while since < n:
        total, end = figures[ROWS, since], since + 1
        while (
            end < n and _beside(table, position, zeros, rows, figures, end) and figures[STRIDE, end] == figures[STRIDE, end - 1]
            and table[rows[end], DRAM] - table[rows[end - 1], DRAM] == figures[ROWS, end - 1] * figures[STRIDE, end - 1]
        ):
            total += figures[ROWS, end]
            end += 1
        width, stride = figures[WIDTH, since], figures[STRIDE, since]
        left = _put(rows, figures, left, since, end, width, total, stride, most)
        since = end
    return left


@lean
def evenly_apart(table: I64, position: I64, zeros: npt.NDArray[np.bool_], most: int, n: int, rows: I64, figures: I64) -> int:
    """Joins DMAs of consecutive elements that are as far apart as the first two are; else as ``going_on``."""
    left, since = 0, 0
    followed, apart = False, 0  # whether the one before may follow another, and how far behind that it is
    while since < n:
        end = since + 1
        while end < n:
            before, same = apart, followed
            apart = table[rows[end], DRAM] - table[rows[end - 1], DRAM]
            followed = (
                _beside(table, position, zeros, rows, figures, end) and _is_run(figures, end) and _is_run(figures, end - 1)
                and figures[ROWS, end] == figures[ROWS, end - 1] and apart >= 0
            )
            # The first distance decides.
            if not followed or (same and apart != before):
                break
            end += 1
        width, height, stride = figures[WIDTH, since], figures[ROWS, since], figures[STRIDE, since]
        if end - since > 1:
            width, height = width * height, end - since
            stride = table[rows[since + 1], DRAM] - table[rows[since], DRAM]
        left = _put(rows, figures, left, since, end, width, height, stride, most)
        since = end
    return left


@lean
def _beside(table: I64, position: I64, zeros: npt.NDArray[np.bool_], rows: I64, figures: I64, at: int) -> bool:
    """Whether a DMA of one instance begins on chip where the one before ends, and is as wide; neither of them has padding."""
    a, b = rows[at - 1], rows[at]
    return bool(
        position[a] == position[b] and figures[WIDTH, at] == figures[WIDTH, at - 1]
        and table[b, SRAM] - table[a, SRAM] == figures[WIDTH, at - 1] * figures[ROWS, at - 1]
        and not zeros[a] and not zeros[b] and _is_plain(table, a) and _is_plain(table, b)
    )


@lean
def _is_plain(table: I64, row: int) -> bool:
    """Whether a DMA has no padding."""
    return bool(
        table[row, X_PAD_0] == 0 and table[row, X_PAD_1] == 0 and table[row, Y_PAD_0] == 0 and table[row, Y_PAD_1] == 0
    )


@lean
def _is_run(figures: I64, at: int) -> bool:
    """Whether a DMA moves consecutive elements."""
    return bool(figures[ROWS, at] == 1 or figures[STRIDE, at] == figures[WIDTH, at])


@lean
def _put(rows: I64, figures: I64, left: int, since: int, end: int, width: int, height: int, stride: int, most: int) -> int:
    """Puts what is joined, or each by itself where that is too long for the fields, behind so many; how many there are then."""
    if max(width, height, stride) > most:
        for k in range(since, end):
            rows[left] = rows[k]
            for f in range(3):
                figures[f, left] = figures[f, k]
            left += 1
        return left
    rows[left] = rows[since]
    figures[WIDTH, left], figures[ROWS, left], figures[STRIDE, left] = width, height, stride
    return left + 1
