"""A second model of the same hardware: every register of every state machine, stepped one cycle at a time.

It follows the structure of the RTL (fetch, load, compute, store, the memory engine, and the simulated memory),
knows nothing of bursts as a whole, shares no code with ``sim.timing``, and is slow. Each ``clock`` method
takes the wires of the cycle and moves the registers to the next one.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from sim import isa
from sim.config import VTAConfig

UOP, INP, WGT, ACC, FETCH = 1, 2, 3, 4, 0
WORD_MASK = (1 << 14) - 1


class Fields:
    """One instruction, by field name."""

    def __init__(self, row: Any, index: int) -> None:
        self.index = index
        for name, column in isa.COLUMN_OF.items():
            setattr(self, name, int(row[column]))
        # What each decoder makes of it.
        load, mem = self.opcode == 0, self.mem
        self.to_load = load and mem in (isa.MEM_INP, isa.MEM_WGT)
        self.to_store = self.opcode == 1
        alu = self.opcode == 4 and self.alu_op <= 3
        self.to_compute = self.opcode in (2, 3) or alu or (load and mem in (isa.MEM_UOP, isa.MEM_ACC))
        self.sync = self.opcode in (0, 1) and self.x_size == 0

    opcode: int
    mem: int
    alu_op: int
    x_size: int


class Memory:
    """The engine that arbitrates reads, and the memory behind it with its queue and its delay counter."""

    def __init__(self, config: VTAConfig) -> None:
        self.commands: list[int | None] = [None] * 5  # one-entry queue per client: length in words
        self.free = config.outstanding_reads
        self.delay = config.read_delay
        self.fifo: deque[tuple[int, int]] = deque()
        self.counter = 0
        self.reading = False
        self.word_len = 0  # the length register: words still to come after the current one
        self.device_left = 0  # words that the device still has to give
        self.device_client = -1
        self.returned: int | None = None  # client whose word leaves the return register in this cycle

    def clock(self, asked: list[int | None]) -> None:
        """``asked``: per client the length of the command that it hands over in this cycle."""
        valid = self.device_left > 0
        last = valid and self.word_len == 0
        returned_next = self.device_client if valid else None
        # Address channel.
        issue = None
        for client in range(5):
            if self.commands[client] is not None:
                if self.free > 0 and not last and len(self.fifo) < 256:
                    issue = client
                break
        # The memory's front end.
        head = bool(self.fifo)
        take = head and not self.reading and self.counter == self.delay
        counter_next = min(self.counter + 1, self.delay) if head else 0
        reading_next, word_len_next = self.reading, self.word_len
        left_next, client_next = self.device_left - (1 if valid else 0), self.device_client
        if self.reading:
            if valid and self.word_len == 1:
                reading_next = False
            if valid and self.word_len != 0:
                word_len_next = self.word_len - 1
        if take:
            client, words = self.fifo[0]
            reading_next = words > 1
            word_len_next = words - 1
            left_next, client_next = words, client
            self.fifo.popleft()
        if last:
            self.free += 1
        if issue is not None:
            words_or_none = self.commands[issue]
            assert words_or_none is not None
            self.fifo.append((issue, words_or_none))
            self.commands[issue] = None
            self.free -= 1
        for client in range(5):
            length = asked[client]
            if length is not None:
                assert self.commands[client] is None
                self.commands[client] = length
        self.counter, self.reading, self.word_len = counter_next, reading_next, word_len_next
        self.device_left, self.device_client = left_next, client_next
        self.returned = returned_next


class CommandGenerator:
    """Cuts rows into bursts; the wide variant works on rows rounded to bus words."""

    def __init__(self, config: VTAConfig, elem: int) -> None:
        self.bus = config.bus_bytes
        self.most = config.burst_beats
        self.elem = elem
        self.wide = elem <= config.bus_bytes
        self.done = True

    def start(self, dram: int, y: int, x: int, stride: int, y_pad: int, base: int = 0) -> None:
        self.y, self.x, self.stride_bytes, self.y_pad = y, x, stride * self.elem, y_pad
        self.row_begin = base | (dram * self.elem)
        self.row_index = 0  # destination row, top padding included
        self.source_row = 0
        self.read = 0
        self.done = False
        self.address = self.row_begin - self.row_begin % self.bus if self.wide else self.row_begin

    def _row_words(self) -> int:
        if self.wide:
            total = self.x * self.elem + self.row_begin % self.bus
            return total // self.bus + (1 if total % self.bus else 0)
        return self.x * (self.elem // self.bus)

    def length(self) -> int:
        left = self._row_words() - self.read
        room = self.most
        if self.read == 0:
            span = self.most * self.bus
            room = (span - self.address % span) // self.bus
        return min(left, room)

    def valid(self) -> bool:
        return not self.done and self.y_pad <= self.row_index < self.y + self.y_pad

    def clock(self, fire: bool) -> None:
        stride = False
        if fire:
            length = self.length()
            if self.read + length == self._row_words():
                if self.source_row == self.y - 1:
                    self.done = True
                else:
                    stride = True
        step = self.row_index < self.y_pad or stride
        if stride:
            self.row_begin += self.stride_bytes
            self.source_row += 1
            self.read = 0
            self.address = self.row_begin - self.row_begin % self.bus if self.wide else self.row_begin
        elif fire:
            self.read += length
            self.address += length * self.bus
        if step:
            self.row_index += 1


class Padding:
    """Writes one zero element per cycle, in cycles without data."""

    IDLE, TOP, LEFT, RIGHT, BOTH, SKIP, BOTTOM = range(7)

    def __init__(self) -> None:
        self.state = self.IDLE

    def _after_top(self) -> int:
        f = self.f
        if f.x_pad_0 and not f.x_pad_1:
            return self.LEFT
        if f.x_pad_1 and not f.x_pad_0:
            return self.RIGHT
        if f.x_pad_0 and f.x_pad_1:
            return self.BOTH
        return self.SKIP if f.y_pad_1 else self.IDLE

    def start(self, f: Any) -> None:
        self.f = f
        self.row = 0
        self.column = 0
        if f.y_pad_0:
            self.state = self.TOP
        else:
            self.state = self._after_top()
            if self.state == self.RIGHT:
                self.column = f.x_size

    def clock(self, can_write: bool) -> None:
        f = self.f
        state = self.state
        width = f.x_pad_0 + f.x_size + f.x_pad_1
        if state == self.SKIP:
            last_row = self.row == f.y_pad_0 + f.y_size - 1
            self.row += 1
            if last_row:
                self.state, self.column = self.BOTTOM, 0
            return
        if not can_write:
            return
        if state == self.LEFT:
            line_end = self.column == f.x_pad_0 - 1
        else:
            line_end = self.column == width - 1
        if not line_end:
            jump = state == self.BOTH and self.column == f.x_pad_0 - 1
            self.column += f.x_size + 1 if jump else 1
            return
        row = self.row
        self.row += 1
        self.column = f.x_pad_0 + f.x_size if state == self.RIGHT else 0
        if state == self.TOP and row == f.y_pad_0 - 1:
            self.state = self._after_top()
            self.column = f.x_size if self.state == self.RIGHT else 0
        elif state in (self.LEFT, self.RIGHT, self.BOTH) and row == f.y_pad_0 + f.y_size - 1:
            self.state = self.BOTTOM if f.y_pad_1 else self.IDLE
            self.column = 0
        elif state == self.BOTTOM and row == f.y_pad_0 + f.y_size + f.y_pad_1 - 1:
            self.state = self.IDLE


class Loader:
    """One of the four tensor loaders."""

    def __init__(self, config: VTAConfig, elem: int) -> None:
        self.generator = CommandGenerator(config, elem)
        self.narrow = not self.generator.wide
        self.padding = Padding()
        self.busy = False
        self.in_flight = 0
        self.piped = False  # the narrow loader's data register
        self.pad_start: Any = None  # the narrow loader's start register

    def asks(self) -> int | None:
        return self.generator.length() if self.busy and self.generator.valid() else None

    def done(self) -> bool:
        idle = self.padding.state == Padding.IDLE
        return self.busy and self.in_flight == 0 and self.generator.done and idle

    def clock(self, start: Any, fire: bool, data: bool) -> None:
        arrives = self.piped if self.narrow else data
        done = self.done()
        pad_start = self.pad_start if self.narrow else start
        if pad_start is not None:
            self.padding.start(pad_start)
        elif self.padding.state != Padding.IDLE:
            self.padding.clock(not arrives)
        self.pad_start = start
        self.piped = data
        if start is not None:
            self.busy = True
            self.in_flight = 0
            self.generator.start(start.dram, start.y_size, start.x_size, start.x_stride, start.y_pad_0)
            return
        if not self.busy:
            return
        if fire:
            self.in_flight += self.generator.length()
        if arrives:
            self.in_flight -= 1
        self.generator.clock(fire)
        if done:
            self.busy = False


class Tokens:
    """An 8-bit semaphore."""

    def __init__(self) -> None:
        self.count = 0

    def clock(self, post: bool, wait: bool) -> None:
        if post and not wait and self.count != 255:
            self.count += 1
        if wait and not post and self.count != 0:
            self.count -= 1


class Pipeline:
    """The GEMM and ALU sequencers: an index generator and the count of operations in flight."""

    def __init__(self) -> None:
        self.starting: Any = None  # registered start
        self.running = False
        self.stutter = False
        self.stage = 0  # 0 idle, 1 run, 2 wait
        self.flight = 0
        self.stages = [False] * 4

    def done(self) -> bool:
        return self.stage == 2 and self.flight == 0

    def clock(self, start: Any) -> None:
        retire = self.stages[3]
        valid = last = False
        done = self.done()
        if self.running:
            f = self.f
            advance = f.opcode == 2 or f.use_imm or self.stutter
            if advance:
                valid = True
                self.stutter = False
                if self.uop != (f.uop_end - 1) & WORD_MASK:
                    self.uop = (self.uop + 1) & WORD_MASK
                else:
                    self.uop = f.uop_bgn
                    if self.inner != (f.iter_in - 1) & WORD_MASK:
                        self.inner = (self.inner + 1) & WORD_MASK
                    elif self.outer != (f.iter_out - 1) & WORD_MASK:
                        self.inner = 0
                        self.outer = (self.outer + 1) & WORD_MASK
                    else:
                        last = True
            else:
                self.stutter = True
        if valid != retire:
            self.flight += 1 if valid else -1
        self.stages = [valid, *self.stages[:3]]
        if last:
            self.running = False
            self.stage = 2
        elif done:
            self.stage = 0
        if self.starting is not None:
            self.f = self.starting
            self.running = True
            self.uop, self.inner, self.outer = self.f.uop_bgn, 0, 0
            self.stage = 1
        self.starting = start


class Writer:
    """The store's state machine with the write side of the memory engine and of the memory."""

    IDLE, COMMAND, DATA, REREAD, ACK = range(5)

    def __init__(self, config: VTAConfig) -> None:
        self.bus = config.bus_bytes
        self.most = config.burst_beats
        self.elem = config.out_elem_bytes
        self.wide = self.elem <= self.bus
        self.row_words = max(1, self.elem // config.batch // self.bus)
        self.state = self.IDLE
        self.engine = 0  # 0 idle, 1 address, 2 data, 3 response
        self.device = 0  # 0 idle, 1 address, 2 data, 3 response

    def _cut(self) -> None:
        span = self.most * self.bus
        self.length = min(self.left, (span - self.address % span) // self.bus)
        self.left -= self.length

    def _row(self) -> None:
        start = self.row_begin
        end = start + self.x * self.elem
        if self.wide:
            start -= start % self.bus
            end = -(-end // self.bus) * self.bus
        self.address = start
        self.left = (end - start) // self.bus
        self._cut()

    def ack(self) -> bool:
        return self.engine == 3 and self.device == 3

    def done(self) -> bool:
        return self.state == self.ACK and self.ack() and self.left == 0 and self.row == (self.y - 1) & 0xFFFF

    def clock(self, start: Any) -> None:
        if start is not None:
            self.x, self.y, self.stride = start.x_size, start.y_size, start.x_stride * self.elem
            self.row_begin = start.dram * self.elem
            self.row = 0
            self._row()
            self.state = self.COMMAND
            return
        if self.state == self.IDLE:
            return
        if self.wide and self.y == 0:
            return
        engine, device, ack, done = self.engine, self.device, self.ack(), self.done()
        data_valid = self.state == self.DATA
        data_fire = data_valid and engine == 2 and device == 2
        # Store.
        if self.state == self.COMMAND:
            if engine == 0:
                self.state = self.DATA
                self.sent = 0
                self.tag = 0
        elif self.state == self.DATA:
            if data_fire:
                self.sent += 1
                if self.sent == self.length:
                    self.state = self.ACK
                elif not self.wide and self.tag == self.row_words - 1:
                    self.state = self.REREAD
                self.tag = 0 if self.tag == self.row_words - 1 else self.tag + 1
        elif self.state == self.REREAD:
            self.state = self.DATA
        elif self.state == self.ACK and ack:
            if done:
                self.state = self.IDLE
            elif self.left:
                self.address += self.length * self.bus
                self._cut()
                self.state = self.COMMAND
            else:
                self.row += 1
                self.row_begin += self.stride
                self._row()
                self.state = self.COMMAND
        # Engine and device.
        last_word = data_fire and self.sent == self.length
        if engine == 0:
            if self.state == self.DATA and not data_valid:
                self.engine = 1
        elif engine == 1:
            if device == 1:
                self.engine = 2
        elif engine == 2:
            if last_word:
                self.engine = 3
        elif device == 3:
            self.engine = 0
        if device == 0:
            if engine == 1:
                self.device = 1
        elif device == 1:
            if engine == 1:
                self.device = 2
        elif device == 2:
            if last_word:
                self.device = 3
        elif engine == 3:
            self.device = 0


class NarrowFetch:
    """Reads a batch in two halves per instruction, then drains it."""

    IDLE, COMMAND, LOW, HIGH, DRAIN = range(5)

    def __init__(self, config: VTAConfig, program: list[Fields], address: int) -> None:
        self.program = program
        self.most = config.burst_beats
        self.state = self.IDLE
        self.launched = False
        self.queue: deque[Fields] = deque()
        self.following = 0
        self.blocked = False

    def asks(self) -> int | None:
        return self.length + 1 if self.state == self.COMMAND else None

    def offers(self) -> Fields | None:
        return self.queue[0] if self.state == self.DRAIN and self.queue else None

    def _plan(self, size: int) -> None:
        if size < self.most:
            self.length, self.count, self.left = size, size >> 1, 0
        else:
            self.length, self.count, self.left = self.most - 1, (self.most >> 1) - 1, size - self.most

    def clock(self, fire: bool, data: bool, taken: bool) -> None:
        count = len(self.queue)
        if self.state == self.IDLE:
            if not self.launched:
                self._plan(2 * len(self.program) - 1)
                self.state = self.COMMAND
            self.launched = True
        elif self.state == self.COMMAND:
            if fire:
                self.state = self.LOW
        elif self.state == self.LOW:
            if data:
                self.state = self.HIGH
        elif self.state == self.HIGH:
            if data:
                self.queue.append(self.program[self.following])
                self.following += 1
                self.state = self.DRAIN if count == self.count else self.LOW
        elif count == 0:
            if self.left == 0:
                self.state = self.IDLE
            else:
                self._plan(self.left)
                self.state = self.COMMAND
        if taken:
            self.queue.popleft()


class WideFetch:
    """Reads a batch of whole words, waits for all of it, and drains it through a two-entry queue."""

    IDLE, READ, DRAIN = range(3)

    def __init__(self, config: VTAConfig, program: list[Fields], address: int) -> None:
        self.program = program
        self.base = address
        self.config = config
        self.most = 2 * config.burst_beats  # 64-bit halves in the buffer
        self.state = self.IDLE
        self.previous = self.IDLE
        self.launched = False
        self.generator = CommandGenerator(config, 8)
        self.in_flight = 0
        self.piped = False
        self.halves = 0  # in the buffer
        self.unread = 0
        self.offset = 0
        self.batch = 0
        self.left = 0
        self.pipe: deque[Fields] = deque()
        self.following = 0

    def _starting(self) -> bool:
        return self.state == self.READ and self.previous == self.DRAIN

    def asks(self) -> int | None:
        if self.state == self.READ and not self._starting() and self.generator.valid():
            return self.generator.length()
        return None

    def offers(self) -> Fields | None:
        return self.pipe[0] if self.pipe else None

    def _plan(self, size: int) -> None:
        self.batch = min(size, self.most)
        self.left = size - self.batch

    def clock(self, fire: bool, data: bool, taken: bool) -> None:
        starting = self._starting()
        reading = self.state == self.READ and not starting
        state = self.state
        enters = self.state == self.DRAIN and self.halves >= 2 and len(self.pipe) < 2
        halves = self.halves
        complete = reading and self.generator.done and self.in_flight == 0
        length = self.generator.length() if fire else 0
        if state == self.IDLE and not self.launched:
            self._plan(2 * len(self.program))
            self.generator.start(0, 1, self.batch, self.batch, 0, self.base)
            self.state = self.READ
            self.in_flight = 0
        elif starting:
            self.generator.start(0, 1, self.batch, self.batch, 0, self.base + self.offset * 8)
        self.launched = True
        if reading:
            self.generator.clock(fire)
        if state == self.READ:
            self.in_flight += length - (1 if self.piped else 0)
        if self.piped and self.in_flight == 0:
            self.halves = self.batch
        if complete:
            self.state = self.DRAIN
        elif state == self.DRAIN and halves == 0:
            self.offset += self.batch
            if self.left == 0:
                self.state = self.IDLE
            else:
                self._plan(self.left)
                self.state = self.READ
        if taken:
            self.pipe.popleft()
        if enters:
            self.pipe.append(self.program[self.following])
            self.following += 1
            self.halves -= 2
        self.piped = data
        self.previous = state


class Machine:
    """The whole accelerator."""

    def __init__(self, table: Any, config: VTAConfig, address: int) -> None:
        program = [Fields(row, i) for i, row in enumerate(table)]
        self.memory = Memory(config)
        wide = config.bus_bytes > 8
        self.fetch = (WideFetch if wide else NarrowFetch)(config, program, address)
        self.depth = config.queue_depth
        self.queues: list[deque[Fields]] = [deque(), deque(), deque()]
        self.executing: list[str] = ["idle"] * 3
        self.loaders = {
            UOP: Loader(config, config.uop_elem_bytes),
            INP: Loader(config, config.inp_elem_bytes),
            WGT: Loader(config, config.wgt_elem_bytes),
            ACC: Loader(config, config.acc_elem_bytes),
        }
        self.pipeline = Pipeline()
        self.writer = Writer(config)
        self.tokens = {name: Tokens() for name in ("l2c", "c2l", "c2s", "s2c")}
        self.trace: dict[int, list[int]] = {}
        self.now = 0

    def _unit_done(self, unit: int) -> bool:
        if self.executing[unit] != "exe":
            return False
        f = self.queues[unit][0]
        if unit == 2:
            return self.writer.done()
        if f.opcode == 0:
            return self.loaders[_client(f)].done()
        return f.opcode == 3 or self.pipeline.done()

    def clock(self) -> bool:
        """Run one cycle; True when FINISH is busy in it."""
        queues, tokens = self.queues, self.tokens
        # Fetch side.
        offered = self.fetch.offers()
        target = None
        if offered is not None:
            for unit, wanted in enumerate((offered.to_load, offered.to_compute, offered.to_store)):
                if wanted and len(queues[unit]) < self.depth:
                    target = unit
        # Units.
        starts: list[Fields | None] = [None] * 3
        leaves = [False] * 3
        posts = dict.fromkeys(tokens, False)
        waits = dict.fromkeys(tokens, False)
        finish = False
        for unit in range(3):
            if not queues[unit]:
                continue
            f: Any = queues[unit][0]
            needs, gives = _channels(unit, f)
            if self.executing[unit] == "idle":
                if all(tokens[name].count for name in needs):
                    starts[unit] = f
                    for name in needs:
                        waits[name] = True
            elif self.executing[unit] == "sync" or self._unit_done(unit):
                leaves[unit] = True
                for name in gives:
                    posts[name] = True
                finish = finish or f.opcode == 3
        # Memory side.
        asked: list[int | None] = [None] * 5
        wants: list[int | None] = [self.fetch.asks()] + [self.loaders[c].asks() for c in (UOP, INP, WGT, ACC)]
        for client, length in enumerate(wants):
            if length is not None and self.memory.commands[client] is None:
                asked[client] = length
        data = self.memory.returned
        # Registers.
        real = [f if f is not None and not f.sync else None for f in starts]
        loading = {_client(f): f for f in real[:2] if f is not None and f.opcode == 0}
        for client, loader in self.loaders.items():
            start = loading.get(client)
            if start is not None or loader.busy or loader.pad_start is not None or loader.piped:
                loader.clock(start, asked[client] is not None, data == client)
        computing = real[1] if real[1] is not None and real[1].opcode in (2, 4) else None
        self.pipeline.clock(computing)
        self.writer.clock(real[2])
        self.fetch.clock(asked[FETCH] is not None, data == FETCH, target is not None)
        self.memory.clock(asked)
        for unit in range(3):
            f = starts[unit]
            if f is not None:
                self.executing[unit] = "sync" if f.sync else "exe"
                self.trace[f.index] = [self.now, -1]
            elif leaves[unit]:
                self.executing[unit] = "idle"
                self.trace[queues[unit][0].index][1] = self.now
                queues[unit].popleft()
        if target is not None:
            assert offered is not None
            queues[target].append(offered)
        for name, semaphore in tokens.items():
            semaphore.clock(posts[name], waits[name])
        self.now += 1
        return finish


def _client(f: Any) -> int:
    return {isa.MEM_UOP: UOP, isa.MEM_INP: INP, isa.MEM_WGT: WGT, isa.MEM_ACC: ACC}[f.mem]


def _channels(unit: int, f: Any) -> tuple[list[str], list[str]]:
    if unit == 0:
        pops, pushes = [(f.pop_next, "c2l")], [(f.push_next, "l2c")]
    elif unit == 1:
        pops = [(f.pop_prev, "l2c"), (f.pop_next, "s2c")]
        pushes = [(f.push_prev, "c2l"), (f.push_next, "c2s")]
    else:
        pops, pushes = [(f.pop_prev, "c2s")], [(f.push_prev, "s2c")]
    return [name for flag, name in pops if flag], [name for flag, name in pushes if flag]


def run(
    table: Any, config: VTAConfig, insn_address: int = 0x10000, limit: int = 100_000
) -> tuple[int | None, dict[int, tuple[int, int]]]:
    """Return (cycle of FINISH, or None after ``limit`` cycles; {instruction: (start, done)})."""
    machine = Machine(table, config, insn_address)
    for cycle in range(limit):
        if machine.clock():
            return cycle, {i: (s, d) for i, (s, d) in machine.trace.items()}
    return None, {i: (s, d) for i, (s, d) in machine.trace.items()}
