"""VTA instruction by instruction in plain Python integers: the oracle of execution, races and hazards.

Written from the description of the machine alone; it shares no code with ``sim`` beyond names of columns and the
sizes of a configuration. Slow on purpose: no arrays, no kernels, one lane at a time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

COLUMNS = (
    "opcode", "pop_prev", "pop_next", "push_prev", "push_next",
    "mem", "sram", "dram", "y_size", "x_size", "x_stride", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1",
    "reset", "uop_bgn", "uop_end", "iter_out", "iter_in",
    "dst_out", "dst_in", "src_out", "src_in", "wgt_out", "wgt_in", "alu_op", "use_imm", "imm",
)  # fmt: skip
LOAD, STORE, GEMM, FINISH, ALU = range(5)
UOP, WGT, INP, ACC, OUT, ACC8 = range(6)


class Refused(Exception):
    """The functional simulator would stop with a fatal error."""


class Stuck(Exception):
    """FINISH is never reached."""


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def lanes_of(data, bits):
    number = int.from_bytes(data, "little")
    return [signed(number >> (i * bits), bits) for i in range(len(data) * 8 // bits)]


def bytes_of(lanes, bits):
    number = 0
    for i, lane in enumerate(lanes):
        number |= (lane & ((1 << bits) - 1)) << (i * bits)
    return number.to_bytes(len(lanes) * bits // 8, "little")


def rows_of(table):
    return [dict(zip(COLUMNS, (int(v) for v in row))) for row in table]


def engine_of(row):
    if row["opcode"] == STORE:
        return "store"
    if row["opcode"] == LOAD and row["mem"] in (INP, WGT):
        return "load"
    return "compute"


def pops_of(row):
    engine = engine_of(row)
    neighbours = {"load": (None, "compute"), "compute": ("load", "store"), "store": ("compute", None)}[engine]
    flags = (row["pop_prev"], row["pop_next"])
    return [(other, engine) for other, flag in zip(neighbours, flags) if other and flag]


def pushes_of(row):
    engine = engine_of(row)
    neighbours = {"load": (None, "compute"), "compute": ("load", "store"), "store": ("compute", None)}[engine]
    flags = (row["push_prev"], row["push_next"])
    return [(engine, other) for other, flag in zip(neighbours, flags) if other and flag]


def interleave(rows, rng, depth=None):
    """An order of execution, engines chosen at random; also the edges (producer, consumer) of the tokens."""
    queues = {"load": [], "compute": [], "store": []}
    tokens = {}
    order, edges, fetched, finished = [], [], 0, False
    while True:
        while fetched < len(rows):
            queue = queues[engine_of(rows[fetched])]
            if depth is not None and len(queue) >= depth:
                break
            queue.append(fetched)
            fetched += 1
        names = list(queues)
        rng.shuffle(names)
        for name in names:
            queue = queues[name]
            if not queue or (name == "compute" and finished):
                continue
            row = rows[queue[0]]
            if all(tokens.get(c) for c in pops_of(row)):
                index = queue.pop(0)
                for c in pops_of(row):
                    edges.append((tokens[c].pop(0), index))
                for c in pushes_of(row):
                    tokens.setdefault(c, []).append(index)
                order.append(index)
                finished |= row["opcode"] == FINISH
                break
        else:
            if not finished:
                raise Stuck
            return order, edges


def uop_widths(config, mode):
    """Bits of a micro-op's ACC, INP and WGT index: constants of the Chisel build, depths elsewhere."""
    if mode == "chisel":
        return 11, 11, 10
    inp, wgt, acc = ((depth - 1).bit_length() for depth in (config.inp_depth, config.wgt_depth, config.acc_depth))
    return acc, max(acc, inp), wgt


def loop(row, mode):
    """Every (outer, inner, uop) of a GEMM or ALU."""
    outer, inner = row["iter_out"], row["iter_in"]
    count = row["uop_end"] - row["uop_bgn"]
    if mode == "chisel":
        outer, inner, count = outer or 16384, inner or 16384, (count - 1) % 16384 + 1
    for o in range(outer):
        for i in range(inner):
            for u in range(count):
                yield o, i, row["uop_bgn"] + u


