"""The event-driven cycle model, one pass over a program at burst granularity.

Engines: fetch, load, compute, store; each event is the earliest of at most eight pending ones, so that no
queue of events is needed. Within a cycle: completions and token arrivals first, then starts, then dispatch,
then the choice of a read burst. A unit that finishes in cycle D is idle, has left its queue and has posted its
tokens in D + 1. Bursts of one load before anything else happens are gone through at once, and those that
follow each other in a steady rhythm are skipped in one step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim._kernels import ZERO, lean, refresh
from sim._timing_cost import (
    COMMAND_TO_QUEUE,
    COMPUTE_TO_STORE,
    INFINITY,
    K_FINISH,
    K_HANG,
    K_LOAD,
    K_UNKNOWN,
    L_ROWS,
    LOAD_TO_COMPUTE,
    P_BATCH,
    P_BURST,
    P_BUS,
    P_DELAY,
    P_INSN,
    P_OUTSTANDING,
    P_QUEUE,
    P_WIDE_FETCH,
    P_WORDS,
    W_BUSY,
    W_KIND,
    W_POPS,
    W_PUSHES,
    W_QUEUE,
    burst_words,
    client_of,
    full_bursts,
    load_begin,
    load_done,
    load_served,
    load_skipped,
    serve_time,
)
from sim.config import TOKEN_LIMIT
from sim.isa import MEM

refresh(__file__, "_timing_cost", "config", "costs", "isa")

I64 = npt.NDArray[np.int64]

INSN_BYTES = 16

# Columns of the per-instruction record.
R_VISIBLE = 0  # first cycle in which its unit can see it
R_START = 1
R_DONE = 2
R_IDLE = 3  # first cycle in which its unit was free for it
R_PREV = 4  # cycle in which the token of pop_prev was there (0: not needed)
R_NEXT = 5
R_COLUMNS = 6

# Columns of the per-burst record.
B_CLIENT = 0
B_INSN = 1  # for fetch: the first instruction of the batch
B_ELIGIBLE = 2
B_ISSUE = 3
B_SERVE = 4  # leaves the memory's queue; its words are on the bus in serve + 1 .. serve + words
B_WORDS = 5
B_COLUMNS = 6

# The kernel's result vector.
O_STATUS = 0
O_CYCLES = 1
O_BURSTS = 2
O_NOW = 3  # last cycle in which anything happened
O_FETCH_NEXT = 4  # instruction that fetch tries to dispatch
O_FETCH_SINCE = 5  # INFINITY: not yet read
O_HEAD = 6  # three: instruction at the head of each queue, or the number of instructions
O_BUSY = 9  # three: 1 if that head has started
O_SINCE = 12  # three: cycle in which it became ready to run, but for tokens, or started
O_TOKENS = 15  # four
O_EVENTS = 19
O_COUNT = 20

# Rows of what the kernel knows of each queue (token channel, asker).
U_HEAD, U_ENTERED, U_LEFT, U_IDLE, U_FREE, U_STARTED, U_ENDS, U_READY = range(8)
U_TOKENS, U_TOKEN_SINCE, U_ASKS, U_CLIENTS = range(8, 12)
U_ROWS = 12

STATUS_DONE = 0
STATUS_DEADLOCK = 1
STATUS_CAPPED = 2

# Fetch: a batch is asked for, is drained into the queues, or there is none left.
_F_ASK = 0
_F_WAIT = 1
_F_DRAIN = 2
_F_END = 3


@lean
def _issue_time(now: int, eligible: int, last_issue: int, ring: I64, head: int, tail: int, slots: int) -> int:
    """Return the first cycle in which the memory can accept a burst.

    Not twice in one cycle, not in the cycle of a burst's last word, and with a free slot; ``ring[head:tail]``
    holds the cycles of the last words of bursts issued so far, ascending. Its length is a power of two.
    """
    at = max(now, eligible, last_issue + 1)
    mask = len(ring) - 1
    while head < tail:
        last = ring[head & mask]
        if last < at:
            head += 1
        elif last == at or tail - head >= slots:
            at = last + 1
            head += 1
        else:
            break
    return at


@lean
def simulate(
    table: I64, what: I64, par: I64, cap: int, rec: I64, bursts: I64, out: I64,
    lists: I64, units: I64, loaders: I64, ring: I64,
) -> None:  # fmt: skip
    """Run the program; fill ``rec`` (n, R_COLUMNS) and ``bursts`` (any lengths; 0 records nothing), and ``out``.

    ``what`` is what ``classify`` says of the table. Room to work in, zeros: ``lists`` (2, n), ``units`` (U_ROWS, 4),
    ``loaders`` (3, L_COUNT), ``ring``, whose length is a power of two that is no less than P_OUTSTANDING.
    """
    n = len(table)
    keep = len(rec) > 0
    keep_bursts = len(bursts) > 0
    kinds, busy, queue, pops, pushes = what[W_KIND], what[W_BUSY], what[W_QUEUE], what[W_POPS], what[W_PUSHES]
    n_bursts = 0
    delay, slots, depth, wide_fetch = par[P_DELAY], par[P_OUTSTANDING], par[P_QUEUE], par[P_WIDE_FETCH]

    # Per queue: its instructions as a linked list.
    following = lists[0]
    visible = lists[1]  # first cycle in which its unit can see it
    head, entered, left, idle = units[U_HEAD], units[U_ENTERED], units[U_LEFT], units[U_IDLE]
    free_since, started = units[U_FREE], units[U_STARTED]
    ends, ready = units[U_ENDS], units[U_READY]  # cycle after done, cycle of the start
    tokens, token_since = units[U_TOKENS], units[U_TOKEN_SINCE]
    there = ZERO  # channels, as bits, with tokens
    # Read memory. Askers: 0 fetch, 1 load, 2 compute.
    asks, clients = units[U_ASKS], units[U_CLIENTS]
    for q in range(3):
        head[q] = n
        idle[q] = 1
        ends[q] = ready[q] = asks[q] = INFINITY
    for i in range(n - 1, -1, -1):
        following[i] = head[queue[i]]
        head[queue[i]] = i
    mask = len(ring) - 1
    ring_head = ring_tail = ZERO
    last_issue = ZERO - 1
    alike = 0  # bursts in a row as long as the one before, and issued and served as many cycles after it
    serve = words = ZERO
    arbitrate = INFINITY
    dirty = False

    # Fetch.
    state = _F_ASK if n > 0 else _F_END
    dispatched = 0  # next instruction to dispatch
    batch_end = min(n, par[P_BATCH])
    fetch_at = 0  # byte address and end of what the batch still has to read
    fetch_stop = 0
    fetch_next = INFINITY
    fetch_since = INFINITY  # since when it could go, were there room
    blocked = False  # its queue is full
    pushed = 0  # wide fetch: next instruction to enter its two-entry pipe
    push_last = -1
    pull_last = pull_before = -1  # dispatch cycles of the last two instructions
    data_at = 0
    command = 1  # cycle in which fetch enters its command state
    finish = INFINITY
    now = ZERO
    events = 0
    status = STATUS_DEADLOCK

    while True:
        if state == _F_ASK:
            state = _F_WAIT
            fetch_at = par[P_INSN] + dispatched * INSN_BYTES
            fetch_stop = par[P_INSN] + batch_end * INSN_BYTES
            if wide_fetch == 1:
                fetch_at = par[P_INSN] + pushed * INSN_BYTES
                fetch_at -= fetch_at % par[P_BUS]
                fetch_stop += -fetch_stop % par[P_BUS]
            asks[0] = command + 1
            dirty = True
        if dirty:
            wanted = min(asks[0], asks[1], asks[2])
            arbitrate = INFINITY
            if wanted < INFINITY:
                while ring_head < ring_tail and ring[ring_head & mask] < now:
                    ring_head += 1
                arbitrate = _issue_time(now, wanted, last_issue, ring, ring_head, ring_tail, slots)
            dirty = False
        t = min(ends[0], ends[1], ends[2], ready[0], ready[1], ready[2], fetch_next, arbitrate)
        if t > finish or t == INFINITY or t > cap:
            if finish < INFINITY:
                status = STATUS_DONE if finish <= cap else STATUS_CAPPED
            elif t < INFINITY:
                status = STATUS_CAPPED
            break
        now = t
        events += 1

        # Completions, and the tokens they post.
        if t == ends[0] or t == ends[1] or t == ends[2]:
            for q in range(3):
                if ends[q] != t:
                    continue
                i = head[q]
                posts = pushes[i]
                for c in range(4):
                    if posts >> c & 1 != 0:
                        if tokens[c] == 0:
                            token_since[c] = t
                        tokens[c] = min(tokens[c] + 1, TOKEN_LIMIT)
                there |= posts
                ends[q] = INFINITY
                idle[q] = 1
                free_since[q] = t
                left[q] += 1
                head[q] = following[i]
                # A queue that was full has room from this cycle on.
                if blocked and queue[dispatched] == q:
                    fetch_next = t
                    blocked = False
            for q in range(3):
                _wake(q, t, there, idle, head, entered, left, visible, pops, ready)

        # Starts.
        if t == ready[0] or t == ready[1] or t == ready[2]:
            for q in range(3):
                if ready[q] != t:
                    continue
                ready[q] = INFINITY
                i = head[q]
                takes = pops[i]
                if keep:
                    rec[i, R_IDLE] = free_since[q]
                    rec[i, R_START] = t
                for c in range(4):
                    if takes >> c & 1 != 0:
                        if keep:
                            rec[i, R_PREV if c in (LOAD_TO_COMPUTE, COMPUTE_TO_STORE) else R_NEXT] = token_since[c]
                        tokens[c] -= 1
                        token_since[c] = t
                        if tokens[c] == 0:
                            there &= ~(1 << c)
                idle[q] = 0
                started[q] = t
                kind = kinds[i]
                if kind == K_LOAD:
                    client = client_of(table[i, MEM])
                    ask = load_begin(loaders[q + 1], t, table[i], par)
                    if loaders[q + 1, L_ROWS] > 0:
                        clients[q + 1] = client
                        asks[q + 1] = ask
                        dirty = True
                    else:
                        done = max(load_done(loaders[q + 1]), t + 1)
                        if keep:
                            rec[i, R_DONE] = done
                        ends[q] = done + 1
                elif kind != K_HANG:
                    done = t + busy[i]
                    if keep:
                        rec[i, R_DONE] = done
                    ends[q] = done + 1
                    if kind == K_FINISH and done < finish:
                        finish = done

        # Dispatch.
        if t == fetch_next:
            q = queue[dispatched]
            fetch_next = INFINITY
            blocked = kinds[dispatched] != K_UNKNOWN and entered[q] - left[q] >= depth
            if not blocked and kinds[dispatched] != K_UNKNOWN:
                visible[dispatched] = t + 1
                if keep:
                    rec[dispatched, R_VISIBLE] = t + 1
                entered[q] += 1
                dispatched += 1
                pull_before = pull_last
                pull_last = t
                fetch_since = INFINITY
                if wide_fetch == 1:
                    if dispatched < pushed:
                        fetch_next = fetch_since = max(push_last, t) + 1
                elif dispatched < batch_end:
                    fetch_next = fetch_since = t + 1
                else:
                    command = t + 2
                    state = _F_ASK if batch_end < n else _F_END
                    batch_end = min(n, batch_end + par[P_BATCH])
                _wake(q, t + 1, there, idle, head, entered, left, visible, pops, ready)

        # Read bursts: the one whose turn it is, and those of the same load before anything else happens.
        if t == arbitrate:
            winner = -1
            for a in range(3):
                if asks[a] <= t and (winner < 0 or clients[a] < clients[winner]):
                    winner = a
            eligible = asks[winner]
            asks[winner] = INFINITY
            dirty = True
            until = t  # first cycle that has to wait for the events above
            loader = loaders[winner]
            if winner > 0 and not keep_bursts and (wide_fetch == 0 or state != _F_DRAIN):
                until = min(ends[0], ends[1], ends[2], ready[0], ready[1], ready[2], fetch_next, finish, cap)
                until = min(until, asks[0], asks[1], asks[2])
                if state == _F_ASK:
                    until = min(until, command)
            while True:
                size = 0
                if winner == 0:
                    size = fetch_stop - fetch_at
                    if wide_fetch == 1:
                        size = min(size, par[P_BURST] - fetch_at % par[P_BURST])
                    count = size // par[P_BUS]
                else:
                    count = burst_words(loader, par)
                if ring_tail == 0:
                    served = t + COMMAND_TO_QUEUE + delay
                else:
                    served = serve_time(t, serve, words, delay)
                if count == words and t - last_issue == count and served - serve == count:
                    alike += 1
                else:
                    alike = 0
                serve = served
                words = count
                last_issue = t
                while ring_head < ring_tail and ring[ring_head & mask] < t:
                    ring_head += 1
                ring[ring_tail & mask] = serve + words
                ring_tail += 1
                if keep_bursts:
                    bursts[n_bursts, B_CLIENT] = clients[winner]
                    bursts[n_bursts, B_INSN] = max(dispatched, pushed) if winner == 0 else head[winner - 1]
                    bursts[n_bursts, B_ELIGIBLE] = eligible
                    bursts[n_bursts, B_ISSUE] = t
                    bursts[n_bursts, B_SERVE] = serve
                    bursts[n_bursts, B_WORDS] = words
                n_bursts += 1
                if winner == 0:
                    fetch_at += size
                    if fetch_at < fetch_stop:
                        asks[0] = t + 2
                    else:
                        state = _F_DRAIN
                        data_at = serve + words + (4 if wide_fetch == 1 else 2)
                        if wide_fetch == 0:
                            fetch_next = fetch_since = data_at
                    break
                if load_served(loader, words, serve, par) == 0:
                    done = load_done(loader)
                    if keep:
                        rec[head[winner - 1], R_DONE] = done
                    ends[winner - 1] = done + 1
                    break
                if alike > slots and count == par[P_WORDS]:
                    # All bursts that the memory still knows of were alike, so the next ones are, too.
                    skipped = min(full_bursts(loader, par), (until - 1 - t) // count)
                    if skipped > 0:
                        load_skipped(loader, skipped, serve + count, par)
                        ahead = skipped * count
                        for k in range(ring_head, ring_tail):
                            ring[k & mask] += ahead
                        t += ahead
                        serve += ahead
                        last_issue = t
                        n_bursts += skipped
                at = _issue_time(t, t + 2, t, ring, ring_head, ring_tail, slots)
                if at >= until:
                    asks[winner] = t + 2
                    break
                t = at
                events += 1
            now = t

        # The two-entry pipe of the wide fetch: an instruction enters it when the one two before has left.
        if wide_fetch == 1 and state == _F_DRAIN:
            while pushed < batch_end and pushed - dispatched < 2:
                gone = pull_last if pushed - dispatched == 1 else pull_before
                push_last = max(push_last + 1, data_at, gone + 1)
                if pushed == dispatched:
                    fetch_next = fetch_since = max(push_last, pull_last) + 1
                pushed += 1
            if pushed == batch_end:
                command = push_last + 3
                state = _F_ASK if batch_end < n else _F_END
                batch_end = min(n, batch_end + par[P_BATCH])

    out[O_STATUS] = status
    out[O_CYCLES] = finish
    out[O_BURSTS] = n_bursts
    out[O_NOW] = now
    out[O_FETCH_NEXT] = dispatched
    out[O_FETCH_SINCE] = fetch_since
    for q in range(3):
        out[O_HEAD + q] = head[q]
        out[O_BUSY + q] = 1 - idle[q]
        out[O_SINCE + q] = free_since[q]
        if head[q] < n:
            out[O_SINCE + q] = max(free_since[q], visible[head[q]]) if idle[q] == 1 else started[q]
    for c in range(4):
        out[O_TOKENS + c] = tokens[c]
    out[O_EVENTS] = events


@lean
def _wake(
    q: int, t: int, there: int, idle: I64, head: I64, entered: I64, left: I64, visible: I64, pops: I64, ready: I64
) -> None:
    """Set ``ready[q]`` if the unit is idle, sees an instruction, and every token that it pops is there."""
    if idle[q] == 0 or entered[q] == left[q] or ready[q] < INFINITY:
        return
    if pops[head[q]] & ~there == 0:
        ready[q] = max(t, visible[head[q]])
