"""The compiled search for lists of micro-ops that are equal."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autosched.lower._border_kernel import MIX
from sim._kernels import lean, refresh

refresh(__file__, "_border_kernel")

I64 = npt.NDArray[np.int64]


@lean
def distinct(
    pattern: I64, base: I64, order: I64, flat: I64, ends: I64, known: I64, table: I64, kernel_of: I64, first: I64
) -> int:
    """How many distinct lists there are, in the order of their first use.

    Args:
        pattern: per row, which list it has.
        base: per row, what is added to each micro-op of it, shape (rows, 3).
        order: the rows in program order.
        flat: the micro-ops of all lists, one behind the other, shape (micro-ops, 3).
        ends: where each list ends.
        known: room for rows by what they add to which list, -1 throughout: a power of two of entries, more than there are rows.
        table: room for distinct lists by what is in them, as ``known``.
        kernel_of: the result, per row the number of its list.
        first: the result, per distinct list the first row that has it; as much room as there are rows.
    """
    count = 0
    for row in order:
        mark = pattern[row]
        for k in range(3):
            mark = (mark + base[row, k] + 1) * MIX
        at = (mark ^ (mark >> 29)) & (len(known) - 1)
        while known[at] >= 0 and not _same_place(pattern, base, known[at], row):
            at = (at + 1) & (len(known) - 1)
        if known[at] >= 0:
            kernel_of[row] = kernel_of[known[at]]
            continue
        known[at] = row
        begin, end = 0 if pattern[row] == 0 else ends[pattern[row] - 1], ends[pattern[row]]
        mark = end - begin
        for u in range(begin, end):
            for k in range(3):
                mark = (mark + flat[u, k] + base[row, k] + 1) * MIX
        at = (mark ^ (mark >> 29)) & (len(table) - 1)
        while table[at] >= 0 and not _same_list(pattern, base, flat, ends, first[table[at]], row):
            at = (at + 1) & (len(table) - 1)
        if table[at] < 0:
            table[at] = count
            first[count] = row
            count += 1
        kernel_of[row] = table[at]
    return count


@lean
def _same_place(pattern: I64, base: I64, a: int, b: int) -> bool:
    """Whether two rows add the same to one list."""
    return bool(
        pattern[a] == pattern[b] and base[a, 0] == base[b, 0] and base[a, 1] == base[b, 1] and base[a, 2] == base[b, 2]
    )


@lean
def _same_list(pattern: I64, base: I64, flat: I64, ends: I64, a: int, b: int) -> bool:
    """Whether two rows have the same micro-ops."""
    since = 0 if pattern[a] == 0 else ends[pattern[a] - 1]
    begin = 0 if pattern[b] == 0 else ends[pattern[b] - 1]
    length = ends[pattern[b]] - begin
    if ends[pattern[a]] - since != length:
        return False
    for u in range(length):
        for k in range(3):
            if flat[since + u, k] + base[a, k] != flat[begin + u, k] + base[b, k]:
                return False
    return True