@dataclass
class Machine:
    config: object
    mode: str
    memory: dict = field(default_factory=dict)

    def __post_init__(self):
        c = self.config
        self.uop = [0] * c.uop_capacity
        self.inp = [[0] * (c.batch * c.block_in) for _ in range(c.inp_depth)]
        self.wgt = [[0] * (c.block_out * c.block_in) for _ in range(c.wgt_depth)]
        self.acc = [[0] * (c.batch * c.block_out) for _ in range(c.acc_depth)]
        self.out = [[0] * (c.batch * c.block_out) for _ in range(c.acc_depth)]
        self.gemm_counter = self.alu_counter = 0
        self.bytes = {UOP: 0, WGT: 0, INP: 0, ACC: 0, OUT: 0}
        self.touched = {}

    def peek(self, address, size):
        return bytes(self.memory.get(address + k, 0) for k in range(size))

    def poke(self, address, data):
        for k, byte in enumerate(data):
            self.memory[address + k] = byte

    def index(self, value, depth):
        if value >= depth:
            if self.mode == "fsim":
                raise Refused
            value %= depth
        return value

    def note(self, kind, memory, element):
        self.touched.setdefault((kind, memory), set()).add(element)

    def step(self, row):
        """Execute one instruction; ``touched`` then holds {(read|write, memory): elements or bytes}."""
        self.touched = {}
        if row["opcode"] == LOAD and row["x_size"]:
            self.load(row)
        elif row["opcode"] == STORE and row["x_size"]:
            self.store(row)
        elif row["opcode"] == GEMM:
            self.gemm(row)
        elif row["opcode"] == ALU:
            self.alu(row)
        return self.touched

    def load(self, row):
        c = self.config
        mem = row["mem"]
        size = {UOP: 4, WGT: c.wgt_elem_bytes, INP: c.inp_elem_bytes, ACC: c.acc_elem_bytes}.get(mem)
        if mem == ACC8:
            size = c.acc_elem_bytes // 4
        bits = {WGT: c.LOG_WGT_WIDTH, INP: c.LOG_INP_WIDTH, ACC: c.LOG_ACC_WIDTH, ACC8: 3, UOP: 5}[mem]
        memory = {UOP: self.uop, WGT: self.wgt, INP: self.inp, ACC: self.acc, ACC8: self.acc}[mem]
        counted = ACC if mem == ACC8 else mem
        full = c.acc_elem_bytes if mem == ACC8 else size
        self.bytes[counted] += row["x_size"] * row["y_size"] * full
        at = row["sram"]
        width = row["x_pad_0"] + row["x_size"] + row["x_pad_1"]
        height = row["y_pad_0"] + row["y_size"] + row["y_pad_1"]
        if self.mode == "fsim" and at + width * height > len(memory):
            raise Refused
        for y in range(-row["y_pad_0"], row["y_size"] + row["y_pad_1"]):
            for x in range(-row["x_pad_0"], row["x_size"] + row["x_pad_1"]):
                data = bytes(size)
                if 0 <= y < row["y_size"] and 0 <= x < row["x_size"]:
                    address = (row["dram"] + y * row["x_stride"] + x) * size
                    data = self.peek(address, size)
                    for k in range(size):
                        self.note("read", "DRAM", address + k)
                value = int.from_bytes(data, "little") if mem == UOP else lanes_of(data, 1 << bits)
                memory[at % len(memory)] = value
                self.note("write", {UOP: "UOP", WGT: "WGT", INP: "INP"}.get(mem, "ACC"), at % len(memory))
                at += 1

    def store(self, row):
        c = self.config
        self.bytes[OUT] += row["x_size"] * row["y_size"] * c.out_elem_bytes
        rows = row["y_size"]
        if rows == 0 and self.mode == "chisel":
            rows = 65536
        source = self.out if self.mode == "chisel" else self.acc
        for y in range(rows):
            for x in range(row["x_size"]):
                at = self.index(row["sram"] + y * row["x_size"] + x, len(source))
                address = (row["dram"] + y * row["x_stride"] + x) * c.out_elem_bytes
                self.poke(address, bytes_of(source[at], 1 << c.LOG_OUT_WIDTH))
                self.note("read", "OUT", at)
                for k in range(c.out_elem_bytes):
                    self.note("write", "DRAM", address + k)

    def fields(self, at):
        word = self.uop[self.index(at, len(self.uop))]
        found = []
        for width in uop_widths(self.config, self.mode):
            found.append(word & ((1 << width) - 1))
            word >>= width
        return found

    def gemm(self, row):
        c = self.config
        for o, i, u in loop(row, self.mode):
            a, n, w = self.fields(u)
            a = self.index(a + o * row["dst_out"] + i * row["dst_in"], c.acc_depth)
            self.note("write", "ACC", a)
            if row["reset"]:
                self.acc[a] = [0] * len(self.acc[a])
                continue
            self.gemm_counter += 1
            n = self.index(n + o * row["src_out"] + i * row["src_in"], c.inp_depth)
            w = self.index(w + o * row["wgt_out"] + i * row["wgt_in"], c.wgt_depth)
            self.note("read", "INP", n)
            self.note("read", "WGT", w)
            self.note("write", "OUT", a)
            for b in range(c.batch):
                for j in range(c.block_out):
                    total = self.acc[a][b * c.block_out + j]
                    for k in range(c.block_in):
                        total += self.inp[n][b * c.block_in + k] * self.wgt[w][j * c.block_in + k]
                    self.put(a, b * c.block_out + j, total)

    def put(self, element, lane, value):
        self.acc[element][lane] = signed(value, 1 << self.config.LOG_ACC_WIDTH)
        self.out[element][lane] = signed(value, 1 << self.config.LOG_OUT_WIDTH)

    def alu(self, row):
        c = self.config
        for o, i, u in loop(row, self.mode):
            self.alu_counter += 1
            d, s, top = self.fields(u)
            if self.mode == "chisel":
                s += top << 11
            d = self.index(d + o * row["dst_out"] + i * row["dst_in"], c.acc_depth)
            s = self.index(s + o * row["src_out"] + i * row["src_in"], c.acc_depth)
            self.note("write", "ACC", d)
            self.note("write", "OUT", d)
            for lane in range(c.batch * c.block_out):
                first = s if row["use_imm"] and self.mode == "chisel" else d
                x = self.acc[first][lane]
                y = row["imm"] if row["use_imm"] else self.acc[s][lane]
                self.put(d, lane, self.operate(row, x, y))

    def operate(self, row, x, y):
        op = row["alu_op"]
        if op == 0:
            return min(x, y)
        if op == 1:
            return max(x, y)
        if op == 2:
            return x + y
        if op == 4:
            return x * y
        if self.mode == "chisel":
            bits = 1 << self.config.LOG_ACC_WIDTH
            return x << (-y % bits) if row["imm"] < 0 else x >> (y % bits)
        return x >> (y % 32) if y >= 0 else x << (-y % 32)


