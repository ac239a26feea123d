"""The cycle model in plain Python: what :mod:`sim.timing` computes, written to be read.

Time is a heap of events; every rule is stated once, beside the unit that it governs. ``sim.timing`` is the same
model some hundred times faster, and the tests hold the two equal.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sim.config import ITER_BITS, TOKEN_LIMIT, VTAConfig
from sim.errors import DeadlockError, Waiter
from sim.isa import (
    MEM_ACC,
    MEM_ACC_8BIT,
    MEM_INP,
    MEM_OUT,
    MEM_UOP,
    MEM_WGT,
    Alu,
    Finish,
    Gemm,
    Insn,
    Load,
    Store,
    Table,
    as_table,
    check_table,
    element_bytes,
    insns_of,
)

# Events of one cycle run in this order.
_COMPLETE, _START, _DISPATCH, _ARBITRATE = range(4)
_LOAD, _COMPUTE, _STORE = range(3)
_UNITS = ("LOAD", "COMPUTE", "STORE")

# (unit, flag): the channel that it takes from or gives to.
_POPS = {
    (_LOAD, "next"): "COMPUTE to LOAD",
    (_COMPUTE, "prev"): "LOAD to COMPUTE",
    (_COMPUTE, "next"): "STORE to COMPUTE",
    (_STORE, "prev"): "COMPUTE to STORE",
}
_PUSHES = {
    (_LOAD, "next"): "LOAD to COMPUTE",
    (_COMPUTE, "prev"): "COMPUTE to LOAD",
    (_COMPUTE, "next"): "COMPUTE to STORE",
    (_STORE, "prev"): "STORE to COMPUTE",
}
_CLIENTS = {MEM_UOP: 1, MEM_INP: 2, MEM_WGT: 3, MEM_ACC: 4, MEM_ACC_8BIT: 4}

Served = Callable[[int, int], None]


@dataclass
class _Burst:
    """A read command waiting in a client's register."""

    eligible: int
    words: int
    served: Served  # called with (issue, serve)


class _Memory:
    """Five read clients, the lowest first, and a memory that serves bursts strictly in order."""

    def __init__(self, config: VTAConfig, events: _Events) -> None:
        self.config = config
        self.events = events
        self.waiting: dict[int, _Burst] = {}
        self.last_words: deque[int] = deque()  # cycles of the last words of bursts in flight
        self.last_issue = -1
        self.serve: int | None = None
        self.words = 0
        self.scheduled: int | None = None

    def ask(self, client: int, burst: _Burst) -> None:
        self.waiting[client] = burst
        self._schedule()

    def _schedule(self) -> None:
        """Find the first cycle in which a burst can be issued.

        One per cycle, with a free entry, and never while the last word of a burst is on the bus.
        """
        self.scheduled = None
        if not self.waiting:
            return
        at = max(self.events.now, self.last_issue + 1, min(b.eligible for b in self.waiting.values()))
        pending = [last for last in self.last_words if last >= at]
        while pending:
            if len(pending) >= self.config.outstanding_reads or pending[0] == at:
                at = pending[0] + 1
                pending = [last for last in pending if last >= at]
            else:
                break
        self.scheduled = at
        self.events.add(at, _ARBITRATE, self._issue)

    def _issue(self) -> None:
        now = self.events.now
        if self.scheduled != now:
            return  # an earlier plan, overtaken by a new command
        client = min(c for c, b in self.waiting.items() if b.eligible <= now)
        burst = self.waiting.pop(client)
        if self.serve is not None and now <= self.serve:
            serve = self.serve + self.words  # the queue did not run empty
        else:
            serve = now + 1 + self.config.read_delay
            if self.serve is not None:
                serve = max(serve, self.serve + self.words)
        self.serve, self.words, self.last_issue = serve, burst.words, now
        while self.last_words and self.last_words[0] < now:
            self.last_words.popleft()
        self.last_words.append(serve + burst.words)
        burst.served(now, serve)
        self._schedule()


