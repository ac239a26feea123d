"""The compiled clock of the draft (:mod:`space.play`).

It is the machine with its instructions put together: a fill, the matrix products between two fills, the stages of a slice, a
store. Products and fills at a border are as small as the border makes them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sim._kernels import kernel, refresh
from space import _alone_kernel, _fetch_kernel
from space import play as columns
from space._alone_kernel import alone
from space._fetch_kernel import AWAKE, BATCH, COMPUTES, CROWD, GAP, GIVEN, LOADS, REST, worked
from space._fetch_kernel import STORES as STORE_QUEUE
from space.play import (
    AFTER,
    AROUND,
    BANKS,
    BEATS,
    BEYOND,
    CLEAR,
    DEPTH,
    ENGINE,
    FIRST,
    FIXED,
    INIT,
    KNOWN,
    LATE,
    LEAD,
    LEFT,
    MIDDLE,
    MOST,
    ONCE,
    OUT,
    PIECES,
    PRODUCTS,
    READ,
    RELOAD,
    RESET,
    SHARES,
    SLICED,
    SLICES,
    STAGE,
    STORE,
    STORES,
    TRAIL,
    TRANSFERS,
    UOPS,
    WITHIN,
)

refresh(__file__, columns, _alone_kernel, _fetch_kernel)

CROWDED = 0.4  # of all reads that may be on their way, those that a batch of instructions finds in front of it, as long loads go


@kernel(nogil=True)
def behind(start: float, beats: float, least: float, fills: Any, n: int, latency: float, burst: float, reads: float) -> float:
    """When a load of the compute engine ends, which is last at the memory (vta.md 5.11).

    Args:
        start: when it begins.
        beats: cycles of the memory that it takes.
        least: cycles that it takes alone.
        fills: of the load engine: first and last cycle, cycles of a DMA; shape (.., 3).
        n: how many of these there are, in order.
        latency: cycles of a DMA beyond its beats.
        burst: cycles of the memory that a read takes.
        reads: that may be on their way.
    """
    for f in range(n):
        begun, ended, each = fills[f, 0], fills[f, 1], fills[f, 2]
        if begun < start < ended:
            # A DMA asks for a burst every other cycle, until as many are on their way as may be: whoever comes then gets a turn
            # when the DMA has asked for its last. Between two DMAs half of the reads are free.
            since = (start - begun) % each
            wait = each - latency - since
            if since < 2 * reads:
                wait = min(wait, burst / 2 * since)
            wait += each * (math.ceil(beats / (burst * max(reads / 2, 1.0))) - 1)
            least = max(least, min(wait, ended - start) + beats)
            break
    return start + least


@kernel(nogil=True)
def run_ahead(
    load: float, follows: int, inward: Any, engine: Any, depth: Any, beats: Any, transfers: Any, banks: Any, once: Any, slot: Any,
    release: Any, fills: Any, n: int, latency: float, fetch: float,
) -> int:
    """Adds the fills of the visits behind this one to those of the load engine, as early as banks are free.

    One visit's, and of what has more than two banks those of as many as these hold. How many fills there are then.

    Args:
        load: when the engine is free.
        follows: the loop that goes on with the next visit; -1 where none does.
        inward: operands in the order of their loads.
        engine: of every operand, like the following ones, which engine loads it.
        depth: loops around its load.
        beats: bus words of a fill.
        transfers: DMAs of a fill.
        banks: that take turns.
        once: not 0 where every fill has a place of its own.
        slot: the bank of the next fill.
        release: when every bank is free, shape (operands, banks).
        fills: first and last cycle, cycles of a DMA; shape (.., 3).
        n: how many of these there are.
        latency: cycles of a DMA beyond its beats.
        fetch: bus words of an instruction.
    """
    most = 2
    for k in range(len(banks)):
        most = max(most, banks[k])
    for ahead in range(1, most):
        for i in range(len(inward)):
            k = inward[i]
            places = banks[k] if once[k] == 0 else 2
            if engine[k] == 1 or beats[k] == 0 or not 0 <= follows < depth[k] or places <= ahead:
                continue
            if once[k] == 0:
                load = max(load, release[k, (slot[k] + ahead - 1) % banks[k]])
            fills[n, 0] = load
            load += beats[k] + (latency + fetch) * transfers[k]
            fills[n, 1], fills[n, 2] = load, beats[k] / transfers[k] + latency
            n += 1
    return n


@kernel(nogil=True)
def turning_of(depth: int, outer: Any) -> int:
    """Of the first ``depth`` loops those up to the innermost of several iterations; ``outer`` has the iterations of all."""
    while depth > 0 and outer[depth - 1] == 1:
        depth -= 1
    return depth


@kernel(nogil=True)
def play(
    on: Any, extents: Any, tiles: Any, outers: Any, lows: Any, position: Any, spatial: Any, fill: Any, work: Any, tails: Any,
    apart: Any, acc_banks: Any, dims: Any, counts: Any, padded: Any,
    drops: Any, widths: Any, issue: float, latency: float, fetch: float, fetched: float, begin: float, burst: float,
    reads: float, queue: float, batch: float, gap: float, awake: float, enough: Any, out: Any,
) -> None:
    """Cycles of every point.

    Args:
        on: whether a part exists, shape (parts, n).
        extents: iterations of every axis, shape (parts, axes, n), like the following three.
        tiles: iterations inside a tile.
        outers: tiles along every axis.
        lows: its first index.
        position: place of every axis' loop, outermost first, shape (axes, n).
        spatial: how many of the axes are loops over tiles of the output.
        fill: of every operand, float64, shape (10, operands, parts, n); ``ENGINE`` 1 where the compute engine loads it, 2
            where only the stages read it, 3 where both the products and the stages do, ``ONCE`` 1 where every fill has a place
            of its own, 2 where it touches that of the fill before, ``AFTER`` 1 where no product and no initial value reads it,
            ``WITHIN`` the place of the loop inside of a load whose iterations read a share of a fill each, ``SHARES`` how many
            there are, 1 where it is read as a whole, ``LEFT`` the cycles of a tile's stages behind the last that reads it.
        work: of a part, float64, shape (21, parts, n); ``FIRST`` the cycles of a first slice's stages before one writes where
            the tile is stored, -1 where initial values do or products; ``FIXED`` those of a slice's stages whatever its size;
            ``SLICED`` the place of the loop over tiles of the axis that slices follow each other along, or -1; ``RESET`` 1 where
            products wait for the store before, and initial values do not; ``LEAD`` and ``TRAIL`` the shares of the products'
            cycles in front of what waits for the loads, an instruction, and behind the last of two that read what they bring;
            ``READ`` the cycles of the memory that a visit's lists of micro-ops take.
        tails: of the last tile along an axis, where that is smaller than the others, how much of a fill of an operand it brings,
            the least transfers of it, and the share of a fill's; shape (3, operands, axes, parts, n), empty where all tiles of
            all points are alike. Strips are no such axis.
        apart: whether there is room beside what the part before used last, for all copies of a part's buffers (2), the first
            ones (1) or none (0): of what the load engine fills, and of the accumulator, where not even one of several tiles whose
            initial values are written together has any (-1); shape (2, parts, n).
        acc_banks: of the accumulator, shape (n,).
        dims: per padded dimension its place among the loops of the spatial and of the reduction axis (-1 where there is none),
            and the coefficients of both, shape (n, dims, 4).
        counts: per padded dimension, useful indices before (i, j) of both axes, shape (dims, spatial + 1, reduction + 1).
        padded: index of the padded operand, -1 without.
        drops: whether padding is left out, shape (n,).
        widths: per part and padded dimension: elements of a whole fill, the most of any fill, rows outside, indices that are no
            padding, the first of them, indices of a whole fill with its padding, and at how many each element stands; shape
            (7, dims, parts, n).
        issue: cycles of a computing instruction beyond its micro-ops.
        latency: cycles between two loads beyond their beats.
        fetch: bus words of an instruction.
        fetched: cycles between two instructions of a long row of stores, which come before the next loads.
        begin: cycles before the first instruction.
        burst: cycles of the memory that a read takes.
        reads: that may be on their way.
        queue: instructions that wait for an engine at most.
        batch: instructions that are fetched at once.
        gap: cycles from the last one of a batch to the first of the next; 0 where fetch runs ahead of all that engines wait for.
        awake: the same while others read.
        enough: cycles above which nobody asks how many exactly, shape (n,).
        out: the result, shape (n,).
    """
    parts, axes, n = extents.shape[0], extents.shape[1], extents.shape[2]
    operands, ndims = fill.shape[1], dims.shape[1]
    counter = np.zeros(axes, dtype=np.int64)
    ready = np.zeros(operands)
    filled = np.zeros(operands, dtype=np.int64)
    held = 1
    for r in range(n):
        held = max(held, acc_banks[r] + 1)
        for p in range(parts):
            for k in range(operands):
                held = max(held, int(fill[BANKS, k, p, r]))
    release = np.zeros((operands, held))
    stored = np.zeros(held)
    # What a part's loops read stands in tables of their own: a view of a row costs more than what is read from it.
    beats_of, transfers_of, least = np.zeros(operands), np.zeros(operands), np.zeros(operands)
    depth, banks = np.zeros(operands, dtype=np.int64), np.zeros(operands, dtype=np.int64)
    once, engine = np.zeros(operands, dtype=np.int64), np.zeros(operands, dtype=np.int64)
    after = np.zeros(operands, dtype=np.bool_)
    turning = np.zeros(operands, dtype=np.int64)  # loops of several iterations around its load, and those around these
    stands = np.zeros(operands, dtype=np.bool_)  # whether it is loaded right in front of the stages
    turns_of = np.zeros(operands, dtype=np.int64)  # of a visit: in front of initial values, behind these, or behind products
    within, shares = np.zeros(operands, dtype=np.int64), np.zeros(operands, dtype=np.int64)
    share_of = np.zeros(operands)  # of a fill: cycles that a share of it takes
    early = np.zeros(operands)  # before its end: when the share is there that a visit's products read
    freed = np.zeros(operands)  # when the first share of a place has been read for the last time
    slot = np.zeros(operands, dtype=np.int64)  # of the next fill
    inward = np.zeros(operands, dtype=np.uintp)  # operands in the order of their loads
    # Of a part's operands those that a step looks at, and how many they are: what the load engine fills, in the order of its
    # loads; what products wait for; addends that the compute engine loads.
    # Of an index that may be negative compiled code asks at every use whether it is.
    loaded, awaited, added = np.zeros(operands, np.uintp), np.zeros(operands, np.uintp), np.zeros(operands, np.uintp)
    shared = np.zeros(operands, np.uintp)  # those that products read share by share
    staged = np.zeros(operands, np.uintp)  # those that only stages wait for
    # This visit's fills and those behind it that run ahead: first and last cycle, cycles of a DMA.
    under_way = np.zeros((max(held, 2) * operands, 3))
    w = np.zeros(work.shape[0])  # of a part
    late_fetch = gap > 0
    clock, heads = np.zeros(6), np.zeros(3, dtype=np.int64)  # of fetch, as its kernel takes them, like the next
    began = np.zeros((3, int(queue) if late_fetch else 1))
    clock[BATCH], clock[GAP], clock[AWAKE] = batch, gap, awake
    useful = np.ones(ndims)  # share of a visit's products that no padding makes zero, by padded dimension
    brought, share_there = np.zeros(ndims), np.ones(ndims)  # of the padded operand's last fill: elements, and of a whole one's
    due = np.zeros(operands, dtype=np.bool_)  # addends that the stages of this tile wait for
    outer, low_of = np.zeros(axes, dtype=np.int64), np.zeros(axes, dtype=np.int64)
    tile, rest = np.zeros(axes, dtype=np.int64), np.zeros(axes, dtype=np.int64)
    # The axes whose last tile is smaller, and those of several tiles.
    uneven, looped = np.zeros(axes, dtype=np.int64), np.zeros(axes, dtype=np.int64)
    mine, sizes = np.zeros((ndims, 4), dtype=np.int64), np.zeros((ndims, 7))  # of a point's ``dims``, and a part's ``widths``
    for r in range(n):
        if enough[r] < np.inf:
            # What one engine takes by itself is told without playing.
            out[r] = alone(
                r, on, extents, tiles, outers, lows, position, fill, work, dims, counts, padded, drops, issue, latency, fetch,
            )
            if out[r] > enough[r]:
                continue
        for k in range(operands):
            ready[k] = 0.0
        load = begin  # when the load engine is free
        comp = begin  # when the compute engine is free
        last = begin  # the end of the last product
        done = begin  # the end of the last stage
        store = begin
        arrived = begin  # the end of the last fill: the program waits for it, even where padding leaves no product that reads it
        told = begin  # when the stores so far have been fetched
        clock[GIVEN], clock[REST], clock[CROWD] = begin - 2, batch, 0.0
        began[:] = 0.0
        heads[:] = 0
        banks_acc = acc_banks[r] + 1
        first_part = True
        known = 0.0  # accumulators whose contents are known to be small
        for p in range(parts):
            if not on[p, r]:
                continue
            for c in range(len(w)):
                w[c] = work[c, p, r]
            for d in range(ndims if drops[r] else 0):
                for c in range(4):
                    mine[d, c] = dims[r, d, c]
                for c in range(7):
                    sizes[d, c] = widths[c, d, p, r]
            visits = 1.0
            for a in range(axes):
                counter[a] = 0
                place = position[a, r]
                outer[place], low_of[place], tile[place] = outers[p, a, r], lows[p, a, r], tiles[p, a, r]
                rest[place] = extents[p, a, r] - (outers[p, a, r] - 1) * tiles[p, a, r]
            for a in range(axes):
                visits *= outer[a]
            leaps = weighed = drops[r] and visits > BEYOND * MOST
            left = visits  # that are to come; where few are played, a smaller one counts for what it is of a whole one
            if weighed:
                for a in range(axes):
                    if rest[a] != tile[a]:
                        left *= 1 - (1 - rest[a] / tile[a]) / outer[a]
            if late_fetch and w[UOPS] > 0:
                comp = worked(COMPUTES, comp, w[UOPS], 1.0, 0.0, clock, began, heads)
            else:
                comp += w[UOPS]
            # Without room beside the part before the loads wait for its products, the initial values for its last store.
            if not first_part and apart[0, p, r] == 0:
                load = max(load, last)
                for k in range(operands):
                    if fill[ENGINE, k, p, r] > 1:
                        load = max(load, done)
            for k in range(operands):
                filled[k] = slot[k] = 0
                for b in range(held):
                    waits = not first_part and b > 0 and apart[0, p, r] == 1
                    release[k, b] = 0.0 if not waits else done if fill[ENGINE, k, p, r] > 1 else last
                depth[k], banks[k] = int(fill[DEPTH, k, p, r]), int(fill[BANKS, k, p, r])
                once[k], engine[k] = int(fill[ONCE, k, p, r]), int(fill[ENGINE, k, p, r])
                after[k] = fill[AFTER, k, p, r] > 0
                within[k], shares[k] = int(fill[WITHIN, k, p, r]), int(fill[SHARES, k, p, r])
                share_of[k] = early[k] = 0.0
                beats_of[k], transfers_of[k] = fill[BEATS, k, p, r], fill[TRANSFERS, k, p, r]
                least[k] = beats_of[k] + latency * transfers_of[k]
            outs, inits = int(w[OUT]), int(w[AROUND])  # loops around the stages, and around the initial values
            turns = turning_of(outs, outer)
            # Whether the next visit's loads reach their queue while this one's products wait.
            runs_ahead = not late_fetch or w[PIECES] + w[SLICES] * w[FIXED] / issue + 1 < queue
            n_awaited = n_added = n_loaded = n_shared = n_staged = deepest = 0
            in_front = False  # whether something is loaded right in front of the stages
            for k in range(operands):
                if engine[k] % 3 == 0:
                    awaited[n_awaited] = k
                    n_awaited += 1
                if shares[k] > 1:
                    shared[n_shared] = k
                    n_shared += 1
                if engine[k] == 1 and beats_of[k] > 0:
                    added[n_added] = k
                    n_added += 1
                if engine[k] == 2 or after[k]:
                    staged[n_staged] = k
                    n_staged += 1
                # A load further out stands before those further in; loops of one iteration are none.
                turning[k] = turning_of(depth[k], outer)
                # What only stages read stands right in front of them, behind the loops that they are behind.
                stands[k] = engine[k] == 2 and turns == turning[k]
                if stands[k]:
                    turning[k], in_front = axes + 1, True
                i = k
                while i > 0 and turning[inward[i - 1]] > turning[k]:
                    inward[i] = inward[i - 1]
                    i -= 1
                inward[i] = k
            for i in range(operands):
                if engine[inward[i]] != 1 and beats_of[inward[i]] != 0:
                    loaded[n_loaded] = inward[i]
                    n_loaded += 1
                    deepest = max(deepest, depth[inward[i]])  # loops around the innermost load
            for k in range(operands):
                # Where instructions wait to be fetched it counts which stand behind the initial values, and behind the products.
                inside = turning[k] > 0 and turning[k] >= turning_of(inits, outer)
                turns_of[k] = 0 if not late_fetch else 2 if turning[k] > axes else 1 if inside else 0
            # Behind a halo slices take turns in the places of a tile's copies, of which a single tile has one.
            turn_of, n_uneven, n_looped = 1, 0, 0
            for a in range(axes):
                if a < inits and outer[a] > 1:
                    turn_of = banks_acc
                if rest[a] != tile[a]:
                    uneven[n_uneven] = a
                    n_uneven += 1
                if outer[a] > 1:
                    looped[n_looped] = a
                    n_looped += 1
            for b in range(held):
                stored[b] = store if not first_part and apart[1, p, r] <= (b > 0) else 0.0
            if first_part and w[KNOWN] > 0:
                comp += w[KNOWN]
                load = max(load, comp)
            due[:] = False
            busy = fetch * w[PIECES] + w[READ]  # cycles of the memory that the products of a visit take
            unmoved = False  # whether what the last fill of the padded operand brought is that of this part's tiles
            bank = 0  # of the accumulator
            step = 0.0
            changed = 0
            started, since = comp, 0.0
            paced = 0.0  # since then, counted as those that are left
            while True:
                new_tile = step == 0 or changed < inits  # whose initial values, and those of others, are still to be written
                share = strip = 1.0  # of a whole tile of the reduction, and of a strip: the last one may be smaller
                begun = made = ended = 1.0  # of whole tiles, what gets initial values now, is summed, and is stored
                slices = int(w[SLICES])
                for i in range(n_uneven):
                    a = uneven[i]
                    # Quotients are dear, and nearly all are 1.
                    if counter[a] != outer[a] - 1:
                        continue
                    less = rest[a] / tile[a]
                    if a >= spatial:
                        share, strip = share * less, strip * less if a >= tails.shape[2] else strip
                        continue
                    made *= less
                    begun *= less if a < inits else 1.0
                    if a < outs:
                        ended *= less
                        if a == w[SLICED]:
                            slices = -(-slices * rest[a] // tile[a])
                ends = True  # whether the stages are next
                if in_front:
                    for a in range(outs, axes):
                        ends = ends and counter[a] == outer[a] - 1
                # Loads of this visit and its products, in program order.
                load = max(load, told)
                fills = 0
                ahead = False  # whether what the load engine does meanwhile stands among the fills
                for turn in range(3):
                    if turn == 1:
                        if new_tile:
                            if step == 0 and first_part and w[LATE] > 0:
                                late = comp
                                for i in range(n_awaited):
                                    k = awaited[i]
                                    if filled[k]:
                                        late = max(late, ready[k])
                                comp = late + w[LATE]
                                load += w[LATE] - latency
                            if w[CLEAR] > 0 and known < w[CLEAR] * (bank + 1):
                                known = w[CLEAR] * (bank + 1)
                                if late_fetch:
                                    comp = worked(COMPUTES, comp, 0.0, 1.0, load, clock, began, heads)
                                comp = max(comp, stored[bank]) + w[CLEAR] + issue
                        for i in range(n_added):
                            k = added[i]
                            if step == 0 or changed < depth[k]:
                                if not ahead:
                                    # What the load engine does meanwhile: fills of the next visit with any, once banks are free.
                                    ahead = True
                                    follows = deepest - 1  # the loop that goes on there
                                    while follows >= 0 and counter[follows] + 1 == outer[follows]:
                                        follows -= 1
                                    if runs_ahead:
                                        fills = run_ahead(
                                            load, follows, inward, engine, depth, beats_of, transfers_of, banks, once, slot,
                                            release, under_way, fills, latency, fetch,
                                        )
                                due[k] = after[k]
                                if not after[k]:
                                    if late_fetch:
                                        comp = worked(COMPUTES, comp, 0.0, transfers_of[k], load, clock, began, heads)
                                    comp = behind(comp, beats_of[k], least[k], under_way, fills, latency, burst, reads)
                                    load += beats_of[k]  # one bus for both
                        if new_tile and w[FIRST] < 0:
                            # The initial values, once the slot is stored.
                            written = w[INIT] if begun == 1.0 else (w[INIT] - issue) * begun + issue
                            if late_fetch and written > 0:
                                comp = worked(COMPUTES, comp, 0.0, 1.0, load, clock, began, heads)
                            if w[RESET] == 0:
                                comp = max(comp, stored[bank]) + written
                            else:
                                comp += written
                                # Its tiles were stored long ago, but for the last; of another part's it is where there was room.
                                if inits >= outs or (step == 0 and apart[1, p, r] < 0):
                                    comp = max(comp, stored[bank])
                    elif turn == 2:
                        products = w[PRODUCTS] * share * made
                        if drops[r]:
                            for d in range(ndims):
                                a, b = mine[d, 0], mine[d, 1]
                                if step == since or (a >= changed and outer[a] > 1) or (b >= changed and outer[b] > 1):
                                    # Else the visit before, which this one follows, was at the same place.
                                    i0, i1, j0, j1 = 0, 1, 0, 1
                                    if a >= 0:
                                        i0 = low_of[a] + counter[a] * tile[a]
                                        i1 = i0 + (rest[a] if counter[a] == outer[a] - 1 else tile[a])
                                    if b >= 0:
                                        j0 = counter[b] * tile[b]
                                        j1 = j0 + tile[b]
                                    got = counts[d, i1, j1] - counts[d, i0, j1] - counts[d, i1, j0] + counts[d, i0, j0]
                                    every = (i1 - i0) * (j1 - j0)
                                    useful[d] = got / every if got != every else 1.0
                                products *= useful[d]
                        if products > 0:
                            for i in range(n_shared):
                                k = shared[i]
                                early[k] = share_of[k] * (shares[k] - 1 - counter[within[k]])
                            reading, pieces, behind_reads = products, w[PIECES], 0.0
                            if w[LEAD] > 0:
                                lead = w[LEAD] * products
                                comp += lead + issue
                                reading, pieces = products - lead, pieces - 1
                                behind_reads = w[TRAIL] * products + issue * max(w[PIECES] - 2, 0.0)
                            for i in range(n_awaited):
                                comp = max(comp, ready[awaited[i]] - early[awaited[i]])
                            if late_fetch:
                                cycles = reading + issue * pieces + w[RELOAD]
                                comp = worked(COMPUTES, comp, cycles, w[PIECES], load, clock, began, heads)
                            else:
                                comp += reading + issue * pieces + w[RELOAD]
                            load += busy  # one bus for all
                            last = comp - behind_reads
                    for i in range(n_loaded if turn == 0 or late_fetch else 0):
                        k = loaded[i]
                        if late_fetch and turns_of[k] != turn:
                            continue
                        if stands[k]:
                            if not ends:
                                continue
                        elif step > 0 and not changed < depth[k]:
                            continue
                        beats, transfers = beats_of[k], transfers_of[k]
                        if k == padded and drops[r]:
                            there = 1.0  # share of a whole fill's rows
                            for d in range(ndims):
                                a, b = mine[d, 0], mine[d, 1]
                                moves = (changed <= a < depth[k] and outer[a] > 1) or (changed <= b < depth[k] and outer[b] > 1)
                                if moves or not unmoved:
                                    # Else the fill before stood at the same place.
                                    at = 0
                                    if a >= 0:
                                        low = low_of[a] if depth[k] > 0 else 0
                                        if a < depth[k]:
                                            low += counter[a] * tile[a]
                                        at += mine[d, 2] * low
                                    if b >= 0 and b < depth[k]:
                                        at += mine[d, 3] * (counter[b] * tile[b])
                                    whole, pad = sizes[d, 0], sizes[d, 4]
                                    high = min(at + sizes[d, 5], pad + sizes[d, 3])
                                    begin_at, often = max(at, pad), sizes[d, 6]
                                    got = max(high - begin_at, 0.0)
                                    if often > 1 and got > 0:
                                        # An element stands at several indices.
                                        got = (high - 1 - pad) // often - (begin_at - pad) // often + 1
                                    brought[d] = got
                                    share_there[d] = got / whole if got != whole else 1.0
                                if brought[d] < sizes[d, 1]:
                                    transfers = max(transfers, sizes[d, 2] * there)
                                there *= share_there[d]
                            unmoved = not stands[k]
                            beats *= there
                        if depth[k] > spatial:
                            beats *= strip
                        if made != 1.0 or share != 1.0:
                            for a in range(tails.shape[2]):
                                place = position[a, r]
                                if place < depth[k] and counter[place] == outer[place] - 1:
                                    beats *= tails[0, k, a, p, r]
                                    transfers = max(transfers * tails[2, k, a, p, r], tails[1, k, a, p, r])
                        if beats == 0:
                            continue
                        own = slot[k]
                        used = max(done - fill[LEFT, k, p, r], last) if engine[k] > 1 else last
                        if filled[k]:
                            release[k, (own if own else banks[k]) - 1] = used
                        whole_fill = beats + (latency + fetch) * transfers
                        if shares[k] > 1 and banks[k] == 1 and filled[k]:
                            # They are read and loaded again in turn.
                            load = max(load, freed[k])
                        elif once[k] == 0:
                            load = max(load, release[k, own])
                        elif once[k] == 2 and filled[k]:
                            load = max(load, used)
                        if late_fetch:
                            clock[CROWD] = min(CROWDED * burst * max(reads, 1 / CROWDED), beats / transfers / 2)
                            under_way[fills, 0] = worked(LOADS, load, 0.0, 1.0, load, clock, began, heads)
                            load = under_way[fills, 0] + whole_fill / transfers
                            if transfers > 1.5:
                                rest_of = whole_fill - whole_fill / transfers
                                load = worked(LOADS, load, rest_of, transfers - 1, load, clock, began, heads)
                        else:
                            under_way[fills, 0] = load
                            load += whole_fill
                        if shares[k] > 1:
                            share_of[k] = whole_fill / shares[k]
                        if n_added > 0:
                            under_way[fills, 1], under_way[fills, 2] = load, beats / transfers + latency
                            fills += 1
                        ready[k] = arrived = load
                        filled[k] = 1
                        slot[k] = own + 1 if own + 1 < banks[k] else 0
                for i in range(n_shared):
                    if counter[within[shared[i]]] == 0:
                        freed[shared[i]] = comp
                step += 1
                weight = share * made if weighed else 1.0
                left -= weight
                paced += weight
                # The next visit.
                changed = -1
                for i in range(n_looped - 1, -1, -1):
                    a = looped[i]
                    counter[a] += 1
                    if counter[a] < outer[a]:
                        changed = a
                        break
                    counter[a] = 0
                if changed < outs:
                    # The tile is complete, or all of several: their stages and stores, slice by slice.
                    for i in range(n_staged):
                        k = staged[i]
                        if engine[k] == 2:
                            comp = max(comp, ready[k])
                        if due[k]:
                            if not ahead:
                                ahead = True
                                if runs_ahead:
                                    fills = run_ahead(
                                        load, changed, inward, engine, depth, beats_of, transfers_of, banks, once, slot, release,
                                        under_way, fills, latency, fetch,
                                    )
                            if late_fetch:
                                comp = worked(COMPUTES, comp, 0.0, transfers_of[k], load, clock, began, heads)
                            comp = behind(comp, beats_of[k], least[k], under_way, fills, latency, burst, reads)
                            due[k] = False
                    if w[FIRST] >= 0:
                        comp = max(comp, stored[bank] - w[FIRST])
                    stage, each = w[STAGE], w[STORE]
                    if ended != 1.0:
                        ended *= w[SLICES] / slices
                        stage, each = w[FIXED] + (stage - w[FIXED]) * ended, each * ended
                    for at in range(slices):
                        if w[FIRST] >= 0 and at > 0:
                            comp = max(comp, stored[bank])
                        if late_fetch:
                            if stage > 0:
                                many = w[FIXED] / issue
                                comp = worked(COMPUTES, comp, stage, many, load, clock, began, heads)
                            store = worked(STORE_QUEUE, max(store, comp), each, w[STORES], load, clock, began, heads)
                        else:
                            comp += stage
                            store = max(store, comp) + each
                        if w[FIRST] >= 0 and at < slices - 1:
                            stored[bank] = store
                            bank = bank + 1 if bank + 1 < turn_of else 0
                    # All are fetched before the next loads, and no more wait than there is room for.
                    told += 0.0 if late_fetch else fetched * w[STORES] * w[SLICES]
                    if w[STORES] * w[SLICES] > queue and not late_fetch:
                        told = max(told, store - queue * w[STORE] / w[STORES])
                    done = comp
                    stored[bank] = store
                    if changed < inits:
                        bank = bank + 1 if bank + 1 < banks_acc else 0
                seen = step - since >= MOST or (since > 0 and step - since >= MOST / 2 and changed < outs)
                if leaps and changed >= 0 and ((step >= MOST / 3 and changed < outs) or step >= 2 * MOST):
                    # The first visits stand at a border, and have less to do than those whose pace goes for all that follow.
                    # Where stages come that late, in the midst of what they take at once.
                    leaps, started, since, paced = False, comp, step, 0.0
                    inner = outs if changed < outs else spatial
                    unmoved = False
                    for a in range(axes):
                        counter[a] = int(MIDDLE * outer[a]) if a < inner else 0
                elif changed < 0 or (seen and not leaps) or comp > enough[r]:
                    if step < visits:
                        comp += (comp - started) / paced * left
                        load, last, store = max(load, comp), comp, comp + w[STORE]
                    break
            first_part = False
        out[r] = max(store, comp, arrived)
