"""The compiled clock of fetch, for machines on which instructions reach the engines late (:mod:`space._play_kernel`).

Fetch hands out what it has read, waits wherever a queue is full, and reads the next batch when all is handed out (vta.md 5.3).
"""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh

refresh(__file__)

LOADS, COMPUTES, STORES = range(3)  # queues
# Columns of the clock: when the last instruction was handed out, and how many of its batch are left; instructions of a batch;
# cycles from the last one of a batch to the first of the next, and the same where others keep the memory from waiting; cycles
# that what others read stands in front of a batch at most.
GIVEN, REST, BATCH, GAP, AWAKE, CROWD = range(6)


@lean
def issued(queue: int, busy: float, clock: Any, began: Any, heads: Any) -> float:
    """When the next instruction can begin, which goes to ``queue``.

    Args:
        queue: one of the three.
        busy: until when the load engine reads.
        clock: as above, shape (6,).
        began: when the last instructions of every queue began, as many as it holds, shape (3, entries).
        heads: of these, the one that was first, shape (3,).
    """
    if clock[REST] == 0:
        clock[GIVEN] += max(clock[GAP], clock[AWAKE] + min(busy - clock[GIVEN], clock[CROWD]))
        clock[REST] = clock[BATCH]
    # There is room once the instruction has begun that is as many in front as the queue has entries.
    clock[GIVEN] = max(clock[GIVEN], began[queue, heads[queue]]) + 1
    clock[REST] -= 1
    given: float = clock[GIVEN]
    return given + 1


@lean
def worked(queue: int, start: float, cycles: float, many: float, busy: float, clock: Any, began: Any, heads: Any) -> float:
    """When an engine has done ``many`` instructions, which take so many cycles together from ``start`` on if none is late.

    The other arguments are those of ``issued``.
    """
    count = max(int(many + 0.5), 1)
    for _ in range(count):
        start = max(start, issued(queue, busy, clock, began, heads))
        began[queue, heads[queue]] = start
        heads[queue] = (heads[queue] + 1) % began.shape[1]
        start += cycles / count
    return start
