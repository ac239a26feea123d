"""The compiled sorting of what borders leave of a nest: by its lengths, and into instructions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim._kernels import ZERO, lean, refresh

refresh(__file__)

I64 = npt.NDArray[np.int64]

MIX = 0x9E3779B97F4A7C1  # odd, and below 2^63


@lean
def shortened(
    rests: I64, factors: I64, which: I64, extents: I64, strides: I64, position: I64, base: I64, lengths: I64, run: I64
) -> int:
    """How long the loops of every instance are and where it begins; those of which nothing is left go. How many are left.

    Args:
        rests: per condition and instance, what a multiple of a loop's index may not fall below 0 with.
        factors: per condition, that multiple.
        which: per condition, the loop's number.
        extents: of the loops that are cut.
        strides: of these, per operand.
        position: keys of the instances, those of one position side by side; the result, of those that are left.
        base: elements where each begins, shape (instances, operands); the result, where each that is left does.
        lengths: the result, shape (instances, loops).
        run: the result, the numbers of their positions.
    """
    kept, at = 0, 0
    before = ZERO
    for r in range(len(position)):
        if r > 0 and position[r] != before:
            at += 1
        before = position[r]
        there = True
        for k in range(base.shape[1]):
            base[kept, k] = base[r, k]
        for d in range(len(extents)):
            low, high = ZERO, extents[d]
            for c in range(len(factors)):
                if which[c] == d:
                    if factors[c] > 0:
                        low = max(low, -(rests[c, r] // factors[c]))
                    else:
                        high = min(high, rests[c, r] // -factors[c] + 1)
            low = min(low, extents[d])
            lengths[kept, d] = max(high, low) - low
            there = there and high > low
            for k in range(base.shape[1]):
                base[kept, k] += low * strides[d, k]
        if there:
            position[kept] = before
            run[kept] = at
            kept += 1
    return kept


@lean
def kinds(lengths: I64, run: I64, listed: int, kind: I64, first: I64, last: I64, counted: I64) -> int:
    """How many kinds of pieces there are by the lengths of the loops that are not listed; the shortest come first.

    Args:
        lengths: of every piece, shape (pieces, loops).
        run: number of every piece's position; those of one follow each other.
        listed: a bit for every loop whose length does not matter.
        kind: the result, per piece.
        first: the result, per kind a piece of it, shape (pieces,).
        last: room, shape (pieces,).
        counted: the result, how many pairs of a position and a kind there are, and how many positions.
    """
    count = 0
    for turn in range(2):
        # Found first, then numbered: a kind that is found later moves others on.
        for r in range(lengths.shape[0]):
            low, high = 0, count
            while low < high:
                middle = (low + high) // 2
                if shorter(lengths, listed, first[middle], r):
                    low = middle + 1
                else:
                    high = middle
            if turn == 1:
                kind[r] = low
            elif low == count or shorter(lengths, listed, r, first[low]):
                for k in range(count, low, -1):
                    first[k] = first[k - 1]
                first[low] = r
                count += 1
    for k in range(count):
        last[k] = -1
    pairs, positions = 0, 0
    for r in range(len(run)):
        if r == 0 or run[r] != run[r - 1]:
            positions += 1
        if last[kind[r]] != run[r]:
            last[kind[r]] = run[r]
            pairs += 1
    counted[0], counted[1] = pairs, positions
    return count


@lean
def shorter(lengths: I64, listed: int, a: int, b: int) -> bool:
    """Whether the lengths of piece ``a`` come before those of piece ``b``, loop by loop."""
    for d in range(lengths.shape[1]):
        if listed >> d & 1 == 0 and lengths[a, d] != lengths[b, d]:
            return bool(lengths[a, d] < lengths[b, d])
    return False


@lean
def listed_uops(lengths: I64, listed: int, rows: I64, kind: I64, each: I64) -> int:
    """Micro-ops of some pieces' lists with the loops of the bits ``listed`` written out; ``each``: per kind, without these."""
    total = 0
    for i in range(len(rows)):
        r = rows[i]
        found = each[kind[r]]
        for d in range(lengths.shape[1]):
            if listed >> d & 1:
                found *= lengths[r, d]
        total += found
    return total