def execute(table, config, segments, mode, seed=0, depth=None):
    """Run a program in a random order that its tokens allow; returns the machine."""
    machine = Machine(config, mode)
    for address, data in segments:
        machine.poke(address, data)
    rows = rows_of(table)
    order, _ = interleave(rows, random.Random(seed), depth)
    for index in order:
        machine.step(rows[index])
    return machine


def conflicts(table, config, segments, semantics):
    """Pairs (i, j), i < j, of instructions that share memory, one writing, and that nothing orders; with what."""
    mode = "fsim" if semantics == "fsim" else "chisel"
    machine = Machine(config, mode)
    for address, data in segments:
        machine.poke(address, data)
    rows = rows_of(table)
    order, edges = interleave(rows, random.Random(0))
    touched = {index: machine.step(rows[index]) for index in order}
    after = {index: set() for index in order}
    last = {}
    preds = {index: [] for index in order}
    for producer, consumer in edges:
        preds[consumer].append(producer)
    for index in order:
        engine = engine_of(rows[index])
        if engine in last:
            preds[index].append(last[engine])
        last[engine] = index
        for p in preds[index]:
            after[index] |= after[p] | {p}
    found = {}
    for a in order:
        for b in order:
            if a >= b or a in after[b] or b in after[a]:
                continue
            shared = set()
            for (kind, memory), elements in touched[a].items():
                for (other, where), others in touched[b].items():
                    same = memory == where or (semantics != "chisel" and {memory, where} == {"ACC", "OUT"})
                    if semantics == "fsim" and "OUT" in (memory, where) and memory == where:
                        continue
                    if not same or (kind == other == "read"):
                        continue
                    if {memory, where} == {"ACC", "OUT"}:
                        # A STORE that reads ACC against an engine that writes it.
                        reads = kind if memory == "OUT" else other
                        if reads != "read":
                            continue
                    shared |= {(where if where == memory else "ACC", e) for e in elements & others}
            if shared:
                found[(a, b)] = shared
    return found