class _Events:
    """Actions by cycle, and within a cycle by rank."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, int, Callable[[], None]]] = []
        self.count = 0
        self.now = 0

    def add(self, time: int, rank: int, action: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (time, rank, self.count, action))
        self.count += 1


def _rows(start: int, stride: int, rows: int, size: int, wide: bool, config: VTAConfig) -> Iterator[int]:
    """Yield the words of each burst: rows cut at multiples of the longest burst, wide ones rounded to words."""
    bus, burst = config.bus_bytes, config.burst_bytes
    for _ in range(rows):
        at, end = start, start + size
        if wide:
            at, end = at - at % bus, -(-end // bus) * bus
        while at < end:
            stop = min(end, at - at % burst + burst)
            yield (stop - at) // bus
            at = stop
        start += stride


class _Padding:
    """Zero elements: one per cycle without data; ``at`` is the cycle of the next one."""

    def __init__(self, insn: Load, at: int) -> None:
        width = insn.x_pad_0 + insn.x_size + insn.x_pad_1
        sides = insn.x_pad_0 + insn.x_pad_1
        rows = insn.y_size if insn.y_pad_1 and not sides else 0
        # Without side padding the engine counts data rows on its way to the bottom, whether data arrives or not.
        top, side, bottom = insn.y_pad_0 * width, insn.y_size * sides, insn.y_pad_1 * width
        stages = [(top, True), (side, True), (rows, False), (bottom, True)]
        self.stages = deque((left, writes) for left, writes in stages if left)
        self.at = at
        self.end = 0

    def data(self, first: int, words: int) -> None:
        """Work up to the data that fills cycles ``first`` .. ``first + words - 1``, and step over it."""
        self._work(first)
        if self.stages and first <= self.at < first + words:
            self.at = first + words

    def finish(self) -> int:
        self._work(None)
        return self.end

    def _work(self, limit: int | None) -> None:
        while self.stages:
            left, writes = self.stages.popleft()
            done = left if not writes or limit is None else min(left, max(0, limit - self.at))
            self.at += done
            if done < left:
                self.stages.appendleft((left - done, writes))
                return
            self.end = self.at


class _Machine:
    """The four engines around the memory."""

    def __init__(self, table: Table, config: VTAConfig, insn_address: int, semantics: str) -> None:
        self.insns = insns_of(table)
        self.config = config
        self.fsim = semantics == "fsim"
        self.events = _Events()
        self.memory = _Memory(config, self.events)
        self.queues: list[deque[tuple[int, int]]] = [deque(), deque(), deque()]  # (index, visible from)
        self.free_since: list[int | None] = [0, 0, 0]  # None: busy
        self.tokens = dict.fromkeys(_POPS.values(), 0)
        self.starts: dict[int, int] = {}
        self.dones: dict[int, int] = {}
        self.finish: int | None = None
        # Fetch.
        self.insn_address = insn_address
        self.wide = config.bus_bytes > 8
        self.batch = config.burst_beats if self.wide else config.burst_beats // 2
        self.read_end = 0  # instructions read from memory so far
        self.next = 0  # the instruction to dispatch
        self.offered: int | None = None  # since when it could go, were there room
        self.pipe: list[int] = []  # cycles in which instructions entered the wide fetch's two-entry pipe
        self.left_pipe: list[int] = []
        self.arrived = 0  # first cycle in which the batch is complete

    def run(self, cap: int | None) -> int:
        if self.insns:
            self._command(1)
        while self.events.heap:
            time, _, _, action = heapq.heappop(self.events.heap)
            if self.finish is not None and time > self.finish:
                break  # nothing after it counts
            if cap is not None and time > cap:
                return -1
            self.events.now = time
            action()
        if self.finish is None:
            raise self._deadlock()
        return -1 if cap is not None and self.finish > cap else self.finish

    # Fetch: read a batch, then hand it out, one instruction per cycle.

    def _command(self, cycle: int) -> None:
        first, end = self.read_end, min(len(self.insns), self.read_end + self.batch)
        start, size = self.insn_address + 16 * first, 16 * (end - first)
        if self.wide:
            words = list(_rows(start, 0, 1, size, True, self.config))
        else:
            words = [size // self.config.bus_bytes]  # as it is: no regard to boundaries

        def ask(index: int, eligible: int) -> None:
            def served(issue: int, serve: int) -> None:
                if index + 1 < len(words):
                    ask(index + 1, issue + 2)
                else:
                    self.read_end = end
                    self._batch_there(serve + words[index])

            self.memory.ask(0, _Burst(eligible, words[index], served))

        ask(0, cycle + 1)

    def _batch_there(self, last_word: int) -> None:
        if self.wide:
            self.arrived = last_word + 4
            self._fill_pipe()
        else:
            self._offer(last_word + 2)

    def _offer(self, cycle: int) -> None:
        self.offered = cycle
        self.events.add(cycle, _DISPATCH, self._dispatch)

    def _fill_pipe(self) -> None:
        """Wide fetch: an instruction enters the pipe when the one two before it has left."""
        while len(self.pipe) < self.read_end and len(self.pipe) - self.next < 2:
            index = len(self.pipe)
            before = self.pipe[-1] + 1 if self.pipe else 0
            room = self.left_pipe[index - 2] + 1 if index >= 2 else 0
            self.pipe.append(max(self.arrived, before, room))
            if index == self.next:
                self._offer(max(self.pipe[index], self.left_pipe[-1] if self.left_pipe else 0) + 1)
            if index + 1 == self.read_end and self.read_end < len(self.insns):
                self._command(self.pipe[index] + 3)

    def _dispatch(self) -> None:
        now, index = self.events.now, self.next
        unit = self._unit_of(self.insns[index])
        if unit is None or len(self.queues[unit]) >= self.config.queue_depth:
            return  # a completion tries again
        self.queues[unit].append((index, now + 1))
        self.next += 1
        self.offered = None
        self.left_pipe.append(now)
        if self.wide:
            if self.next < len(self.pipe):
                self._offer(max(self.pipe[self.next], now) + 1)
            self._fill_pipe()
        elif self.next < self.read_end:
            self._offer(now + 1)
        elif self.read_end < len(self.insns):
            self._command(now + 2)
        self._wake(unit, now + 1)

    def _unit_of(self, insn: Insn) -> int | None:
        """The queue of an instruction; None: the decoder does not know it, and fetch stops for good."""
        if isinstance(insn, Store):
            return _STORE
        if isinstance(insn, Load):
            if insn.mem == MEM_OUT or (insn.mem == MEM_ACC_8BIT and not self.fsim):
                return None
            return _LOAD if insn.mem in (MEM_INP, MEM_WGT) else _COMPUTE
        if isinstance(insn, Alu) and insn.alu_op > 3 and not self.fsim:
            return None
        return _COMPUTE

    # Units: in order, one instruction at a time.

    def _needs(self, unit: int, insn: Insn) -> list[str]:
        flags = {"prev": insn.pop_prev, "next": insn.pop_next}
        return [channel for (u, flag), channel in _POPS.items() if u == unit and flags[flag]]

    def _wake(self, unit: int, cycle: int) -> None:
        if self.free_since[unit] is not None and self.queues[unit]:
            visible = self.queues[unit][0][1]
            self.events.add(max(cycle, visible), _START, lambda: self._start(unit))

    def _start(self, unit: int) -> None:
        now = self.events.now
        if self.free_since[unit] is None or not self.queues[unit] or self.queues[unit][0][1] > now:
            return
        index = self.queues[unit][0][0]
        insn = self.insns[index]
        needs = self._needs(unit, insn)
        if any(self.tokens[channel] == 0 for channel in needs):
            return
        for channel in needs:
            self.tokens[channel] -= 1
        self.free_since[unit] = None
        self.starts[index] = now
        if isinstance(insn, Load) and insn.x_size:
            self._load(unit, index, insn)
            return
        busy = self._busy(insn)
        if busy is not None:
            self._ends(unit, index, now + busy)

    def _ends(self, unit: int, index: int, done: int) -> None:
        self.dones[index] = done
        if isinstance(self.insns[index], Finish) and self.finish is None:
            self.finish = done
        self.events.add(done + 1, _COMPLETE, lambda: self._complete(unit, index))

    def _complete(self, unit: int, index: int) -> None:
        insn = self.insns[index]
        flags = {"prev": insn.push_prev, "next": insn.push_next}
        for (u, flag), channel in _PUSHES.items():
            if u == unit and flags[flag]:
                self.tokens[channel] = min(TOKEN_LIMIT, self.tokens[channel] + 1)
        self.queues[unit].popleft()
        self.free_since[unit] = self.events.now
        for other in range(3):
            self._wake(other, self.events.now)
        if self.offered is not None and self.offered <= self.events.now:
            self.events.add(self.events.now, _DISPATCH, self._retry(self.next))

    def _retry(self, index: int) -> Callable[[], None]:
        def again() -> None:
            if self.next == index:
                self._dispatch()

        return again

    def _busy(self, insn: Insn) -> int | None:
        """Busy cycles of anything but a load with data; None: for ever."""
        if isinstance(insn, Gemm | Alu):
            uops = self._trips(insn.uop_end - insn.uop_bgn)
            uops *= self._trips(insn.iter_out) * self._trips(insn.iter_in)
            two_reads = isinstance(insn, Alu) and not insn.use_imm
            return (2 * uops if two_reads else uops) + 6
        if isinstance(insn, Store) and insn.x_size:
            return self._store(insn)
        return 1

    def _trips(self, bound: int) -> int:
        """Counters compare with bound - 1 in 14 bits: an empty loop runs through all of them."""
        if self.fsim:
            return max(0, bound)
        return bound % (1 << ITER_BITS) or 1 << ITER_BITS

    def _store(self, insn: Store) -> int | None:
        config = self.config
        elem = config.out_elem_bytes
        wide = elem <= config.bus_bytes
        rows = insn.y_size
        if rows == 0:
            if self.fsim:
                return 1
            if wide:
                return None
            rows = 1 << 16
        row_words = max(1, elem // config.batch // config.bus_bytes)
        cycles = 0
        for words in _rows(insn.dram * elem, insn.x_stride * elem, rows, insn.x_size * elem, wide, config):
            # Command, two cycles of address, words, response; the narrow store re-reads OUT between rows.
            cycles += 4 + words + (0 if wide else (words - 1) // row_words)
        return cycles

    def _load(self, unit: int, index: int, insn: Load) -> None:
        config = self.config
        elem = int(element_bytes(config)[insn.mem])
        start = self.events.now
        wide = elem <= config.bus_bytes
        lag = 2 if wide else 3  # the narrow loader has one more register
        padding = _Padding(insn, start + lag - 1)
        if insn.y_size == 0:
            if self.fsim:
                self._ends(unit, index, max(start + 1, padding.finish()))
            return
        bursts = _rows(insn.dram * elem, insn.x_stride * elem, insn.y_size, insn.x_size * elem, wide, config)

        def ask(words: int, eligible: int) -> None:
            def served(issue: int, serve: int) -> None:
                padding.data(serve + lag, words)
                following = next(bursts, None)
                if following is None:
                    self._ends(unit, index, max(serve + lag + words, padding.finish()))
                else:
                    ask(following, issue + 2)

            self.memory.ask(_CLIENTS[insn.mem], _Burst(eligible, words, served))

        ask(next(bursts), start + 2 + insn.y_pad_0)

    def _deadlock(self) -> DeadlockError:
        waiters = []
        if self.offered is not None:
            unit = self._unit_of(self.insns[self.next])
            what = "an instruction that it can decode" if unit is None else f"room in the {_UNITS[unit]} queue"
            waiters.append(Waiter("FETCH", self.next, what, self.offered))
        for unit, queue in enumerate(self.queues):
            if queue:
                index, visible = queue[0]
                free = self.free_since[unit]
                missing = [c for c in self._needs(unit, self.insns[index]) if self.tokens[c] == 0]
                what = "its own end" if free is None else "tokens " + " and ".join(missing)
                since = self.starts[index] if free is None else max(free, visible)
                waiters.append(Waiter(_UNITS[unit], index, what, since))
        return DeadlockError(self.events.now, tuple(waiters))


def trace(
    table: Table, config: VTAConfig, insn_address: int = 0x10000, *, cap: int | None = None, semantics: str = "chisel"
) -> tuple[int, dict[int, int], dict[int, int]]:
    """Return (cycles, start of each instruction, done of each instruction); see ``sim.timing.cycles``.

    Meant for reading and for checking ``sim.timing``; nothing here bounds the time that a huge program takes.
    """
    table = as_table(table)
    check_table(table, config, semantics)
    machine = _Machine(table, config, insn_address, semantics)
    return machine.run(cap), machine.starts, machine.dones


def cycles(
    table: Table, config: VTAConfig, insn_address: int = 0x10000, *, cap: int | None = None, semantics: str = "chisel"
) -> int:
    """Return the cycles of a program, as ``sim.timing.cycles`` does."""
    return trace(table, config, insn_address, cap=cap, semantics=semantics)[0]
