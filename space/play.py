"""The draft's clock: three engines play one point's tiles through, in program order, with what every buffer has of banks.

Here stand the columns of the tables that they play by; the clock itself is compiled (``_play_kernel.py``).
"""

from __future__ import annotations

# Columns of ``fill``: one row per operand.
DEPTH, BEATS, TRANSFERS, BANKS, ONCE, ENGINE, AFTER, WITHIN, SHARES, LEFT = range(10)
# Columns of ``work``: of a part.
(PRODUCTS, PIECES, INIT, STAGE, SLICES, STORE, UOPS, LATE, KNOWN, CLEAR, RELOAD, STORES, AROUND, OUT, FIRST, FIXED,
 SLICED, RESET, LEAD, TRAIL, READ) = range(21)
MOST = 1500  # innermost visits of a part that are played; the rest goes on at the same pace
# Where padding is left out of so many times more, the share of every loop behind which that pace is taken, from up to as many
# again: at no edge, as a rule.
BEYOND, MIDDLE = 1.5, 2 ** 0.5 - 1
