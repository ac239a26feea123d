"""Where a schedule's cycles go: its loops, its buffers, its traffic, its engines, and what keeps it from the machine's bound.

All of it is read from the lowered program and its simulation, never from the estimates that chose it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from autosched.ir.expr import IntImm
from autosched.ir.stmt import Block, BlockRealize, For, SeqStmt, Stmt
from autosched.kernel import Kernel
from autosched.lower import Lowered
from autosched.measure import gap
from sim import isa, timing
from sim.stats import KINDS, Stats, kinds_of, summarize

# What would have to be freer for a cause of waiting to become smaller.
FREEDOM = {
    "gemm": "fewer or shorter GEMM instructions: each costs a few cycles beyond its products, and products with padding are work",
    "reset": "initial values: an accumulator that is reset less often, or by a cheaper instruction",
    "alu imm": "the epilogue: fewer element-wise operations per output, in fewer instructions",
    "alu tensor": "the epilogue: addends that need no tensor operation",
    "load": "what is loaded: words that the bound does without",
    "load uop": "micro-ops: fewer distinct ones, or fewer loads of them",
    "load again": "residency: a tensor crosses the bus more than once",
    "load latency": "transfers: fewer and longer ones, each waits for the memory; rows of whole bursts",
    "load contention": "the order of loads: the bus serves others first",
    "store": "stores: longer bursts",
    "wait fetch": "the number of instructions: fetching them holds the unit up",
    "wait token LOAD": "the first tiles: compute waits for data, at the start or where a bank is missing",
    "wait token COMPUTE": "banks: what is to be overwritten is still in use",
    "wait token STORE": "banks of the accumulator: results wait to be stored",
    "sync": "tokens: instructions that only synchronise",
    "idle": "the end: what is left to do after this unit's last instruction",
}


@dataclass(frozen=True)
class Traffic:
    """What crosses the bus for one tensor.

    Args:
        tensor: its name; ``uops`` and ``instructions`` are tensors too.
        memory: the SRAM at the other end.
        transfers: DMA instructions.
        bytes: moved.
        size: bytes of the tensor.
    """

    tensor: str
    memory: str
    transfers: int
    bytes: int
    size: int

    @property
    def times(self) -> float:
        """How often the tensor crosses the bus."""
        return self.bytes / self.size if self.size else 0.0


@dataclass(frozen=True)
class Held:
    """A buffer in SRAM.

    Args:
        buffer: its name.
        memory: its scope.
        elements: of one bank.
        banks: copies.
        bytes: of all banks.
        share: of the memory that all banks take, as a fraction.
        fills: how often it is filled anew.
        loops: the loops around it, outermost first.
    """

    buffer: str
    memory: str
    elements: int
    banks: int
    bytes: int
    share: float
    fills: int
    loops: tuple[str, ...]


@dataclass(frozen=True)
class Rest:
    """A part of the distance to the machine's bound.

    Args:
        cause: what the busiest unit does, or waits for; of loads the words that they move, and apart from them the ``latency`` of
            transfers, words that come ``again`` and ``contention`` with others on the bus; ``idle`` is what it is before its
            first and after its last instruction, and takes up what no term of the bound is held against.
        cycles: spent on it.
        needed: cycles of it that the bound holds necessary.
        freedom: what would have to be freer to save the difference.
    """

    cause: str
    cycles: int
    needed: int
    freedom: str


@dataclass(frozen=True)
class Account:
    """A schedule taken apart.

    Args:
        workload: its name.
        target: the machine's name.
        cycles: simulated.
        bound: the machine's lower bound, in cycles.
        binds: the chain of the bound that is longest: ``compute``, ``load``, ``bus`` or ``store``.
        terms: the bound's cycles by name.
        loops: the nest, a line each.
        held: its buffers.
        traffic: its transfers.
        stats: cycles by unit and cause.
        unit: the unit that has least to spare: cycles in which its loads wait for others on the bus are not its own.
        rest: the distance to the bound by cause, largest first; together it is ``cycles - bound``.
    """

    workload: str
    target: str
    cycles: int
    bound: int
    binds: str
    terms: dict[str, int]
    loops: tuple[str, ...]
    held: tuple[Held, ...]
    traffic: tuple[Traffic, ...]
    stats: Stats
    unit: str
    rest: tuple[Rest, ...]

    @property
    def gap(self) -> float | None:
        """Relative distance to the bound."""
        return gap(self.cycles, self.bound)

    def as_json(self) -> dict[str, Any]:
        """The account as plain JSON values."""
        return {
            "workload": self.workload, "target": self.target, "cycles": self.cycles, "bound": self.bound, "gap": self.gap,
            "binds": self.binds, "terms": self.terms, "loops": list(self.loops), "buffers": [asdict(h) for h in self.held],
            "traffic": [{**asdict(t), "times": t.times} for t in self.traffic], "unit": self.unit,
            "engines": self.stats.to_json(), "rest": [asdict(r) for r in self.rest],
        }


def account(kernel: Kernel) -> Account:
    """Takes a schedule apart.

    Args:
        kernel: the workload with its schedule.
    """
    from space import Space

    lowered = kernel.lowered
    ran = timing.simulate(lowered.table, lowered.config, lowered.insn_address, semantics=kernel.target.mode)
    stats = summarize(ran, kernel.target.mode)
    machine = Space(kernel.func, kernel.target).machine
    # What a load waits for others on the bus is theirs to spare.
    queued = np.bincount(ran.queue, np.maximum(ran.contention, 0), len(isa.QUEUE_NAMES))
    unit = isa.QUEUE_NAMES[int(np.argmax([stats.units[name].busy - queued[n] for n, name in enumerate(isa.QUEUE_NAMES)]))]
    traffic = tuple(_traffic(lowered))
    return Account(
        kernel.workload.name, kernel.target.name, stats.cycles, machine.cycles, machine.binds, dict(machine.terms),
        tuple(_loops(kernel)), tuple(_held(lowered)), traffic, stats, unit,
        _rest(ran, stats, unit, traffic, machine.cycles, machine.terms),
    )


def _rest(
    ran: timing.Timing, stats: Stats, unit: str, traffic: Sequence[Traffic], bound: int, terms: dict[str, int]
) -> tuple[Rest, ...]:
    """The busiest unit's time, and what the bound needs of it."""
    mine = stats.units[unit]
    needed: dict[str, int] = {"wait fetch": terms["start"]}
    if unit == "COMPUTE":
        # Initial values are reset, or made by the ALU where that is cheaper.
        first = "reset" if "reset" in mine.busy_by else "alu imm"
        needed |= {"gemm": terms["products"], "load uop": terms["uops"], "load acc": terms["addends"],
                   "alu imm": terms["stages"] + terms["instructions"]}
        needed[first] = needed.get(first, 0) + terms["initial"]
    elif unit == "LOAD":
        needed["load"] = terms["load chain"]
    else:
        needed["store"] = terms["store chain"]
    causes = [*mine.busy_by.items(), *mine.stalled_by.items()]
    parts = [part for cause, cycles in causes for part in _parts(ran, traffic, cause, cycles)]
    found: list[Rest] = []
    # One term of the bound stands for all that the load engine loads: for words first, then for latencies.
    rank = {"load": 0, "load latency": 1}
    for cause, cycles, freedom in sorted(parts, key=lambda part: rank.get(part[2], 2)):
        of = "load" if unit == "LOAD" and freedom.startswith("load") else cause.removesuffix(" latency")
        took = min(needed.get(of, 0), cycles)
        needed[of] = needed.get(of, 0) - took
        found.append(Rest(cause, cycles, took, FREEDOM.get(freedom, "")))
    # What the bound calls a product or a stage may have been made otherwise: as a comparison of two vectors, or by the GEMM.
    left = sum(needed.values()) - needed["wait fetch"] if unit == "COMPUTE" else 0
    for n, rest in enumerate(found):
        if rest.cause in ("gemm", "alu tensor", "alu imm"):
            more = min(left, rest.cycles - rest.needed)
            left -= more
            found[n] = replace(rest, needed=rest.needed + more)
    spent, known = sum(r.cycles for r in found), sum(r.needed for r in found)
    found.append(Rest("idle", stats.cycles - spent, bound - known, FREEDOM["idle"]))
    return tuple(sorted(found, key=lambda r: r.needed - r.cycles))


