"""Placed sites as one stream of instructions, in order and with tokens, with its micro-ops and DRAM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autosched.errors import LoweringError
from autosched.ir.scopes import ACC, DRAM
from autosched.ir.stmt import Buffer, PrimFunc
from autosched.lower import alike, chain, dma, ends, gemm, limits, order, starts, tokens, tree, uops
from autosched.lower.affine import Ints
from autosched.lower.compute import Kernels, Step, join, lower_alu
from autosched.lower.dram import Dram, buffer_bytes, lives_of, place_buffers
from autosched.lower.elements import Elements, elements, whole_element
from autosched.lower.limits import check_instructions, check_work
from autosched.lower.lowered import SiteInfo
from autosched.lower.nest import in_order
from autosched.lower.storage import Storage, lanes_of
from autosched.lower.tree import Site
from sim import isa, timing
from sim.config import INSN_BYTES, VTAConfig, mode_of
from sim.errors import FieldError


def site_lanes(site: Site, config: VTAConfig) -> int:
    """Lanes of the elements that a site works on."""
    if site.kind == "gemm":
        return config.batch * config.block_out
    scope = site.write.buffer.scope if site.kind != "store" else ACC
    return lanes_of(scope, config)


@dataclass(slots=True)
class Emitter:
    """Turns sites into one ordered stream."""

    func: PrimFunc
    program: tree.Tree
    sites: list[Site]
    storages: dict[Buffer, Storage]
    config: VTAConfig
    semantics: str
    uop_capacity: int
    info: list[SiteInfo] = field(default_factory=list)

    def written(self) -> tuple[Buffer, ...]:
        """Parameters that the program writes."""
        stored = {s.write.buffer for s in self.sites if s.kind == "store"}
        return tuple([b for b in self.program.given if b in stored])

    def run(self) -> tuple[isa.Table, Dram, Ints, int]:
        """Instructions, where everything is in DRAM, micro-ops in the order of DRAM, and bytes of zeros that padding reads."""
        used = {a.buffer for s in self.sites for a, _ in s.accesses() if a.buffer.scope == DRAM}
        middle = [b for b in self.program.allocated if b.scope == DRAM and b in used]
        self.check_dram(used)
        pages, at = place_buffers(self.program.given, middle, lives_of(middle, self.sites, self.program))
        copies, kernels, leaders = self.emit(at)
        groups: list[dma.Rows | Kernels] = [*copies, *kernels]
        position, step, zero_rows = _keys(groups)
        zeros = base = 0
        if bool(zero_rows.any()):
            zeros = max(self.zero_bytes(rows.table[rows.zeros]) for rows in copies if rows.zeros is not None and rows.zeros.any())
            base = pages.take("zeros", zeros)
        check_instructions(len(position), self.program.root.name)
        sequence = in_order(position, step)
        micro, placed, where, kernel = self.place_uops(kernels, sequence)
        uop_base = pages.take("uops", self.config.uop_elem_bytes * len(micro.triples))
        # Rows go where they belong in the program, with room for the LOAD UOPs among them and the end behind.
        loads = uops.load_rows(placed, uop_base // self.config.uop_elem_bytes)
        spots = where[placed.before] if len(loads) > 1 else np.zeros(len(loads), dtype=np.int64)
        target = np.arange(len(sequence)) + np.searchsorted(spots, np.arange(len(sequence)), side="right")
        stream = tokens.Stream.empty(len(sequence) + len(loads), micro.triples)
        place = np.empty_like(target)
        place[sequence] = target
        end = 0
        for group in groups:
            begin, end = end, end + len(group.table)
            stream.table[place[begin:end]] = group.table
        if zeros:
            blank = place[zero_rows]
            stream.table[blank, isa.DRAM] = base // isa.element_bytes(self.config)[stream.table[blank, isa.MEM]]
        stream.table[spots + np.arange(len(loads))] = loads
        users = target[where]
        stream.table[users, isa.UOP_BGN] = placed.begin
        stream.table[users, isa.UOP_END] = placed.begin + micro.length[kernel]
        stream.uop_at[users] = micro.slot[kernel]
        self.check_fields(stream.table)
        check_work(stream.table, self.config, mode_of(self.semantics))
        leading = target[np.flatnonzero(np.isin(position[sequence], leaders))] if len(leaders) else leaders
        if self.semantics != "chisel":
            stream, kept = starts.start_by_extremum(stream, self.config, self.declared(at))
            leading = np.searchsorted(kept, leading)
        table = tokens.finish(stream, self.config, self.semantics, self.shared_dram(at), leading)
        check_instructions(len(table), self.program.root.name)
        insns = pages.take("insns", INSN_BYTES * len(table))
        if pages.next > 1 << 32:
            raise LoweringError("capacity", f"tensors and program need {pages.next} bytes of DRAM; addresses have 32 bits")
        dram = Dram(at, dict(pages.names), pages.names.get("zeros", 0), uop_base, insns)
        return table, dram, micro.triples, zeros

    def declared(self, at: Mapping[Buffer, int]) -> list[tuple[int, int, tuple[int, int]]]:
        """Where in DRAM what parameters with a declared range hold, and which; those that the program stores to are left out."""
        stored = {s.write.buffer for s in self.sites if s.kind == "store"}
        return [
            (at[p], buffer_bytes(p), bounds) for p, bounds in zip(self.func.params, self.func.value_ranges)
            if isinstance(p, Buffer) and p in at and p not in stored and p.dtype == "int32" and bounds is not None
        ]

    def check_dram(self, used: set[Buffer]) -> None:
        """Refuses parameters on chip, and elements that no DMA moves."""
        for buffer in self.program.given:
            if buffer.scope != DRAM:
                raise LoweringError("scope", f"parameter {buffer.name} is in {buffer.scope}; parameters live in DRAM")
        for buffer in used:
            if buffer.dtype not in ("int8", "int32"):
                raise LoweringError("dtype", f"{buffer.name} is {buffer.dtype}; VTA moves int8 and int32")

    def emit(self, at: Mapping[Buffer, int]) -> tuple[list[dma.Rows], list[Kernels], Ints]:
        """DMAs, kernels, and the places in program order of the loads that others wait for."""
        keys = order.keys(self.program)
        leaders: list[Ints] = [np.zeros(0, dtype=np.int64)]
        copies: list[dma.Rows] = []
        kernels: list[Kernels] = []
        cut = ends.ends_of(self.sites, self.storages)
        for whole in self.sites:
            count = 0
            for site, storages in ends.passes(whole, self.storages, cut):
                made = self.site(site, storages, keys[site.order], at)
                if made is None:
                    continue
                if dma.leads(site):
                    leaders.append(made.position)
                (kernels if isinstance(made, Kernels) else copies).append(made)  # type: ignore[arg-type]
                count += len(made.table)
            self.info.append(SiteInfo(whole.name, whole.kind, whole.write.buffer.name, count))
        return copies, kernels, np.concatenate(leaders)

    def site(
        self, site: Site, storages: Mapping[Buffer, Storage], key: order.Key, at: Mapping[Buffer, int]
    ) -> dma.Rows | Kernels | None:
        """The instructions of a site; None where it has none."""
        if site.kind == "gemm":
            return self.product(site, storages, key)
        elems = elements(site, storages, site_lanes(site, self.config))
        if site.kind != "alu":
            return self.copy(site, elems, key, self.dram_base(site, at))
        steps = chain.steps_of(site, elems, self.semantics)
        return self.chain(site, elems, steps, key) if steps else None

    def product(self, site: Site, storages: Mapping[Buffer, Storage], key: order.Key) -> dma.Rows | Kernels:
        """A site that multiplies: GEMMs."""
        places = [whole_element(a, storages, site.name) for a in (site.write, *site.reads)]
        asked = alike.question(site, site.inner, places, key)
        return self.answered(
            asked, (), [key.start, *[storages[a.buffer].address for a in (site.write, *site.reads)]],
            lambda: gemm.lower_gemm(site, places, key, self.config, self.semantics),
        )

    def chain(self, site: Site, elems: Elements, steps: Sequence[Step], key: order.Key) -> dma.Rows | Kernels:
        """A site that computes on the accumulator: ALU instructions, one after the other."""
        places = [elems.write, *[s.place for s in steps]]
        asked = alike.question(site, elems.loops, places, key)
        # Which operand stands in which column differs from step to step, so addresses are asked for, too.
        held = [p.storage.address for p in places if p is not None and p.storage is not None]
        rest = (*[(s.op, s.imm, s.moves) for s in steps], None, *held)
        return self.answered(
            asked, rest, [key.start], lambda: lower_alu(site, elems, steps, key, self.config, self.semantics)
        )

    def copy(self, site: Site, elems: Elements, key: order.Key, dram_base: int) -> dma.Rows | Kernels:
        """A site that copies, or fills: DMAs."""
        source = elems.reads[id(site.reads[0])] if site.reads else None
        asked = alike.question(site, elems.loops, [elems.write, source], key)
        sram = elems.write if site.kind == "load" else source
        assert sram is not None and sram.storage is not None
        return self.answered(
            asked, (dma.mode_of(site), dma.memory_type(site)), [key.start, sram.storage.address, dram_base],
            lambda: dma.lower_copy(site, elems, key, self.config, self.semantics, dram_base),
        )

    def answered(
        self, asked: tuple[alike.Question | None, alike.Weights], rest: tuple[object, ...], origin: Sequence[int],
        make: Callable[[], dma.Rows | Kernels],
    ) -> dma.Rows | Kernels:
        """What is made for a site, or was made for one that asked the same, moved to this one (``alike``)."""
        question, weights = asked
        whole = None if question is None else (self.config, self.semantics, limits.LIMITS, question, rest)
        return alike.answered(whole, tuple(origin), weights, make)

    def dram_base(self, site: Site, at: Mapping[Buffer, int]) -> int:
        """Address of a copy's DRAM buffer in elements of the memory type that moves it."""
        size = int(isa.element_bytes(self.config)[dma.memory_type(site)])
        if site.kind == "store":
            return at[site.write.buffer] // size
        return at[site.reads[0].buffer] // size if site.reads else 0

    def zero_bytes(self, rows: isa.Table) -> int:
        """Zeros that the widest padding DMA reads."""
        return int((rows[:, isa.X_SIZE] * isa.element_bytes(self.config)[rows[:, isa.MEM]]).max())

    def place_uops(self, kernels: Sequence[Kernels], sequence: Ints) -> tuple[uops.Uops, uops.Placement, Ints, Ints]:
        """Micro-ops, where they are when, and per use in program order: which of ``sequence`` it is, and its kernel."""
        none = np.zeros(0, dtype=np.int64)
        if not kernels:
            empty = uops.Uops(np.zeros((0, 3), dtype=np.int64), none, none)
            return empty, uops.Placement(none, none, none, none, none), none, none
        joined = join(kernels, tables=False)
        # Copies come first in the unsorted stack, kernels behind them.
        first = len(sequence) - len(joined.position)
        where = np.flatnonzero(sequence >= first)
        row = sequence[where] - first
        micro, kernel_of = uops.collect(joined, row)
        used = kernel_of[row]
        return micro, uops.place(micro, used, self.uop_capacity), where, used

    def shared_dram(self, at: Mapping[Buffer, int]) -> tuple[int, int] | None:
        """The DRAM that is both stored and loaded, as one range."""
        stored = {s.write.buffer for s in self.sites if s.kind == "store"}
        loaded = {r.buffer for s in self.sites if s.kind == "load" for r in s.reads}
        both = stored & loaded
        if not both:
            return None
        first = min(at[b] for b in both)
        return first, max(at[b] + buffer_bytes(b) for b in both) - first

    def check_fields(self, table: isa.Table) -> None:
        """Refuses what the instruction's fields cannot hold."""
        try:
            timing.check_fields(table, self.config, self.semantics)
        except FieldError as error:
            reason = f"instruction {error.index}: {error.field} = {error.value} does not fit its field"
            raise LoweringError("field", reason) from None


def _keys(groups: Sequence[dma.Rows | Kernels]) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Of the rows of all groups: their keys in the program's order, their steps, and which of them read the page of zeros."""
    position, step = np.concatenate([g.position for g in groups]), np.concatenate([g.step for g in groups])
    marks = [g.zeros if isinstance(g, dma.Rows) else None for g in groups]
    if all(zeros is None for zeros in marks):
        return position, step, np.zeros(len(position), dtype=bool)
    zero = np.concatenate([np.zeros(len(g.table), dtype=bool) if zeros is None else zeros for g, zeros in zip(groups, marks)])
    return position, step, zero