# Programs for tests.


class Writer:
    """Builds a random program whose tokens order every conflict and nothing more.

    tame: begin with every memory filled, and avoid most of what implementations disagree on.
    """

    def __init__(self, config, mode, seed, size, tame=False):
        self.config, self.mode, self.rng, self.tame = config, mode, random.Random(seed), tame
        self.rows, self.touched = [], []
        self.shadow = Machine(config, mode)
        self.segments = []
        self.used = {}
        c = config
        self.base = {
            UOP: 0x10000, INP: 0x20000, WGT: 0x30000, ACC: 0x40000, OUT: 0x80000, ACC8: 0x50000,
        }  # fmt: skip
        for mem, unit in ((INP, c.inp_elem_bytes), (WGT, c.wgt_elem_bytes), (ACC, c.acc_elem_bytes), (ACC8, 64)):
            self.give(self.base[mem], self.rng.randbytes(64 * unit))
        widths = uop_widths(c, mode)
        depth = (c.acc_depth, min(c.acc_depth, c.inp_depth), c.wgt_depth)
        words = b""
        for _ in range(64):
            word, low = 0, 0
            for width, count in zip(widths, depth):
                reach = count if mode == "chisel" else max(1, count // 2)
                word |= self.rng.randrange(reach) << low
                low += width
            if tame:
                dst = word & ((1 << widths[0]) - 1) if words else 0
                wgt = word >> (widths[0] + widths[1])
                word = dst | dst << widths[0] | wgt << (widths[0] + widths[1])
            words += word.to_bytes(4, "little")
        self.give(self.base[UOP], words)
        self.emit(self.transfer(UOP, fill=True))
        if tame:
            for mem, count in ((INP, c.inp_depth), (WGT, c.wgt_depth), (ACC, c.acc_depth)):
                self.emit(self.transfer(UOP, fill=True) | {
                    "mem": mem, "x_size": count, "dram": self.base[mem] // {
                        INP: c.inp_elem_bytes, WGT: c.wgt_elem_bytes, ACC: c.acc_elem_bytes}[mem]})  # fmt: skip
            self.emit(self.refresh_out())
        for _ in range(size):
            row = self.random_row()
            self.emit(row)
            if tame and (row["mem"] == ACC or row["reset"]) and self.rng.random() < 0.5:
                self.emit(self.refresh_out())
        if tame:
            self.emit(self.transfer(OUT) | {"y_size": 1, "x_size": c.acc_depth, "sram": 0})
        self.close()

    def refresh_out(self):
        """ADD 0 to every element of ACC, which makes OUT equal to it."""
        loops = {"uop_end": 1, "iter_out": 1, "iter_in": self.config.acc_depth, "dst_in": 1, "src_in": 1}
        return dict.fromkeys(COLUMNS, 0) | {"opcode": ALU, "alu_op": 2, "use_imm": 1} | loops

    def give(self, address, data):
        self.segments.append((address, data))
        self.shadow.poke(address, data)

    def transfer(self, mem, fill=False):
        rng, c = self.rng, self.config
        unit = {UOP: 4, INP: c.inp_elem_bytes, WGT: c.wgt_elem_bytes, ACC: c.acc_elem_bytes}
        unit = unit | {OUT: c.out_elem_bytes, ACC8: c.acc_elem_bytes // 4}
        deep = {UOP: c.uop_capacity, INP: c.inp_depth, WGT: c.wgt_depth}.get(mem, c.acc_depth)
        row = dict.fromkeys(COLUMNS, 0) | {"opcode": STORE if mem == OUT else LOAD, "mem": mem}
        if fill:
            return row | {"dram": self.base[UOP] // 4, "y_size": 1, "x_size": min(deep, 64), "x_stride": 64}
        row |= {"y_size": rng.randint(1, 3), "x_size": rng.choice([0, 1, 2, 3, 4]), "x_stride": rng.randint(0, 6)}
        if mem != OUT and not (mem == UOP and self.mode == "chisel" and rng.random() < 0.5):
            row |= {k: rng.choice([0, 0, 1, 2]) for k in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
        if mem == OUT and row["x_stride"] < row["x_size"]:
            row["x_stride"] = row["x_size"]
        width = row["x_pad_0"] + row["x_size"] + row["x_pad_1"]
        height = row["y_pad_0"] + row["y_size"] + row["y_pad_1"]
        while self.mode == "fsim" and width * height > deep:
            row |= {"y_pad_0": 0, "y_pad_1": 0, "x_pad_0": 0, "x_pad_1": 0, "y_size": 1, "x_size": 1}
            width = height = 1
        top = deep - width * height if self.mode == "fsim" else deep - 1
        row["sram"] = rng.randint(0, max(top, 0))
        row["dram"] = self.base[mem] // unit[mem] + rng.randint(0, 40)
        if mem != OUT and rng.random() < 0.15:
            # Read back what a STORE may have written: a dependence through DRAM.
            row["dram"] = self.base[OUT] // unit[mem] + rng.randint(0, 8)
        if mem == UOP and self.tame:
            row |= {"y_size": 1, "sram": self.rng.randint(1, 20), "dram": self.base[UOP] // 4 + 1}
            return row | dict.fromkeys(("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"), 0)
        if mem == UOP:
            # Under chisel indices wrap, so any bytes are micro-ops: also those that a STORE wrote.
            stored = self.mode == "chisel" and rng.random() < 0.15
            row["dram"] = self.base[OUT if stored else UOP] // 4 + rng.randint(0, 40)
        return row

    def random_row(self):
        rng, c = self.rng, self.config
        kind = rng.choice(["inp", "inp", "wgt", "wgt", "acc", "uop", "gemm", "gemm", "alu", "alu", "store", "store"])
        if kind in ("inp", "wgt", "uop", "store"):
            return self.transfer({"inp": INP, "wgt": WGT, "uop": UOP, "store": OUT}[kind])
        if kind == "acc":
            able = self.mode == "fsim" and (c.LOG_ACC_WIDTH, c.LOG_INP_WIDTH) == (5, 3)
            eight = able and not self.tame and rng.random() < 0.4
            return self.transfer(ACC8 if eight else ACC)
        row = dict.fromkeys(COLUMNS, 0) | {"opcode": GEMM if kind == "gemm" else ALU}
        low = 0 if self.mode == "fsim" and not self.tame else 1
        top = min(c.uop_capacity, 16)
        begin = rng.randrange(top - 1)
        row |= {"uop_bgn": begin, "uop_end": rng.randint(begin + low, min(begin + 4, top))}
        row |= {"iter_out": rng.randint(low, 3), "iter_in": rng.randint(low, 3)}
        reach = 3 if self.mode == "chisel" else 1
        for name in ("dst_out", "dst_in", "src_out", "src_in"):
            row[name] = rng.randint(0, reach)
        if kind == "gemm":
            row |= {"wgt_out": rng.randint(0, reach), "wgt_in": rng.randint(0, reach), "reset": rng.random() < 0.2}
            return row
        operations = range(5) if self.mode == "fsim" else range(4)
        imm = rng.choice([rng.randint(-40, 40), rng.randint(-32768, 32767)])
        if self.tame and rng.random() < 0.95:
            row |= {"alu_op": rng.choice(range(4)), "use_imm": 1, "imm": rng.randint(-16, 15)}
            row |= {"src_out": row["dst_out"], "src_in": row["dst_in"]}
            if rng.random() < 0.4:
                row |= {"use_imm": 0, "alu_op": rng.choice(range(3)), "src_out": rng.randint(0, 1)}
            return row
        return row | {"alu_op": rng.choice(operations), "use_imm": rng.random() < 0.5, "imm": imm}

    def clashes(self, before, now):
        for (kind, memory), elements in before.items():
            for (other, where), others in now.items():
                if kind == other == "read":
                    continue
                pair = {memory, where}
                if (memory == where or pair == {"ACC", "OUT"}) and elements & others:
                    return True
        return False

    def emit(self, row):
        try:
            touched = self.shadow.step(row)
        except Refused:
            return
        engine = engine_of(row)
        need = {}
        for i, (old, was) in enumerate(zip(self.rows, self.touched)):
            if engine_of(old) != engine and self.clashes(was, touched):
                need[engine_of(old)] = i
        far = {"load": "store", "store": "load"}.get(engine)
        if far in need and need[far] > self.used.get((far, engine), -1):
            # Load and store are ordered through compute only: a no-op that waits for one and releases the other.
            self.used[(far, engine)] = need[far]
            self.place(dict.fromkeys(COLUMNS, 0), {}, {far: need[far]})
            need["compute"] = len(self.rows) - 1
        need.pop(far, None)
        self.place(row, touched, need)

    def place(self, row, touched, need):
        engine = engine_of(row)
        row = {name: int(value) for name, value in row.items()}
        for other, index in need.items():
            channel = (other, engine)
            if index <= self.used.get(("token", *channel), -1):
                continue
            self.used[("token", *channel)] = index
            forward = ("load", "compute", "store").index(other) < ("load", "compute", "store").index(engine)
            self.rows[index]["push_next" if forward else "push_prev"] = 1
            row["pop_prev" if forward else "pop_next"] = 1
        self.rows.append(row)
        self.touched.append(touched)

    def close(self):
        last = {}
        for i, row in enumerate(self.rows):
            last[engine_of(row)] = i
        last.pop("compute", None)
        self.place(dict.fromkeys(COLUMNS, 0) | {"opcode": FINISH}, {}, last)

    def table(self):
        return [[row[name] for name in COLUMNS] for row in self.rows]


# What implementations disagree on, element by element.


def element_findings(table, config, segments):
    """Set of (instruction, kind) by brute force, for the kinds that depend on expanded loops and on history."""
    machine = Machine(config, "chisel")
    for address, data in segments:
        machine.poke(address, data)
    rows = rows_of(table)
    order, _ = interleave(rows, random.Random(0))
    known = {"UOP": set(), "INP": set(), "WGT": set(), "ACC": set()}
    out_version, acc_version, version = {}, {}, 0
    found = set()
    for index in order:
        row = rows[index]
        steps = list(expand(machine, row, found, index)) if row["opcode"] in (GEMM, ALU) else []
        if row["opcode"] == STORE and row["x_size"]:
            count = (row["y_size"] or 65536) * row["x_size"]
            for k in range(count):
                at = (row["sram"] + k) % config.acc_depth
                if at not in acc_version or out_version.get(at) != acc_version[at]:
                    found.add((index, "stale-out"))
        touched = machine.step(row)
        if row["opcode"] == LOAD:
            for (kind, memory), elements in touched.items():
                if kind == "write":
                    known[memory] |= elements
                    if memory == "ACC":
                        for e in elements:
                            version += 1
                            acc_version[e] = version
        dsts = []
        for uop, d, s, w in steps:
            if uop not in known["UOP"]:
                found.add((index, "uninitialised"))
            last, earlier = dsts[-1:], dsts[-2:]
            version += 1
            acc_version[d] = version
            if row["opcode"] == GEMM and row["reset"]:
                known["ACC"].add(d)
                dsts.append(d)
                continue
            out_version[d] = version
            if row["opcode"] == GEMM:
                if s not in known["INP"] or w not in known["WGT"] or d not in known["ACC"]:
                    found.add((index, "uninitialised"))
                reads_hls, reads_rtl, late = {d}, set(), set()
            else:
                if s not in known["ACC"] or d not in known["ACC"]:
                    found.add((index, "uninitialised"))
                reads_hls = {d} if row["use_imm"] else {d, s}
                reads_rtl, late = ({s}, {d}) if row["use_imm"] else ({s}, set())
                if row["use_imm"] and s != d:
                    found.add((index, "imm-source"))
            if (reads_rtl | late) & set(last):
                found.add((index, "alu-hazard"))
            if reads_hls & set(earlier):
                found.add((index, "uop-distance"))
            known["ACC"].add(d)
            dsts.append(d)
    return found


def expand(machine, row, found, index):
    """(uop, dst, src, wgt) of every step, indices wrapped; wraps are noted."""
    c = machine.config
    for o, i, u in loop(row, "chisel"):
        a, n, w = machine.fields(u)
        a += o * row["dst_out"] + i * row["dst_in"]
        n += o * row["src_out"] + i * row["src_in"]
        w += o * row["wgt_out"] + i * row["wgt_in"]
        depth = c.inp_depth if row["opcode"] == GEMM else c.acc_depth
        used = [(u, c.uop_capacity), (a, c.acc_depth)]
        if row["opcode"] == ALU or not row["reset"]:
            used.append((n, depth))
        if row["opcode"] == GEMM and not row["reset"]:
            used.append((w, c.wgt_depth))
        if any(value >= limit for value, limit in used):
            found.add((index, "index-wrap"))
        yield u % c.uop_capacity, a % c.acc_depth, n % depth, w % c.wgt_depth