def _parts(ran: timing.Timing, traffic: Sequence[Traffic], cause: str, cycles: int) -> Iterator[tuple[str, int, str]]:
    """What a cause's cycles are made of: names, cycles, and whose freedom it is.

    Of loads: the words that have to come, the latencies of transfers, words that come again, and waiting for others on the bus.
    """
    if not cause.startswith("load") or cause == "load uop":
        yield cause, cycles, cause
        return
    own = kinds_of(ran.table) == KINDS.index(cause)
    rows = ran.table[own]
    columns = (rows[:, c] for c in (isa.MEM, isa.DRAM, isa.Y_SIZE, isa.X_SIZE, isa.X_STRIDE))
    words = min(cycles, int(timing.load_words(*columns, config=ran.config).sum()))
    memory = [t for t in traffic if cause == "load " + t.memory.lower().replace("_", " ")]
    again = min(words, sum(max(0, t.bytes - t.size) for t in memory) // ran.config.bus_bytes)
    contention = min(cycles - words, max(0, int(ran.contention[own].sum())))
    parts = [("", words - again), (" latency", cycles - words - contention), (" again", again), (" contention", contention)]
    for part, count in parts:
        if count:
            yield cause + part, count, "load" + part


def _held(lowered: Lowered) -> Iterator[Held]:
    memories = lowered.target.memories
    for s in lowered.storages:
        memory, elements = memories[s.scope], s.elements * s.copies
        yield Held(s.buffer, s.scope, s.elements, s.copies, elements * memory.element_bytes, elements / memory.elements, s.lives,
                   s.loops)


def _traffic(lowered: Lowered) -> Iterator[Traffic]:
    """Every DMA belongs to the tensor at whose address it begins."""
    c, table = lowered.config, lowered.table
    size_of = isa.element_bytes(c).tolist()
    starts = sorted((address, name) for name, address in lowered.dram.names.items())
    first = np.array([address for address, _ in starts])
    sizes = {b.name: _bytes(b.shape, b.dtype) for b in lowered.dram.buffers}
    sizes["uops"] = 4 * len(lowered.triples)
    sizes["insns"] = 16 * len(table)
    moved: dict[tuple[str, str], list[int]] = {}
    for row in table[np.isin(table[:, isa.OPCODE], (isa.OP_LOAD, isa.OP_STORE))]:
        size = size_of[int(row[isa.MEM])]
        elements = int(row[isa.X_SIZE] * row[isa.Y_SIZE])
        if not elements:
            continue
        name = starts[int(np.searchsorted(first, int(row[isa.DRAM]) * size, side="right")) - 1][1]
        found = moved.setdefault((name, isa.MEMORY_NAMES[int(row[isa.MEM])]), [0, 0])
        found[0] += 1
        found[1] += elements * size
    for (name, memory), (transfers, total) in moved.items():
        yield Traffic(name, memory, transfers, total, sizes.get(name, 0))
    yield Traffic("instructions", "FETCH", 0, 16 * len(table), 16 * len(table))


def _bytes(shape: tuple[Any, ...], dtype: str) -> int:
    return int(np.prod([e.value for e in shape])) * np.dtype(dtype).itemsize


def _loops(kernel: Kernel) -> Iterator[str]:
    """The nest: loops that stand directly in each other share a line; a block is named with what it became."""
    kinds = {site.block: site.kind for site in kernel.lowered.sites}
    yield from _lines(kernel.schedule.func.body, 0, kinds)


def _lines(stmt: Stmt, depth: int, kinds: dict[str, str]) -> Iterator[str]:
    loops: list[For] = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    long = [loop for loop in loops if not (isinstance(loop.extent, IntImm) and loop.extent.value == 1)]
    block = stmt.block if isinstance(stmt, BlockRealize) else stmt if isinstance(stmt, Block) else None
    work = None if block is None else _work(block)
    if block is not None and work is not None:
        shape = " x ".join(f"{loop.var.name} {_extent(loop)}" for loop in long)
        kind = kinds.get(work, "")
        yield "  " * depth + (f"{kind} " if kind else "") + block.name + (f": {shape}" if shape else "")
        return
    if long:
        yield "  " * depth + "for " + ", ".join(f"{loop.var.name} in {_extent(loop)}" for loop in long) + ":"
        depth += 1
    if isinstance(stmt, SeqStmt):
        for part in stmt.stmts:
            yield from _lines(part, depth, kinds)
    elif block is not None:
        yield from _lines(block.body, depth, kinds)


def _extent(loop: For) -> str:
    return str(loop.extent.value) if isinstance(loop.extent, IntImm) else "?"


def _work(block: Block) -> str | None:
    """The name under which lowering knows a block's own work; None for a block that holds loops over others."""
    body: Stmt = block.body
    while isinstance(body, For):
        if not (isinstance(body.extent, IntImm) and body.extent.value == 1):
            return block.name if _plain(body) else None
        body = body.body
    if isinstance(body, BlockRealize):
        return _work(body.block)
    return None if isinstance(body, SeqStmt) else block.name


def _plain(stmt: Stmt) -> bool:
    while isinstance(stmt, For):
        stmt = stmt.body
    return not isinstance(stmt, BlockRealize | SeqStmt)
