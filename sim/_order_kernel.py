"""Numba kernel of :mod:`sim.tokens`: run the three instruction queues on tokens alone, without time."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim._kernels import kernel, refresh

refresh(__file__)

LOAD, COMPUTE, STORE = 0, 1, 2
# Channels: (producer, consumer) and which flag of each side it is.
LOAD_COMPUTE, COMPUTE_LOAD, COMPUTE_STORE, STORE_COMPUTE = 0, 1, 2, 3
FETCH = 3


@kernel
def run_queues(queue: Any, pops: Any, pushes: Any, finish: Any, depth: int) -> Any:
    """Execute instructions whenever tokens allow, the earliest of the stream first.

    queue: int64[n], the engine of each instruction.
    pops, pushes: int64[n], bit c set when the instruction takes from / gives to channel c.
    finish: bool[n]; the compute queue stops behind the first FINISH that runs.
    depth: capacity of each queue (fetch stalls in order behind a full one).
    Returns (order, clocks, count, dispatched, heads, tokens): ``order[:count]`` is the order of execution;
    ``clocks[i, e]`` counts the instructions of engine e known to be complete when i starts; ``heads[e]`` is
    the instruction that engine e holds at the end (-1: none); ``dispatched`` what fetch has handed out.
    """
    n = queue.shape[0]
    order = np.empty(n, np.int64)
    clocks = np.zeros((n, 3), np.int64)
    lists = np.empty((3, n), np.int64)
    dispatched_of = np.zeros(3, np.int64)
    done_of = np.zeros(3, np.int64)
    pushed = np.zeros(4, np.int64)
    popped = np.zeros(4, np.int64)
    by = np.empty((4, n), np.int64)
    last = np.full(3, -1, np.int64)
    count = 0
    fetch = 0
    finished = False
    while True:
        while fetch < n and dispatched_of[queue[fetch]] - done_of[queue[fetch]] < depth:
            q = queue[fetch]
            lists[q, dispatched_of[q]] = fetch
            dispatched_of[q] += 1
            fetch += 1
        best = n
        for e in range(3):
            if done_of[e] >= dispatched_of[e] or (e == 1 and finished):
                continue
            head = lists[e, done_of[e]]
            if head >= best:
                continue
            ready = True
            for c in range(4):
                if (pops[head] >> c) & 1 and pushed[c] == popped[c]:
                    ready = False
            if ready:
                best = head
        if best == n:
            break
        e = queue[best]
        if last[e] >= 0:
            for k in range(3):
                clocks[best, k] = clocks[last[e], k]
            clocks[best, e] = done_of[e]
        for c in range(4):
            if (pops[best] >> c) & 1:
                source = by[c, popped[c]]
                popped[c] += 1
                for k in range(3):
                    if clocks[source, k] > clocks[best, k]:
                        clocks[best, k] = clocks[source, k]
                q = queue[source]
                # clocks[source, q] counts what was complete when the source started; it is complete as well.
                if clocks[source, q] + 1 > clocks[best, q]:
                    clocks[best, q] = clocks[source, q] + 1
        for c in range(4):
            if (pushes[best] >> c) & 1:
                by[c, pushed[c]] = best
                pushed[c] += 1
        last[e] = best
        done_of[e] += 1
        order[count] = best
        count += 1
        if finish[best]:
            finished = True
    heads = np.full(3, -1, np.int64)
    for e in range(3):
        if done_of[e] < dispatched_of[e]:
            heads[e] = lists[e, done_of[e]]
    return order, clocks, count, fetch, heads, pushed - popped


@kernel
def outstanding(queue: Any, pops: Any, pushes: Any, order: Any, clocks: Any, producers: Any, consumers: Any) -> Any:
    """Return, per channel, the most tokens that can be waiting at once, and the instruction that pushes the last.

    At its n-th push a producer knows of the pops of those consumer instructions that its clock covers; the
    others may not have happened yet.
    """
    n = queue.shape[0]
    most = np.zeros(4, np.int64)
    where = np.full(4, -1, np.int64)
    for c in range(4):
        prefix = np.zeros(n + 1, np.int64)
        seen = 0
        for k in range(order.shape[0]):
            i = order[k]
            if queue[i] == consumers[c]:
                prefix[seen + 1] = prefix[seen] + ((pops[i] >> c) & 1)
                seen += 1
        sent = 0
        for k in range(order.shape[0]):
            i = order[k]
            if queue[i] == producers[c] and (pushes[i] >> c) & 1:
                sent += 1
                waiting = sent - prefix[clocks[i, consumers[c]]]
                if waiting > most[c]:
                    most[c] = waiting
                    where[c] = i
    return most, where