@lean
def marks(run: I64, base: I64, lengths: I64, found: I64) -> None:
    """A number of every position that tells where its pieces begin and how long they are.

    Of two positions with one number by chance only one is counted: then a way seems cheaper than it is.
    """
    for r in range(len(run)):
        mark = found[run[r]]
        for k in range(base.shape[1]):
            mark = (mark + base[r, k]) * MIX
        for d in range(lengths.shape[1]):
            mark = (mark + lengths[r, d]) * MIX
        found[run[r]] = mark ^ (mark >> 29)


@lean
def representing(run: I64, found: I64, table: I64, some: I64) -> int:
    """The pieces of the first position of every number (``marks``); how many they are.

    Args:
        run: number of every piece's position; those of one follow each other.
        found: the numbers, per position.
        table: room, -1 throughout: a power of two of entries, more than there are positions.
        some: the result, the pieces' numbers.
    """
    count = 0
    begin = 0
    for p in range(len(found)):
        at = (found[p] ^ (found[p] >> 32)) & (len(table) - 1)
        while table[at] >= 0 and found[table[at]] != found[p]:
            at = (at + 1) & (len(table) - 1)
        new = table[at] < 0
        if new:
            table[at] = p
        while begin < len(run) and run[begin] == p:
            if new:
                some[count] = begin
                count += 1
            begin += 1
    return count


@lean
def grouped(run: I64, kind: I64, most: I64, count: I64, order: I64, starts: I64) -> int:
    """Sorts pieces by kind, and cuts them into those of one instruction; how many instructions there are.

    Args:
        run: number of every piece's position; those of one follow each other.
        kind: of every piece.
        most: per kind, how many pieces an instruction takes.
        count: room, one entry a kind, and one more.
        order: the result, the pieces' numbers.
        starts: the result, where each instruction begins in that order.
    """
    n = len(run)
    for k in range(len(count)):
        count[k] = 0
    for r in range(n):
        count[kind[r] + 1] += 1
    for k in range(1, len(count)):
        count[k] += count[k - 1]
    for r in range(n):
        order[count[kind[r]]] = r
        count[kind[r]] += 1
    found = 0
    for i in range(n):
        r, before = order[i], order[max(i - 1, 0)]
        new = i == 0 or run[r] != run[before] or kind[r] != kind[before]
        if new or i - starts[found - 1] == most[kind[r]]:
            starts[found] = i
            found += 1
    return found


@lean
def patterned(base: I64, kind: I64, order: I64, starts: I64, table: I64, which: I64, first: I64) -> int:
    """Which instructions have the same list: of one kind, their pieces as far from the first; how many lists there are.

    Args:
        base: elements where every piece begins, shape (pieces, operands).
        kind: of every piece.
        order: the pieces' numbers, those of an instruction side by side.
        starts: where each instruction begins in that order.
        table: room, -1 throughout: a power of two of entries, more than there are instructions.
        which: the result, per instruction its list, in the order of their first instructions.
        first: the result, per list the first instruction that has it; as much room as there are instructions.
    """
    count = 0
    for i in range(len(starts)):
        begin, end = starts[i], starts[i + 1] if i + 1 < len(starts) else len(order)
        lead = order[begin]
        mark = (kind[lead] + 1) * MIX
        for r in range(begin + 1, end):
            for k in range(base.shape[1]):
                mark = (mark + base[order[r], k] - base[lead, k]) * MIX
        at = (mark ^ (mark >> 29)) & (len(table) - 1)
        while table[at] >= 0 and not _alike(base, kind, order, starts, first[table[at]], begin, end):
            at = (at + 1) & (len(table) - 1)
        if table[at] < 0:
            table[at] = count
            first[count] = i
            count += 1
        which[i] = table[at]
    return count


@lean
def _alike(base: I64, kind: I64, order: I64, starts: I64, other: int, begin: int, end: int) -> bool:
    """Whether an instruction has the list of the pieces from ``begin`` to ``end``."""
    since = starts[other]
    until = starts[other + 1] if other + 1 < len(starts) else len(order)
    mine, its = order[begin], order[since]
    if until - since != end - begin or kind[its] != kind[mine]:
        return False
    for r in range(1, end - begin):
        for k in range(base.shape[1]):
            if base[order[begin + r], k] - base[mine, k] != base[order[since + r], k] - base[its, k]:
                return False
    return True
