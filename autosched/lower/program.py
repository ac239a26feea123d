"""From a scheduled function to a VTA program: the passes in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import LoweringError, ProgramError
from autosched.ir.host import HostSplit, split_host
from autosched.ir.interp import run, written
from autosched.ir.scopes import ACC, DRAM
from autosched.ir.stmt import Buffer, IRModule, PrimFunc
from autosched.lower import alike, chain, dma, ends, gemm, in_place, limits, normalise, order, parts, starts, tokens, tree, uops
from autosched.lower.affine import Ints
from autosched.lower.allocate import allocate
from autosched.lower.compute import Kernels, Step, join, lower_alu
from autosched.lower.dram import Dram, buffer_bytes, lives_of, place_buffers
from autosched.lower.elements import Elements, elements, whole_element
from autosched.lower.host_work import HostWork, run_stage
from autosched.lower.limits import check_instructions, check_work
from autosched.lower.nest import in_order
from autosched.lower.regions import shape_of
from autosched.lower.storage import Storage, lanes_of
from autosched.lower.tree import Site
from autosched.target import Target, get_target
from sim import isa, timing
from sim.config import INSN_BYTES, VTAConfig, mode_of
from sim.errors import FieldError
from sim.program import Output, Program, Segment

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class SiteInfo:
    """What one leaf of the program became.

    Args:
        block: its block.
        kind: ``load``, ``store``, ``gemm`` or ``alu``.
        buffer: what it writes.
        instructions: how many instructions it became.
    """

    block: str
    kind: str
    buffer: str
    instructions: int


@dataclass(frozen=True, slots=True)
class StorageInfo:
    """Where a buffer lives in SRAM.

    Args:
        buffer: its name.
        scope: its memory.
        address: first element.
        elements: elements of one copy.
        copies: copies (banks times virtual threads).
        extents: indices held per dimension.
        loops: names of the loops around its scope, outermost first.
        lives: how often it is filled anew: passes of those loops.
    """

    buffer: str
    scope: str
    address: int
    elements: int
    copies: int
    extents: tuple[int, ...]
    loops: tuple[str, ...]
    lives: int


@dataclass(frozen=True, eq=False)
class Lowered:
    """A lowered function, without any memory image.

    Args:
        name: the function's.
        target: what it is for.
        table: instructions, int64[n, NCOLS] (``sim.isa``).
        params: the function's tensors, in signature order.
        written: which of them the program writes.
        dram: addresses.
        triples: micro-ops, int64[n, 3], in DRAM order.
        zeros: bytes of zeros that padding reads.
        sites: what each leaf became, in program order.
        storages: where SRAM buffers live.
        func: the function, host stages and constants included.
        host: its parts on the host and on the accelerator; ``params`` and ``written`` are those of the latter.
    """

    name: str
    target: Target = field(repr=False)
    table: isa.Table = field(repr=False)
    params: tuple[Buffer, ...]
    written: tuple[Buffer, ...]
    dram: Dram = field(repr=False)
    triples: Ints = field(repr=False)
    zeros: int
    sites: tuple[SiteInfo, ...] = field(default=(), repr=False)
    storages: tuple[StorageInfo, ...] = field(default=(), repr=False)
    func: PrimFunc = field(kw_only=True, repr=False)
    host: HostSplit = field(kw_only=True, repr=False)

    @property
    def config(self) -> VTAConfig:
        """The machine."""
        return self.target.config

    @property
    def insn_address(self) -> int:
        """Byte address of the first instruction."""
        return self.dram.insns

    @cached_property
    def uop_words(self) -> npt.NDArray[np.uint32]:
        """The micro-ops as the machine reads them."""
        return isa.encode_uops(self.triples, self.config, self.target.semantics)

    def cycles(self, cap: int | None = None) -> int:
        """Cycles of a run by the event model; see ``sim.timing.cycles``."""
        from sim.timing import cycles

        return cycles(self.table, self.config, self.insn_address, cap=cap, semantics=self.target.mode)

    def program(
        self, inputs: Mapping[str, npt.ArrayLike] | None = None, expected: Mapping[str, npt.ArrayLike] | None = None,
        cycles: int | None = None,
    ) -> Program:
        """The program with its memory image.

        Args:
            inputs: arrays of the function's parameters by name, of their exact shape and dtype; pack stages run on them.
            expected: what written parameters must hold after a run, by name.
            cycles: a claimed count to carry along.

        Raises:
            ProgramError: an array that does not fit its parameter, or is of none.
        """
        memory = []
        known = {b.name: b for b in self.params}
        given = {name: np.asarray(array) for name, array in (inputs or {}).items()}
        for name, array in self.packed(given).items():
            buffer = known[name]
            memory.append(Segment(self.dram.buffers[buffer], _bytes_of(buffer, array)))
        for constant in self.host.device.constants:
            if constant.buffer in self.dram.buffers:
                memory.append(Segment(self.dram.buffers[constant.buffer], constant.data))
        if self.zeros:
            memory.append(Segment(self.dram.zeros, bytes(self.zeros)))
        if len(self.triples):
            memory.append(Segment(self.dram.uops, self.uop_words.astype("<u4").tobytes()))
        wanted = {n: _bytes_of(known[n], a) for n, a in self._stored(given, expected or {}).items()}
        outputs = tuple([
            Output(b.name, self.dram.buffers[b], buffer_bytes(b), wanted.get(b.name)) for b in self.written
        ])
        return Program(
            self.name, self.config, self.table, self.insn_address, tuple(memory), outputs, cycles, self.target.semantics
        )

    def packed(self, inputs: Mapping[str, Array], work: list[HostWork] | None = None) -> dict[str, Array]:
        """The arrays of a call as the accelerator takes them, by the names of ``params``.

        Args:
            inputs: arrays of the function's parameters by name; those of a pack stage all, or none of them.
            work: gets what each stage did.

        Raises:
            ProgramError: an array that does not fit its parameter, or is of none, or is missing.
        """
        named = {b.name: b for b in self.func.buffers}
        for name, array in inputs.items():
            _bytes_of(_parameter(named, name), array)
        if not self.host.pack:
            return dict(inputs)
        have = dict(inputs)
        for stage in self.host.pack:
            have.update(run_stage(stage, have, work))
        own = {b.name for b in self.params}
        return {n: a for n, a in have.items() if n in own}

    def unpacked(
        self, stored: Mapping[str, Array], inputs: Mapping[str, Array] | None = None, work: list[HostWork] | None = None
    ) -> dict[str, Array]:
        """What the function's written parameters hold, from what the accelerator has stored.

        Args:
            stored: the arrays of ``written``, by name.
            inputs: the arrays of the call, for stages that read parameters.
            work: gets what each stage did.
        """
        have = {**(inputs or {}), **stored}
        for stage in self.host.unpack:
            have.update(run_stage(stage, have, work))
        return {b.name: have[b.name] for b in written(self.func) if b.name in have}

    def stored_array(self, name: str, data: bytes) -> Array:
        """The bytes of one of ``written`` as an array."""
        buffer = next(b for b in self.written if b.name == name)
        dtype = np.dtype(buffer.dtype)
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape_of(buffer))

    def _stored(self, inputs: Mapping[str, Array], expected: Mapping[str, npt.ArrayLike]) -> dict[str, npt.ArrayLike]:
        """What the accelerator must store for the function's parameters to hold what is expected."""
        known = {b.name: b for b in self.func.buffers}
        for name in expected:
            _parameter(known, name)
        # Where the host makes a part of a result, the rest of it is not all that is expected.
        own = {b.name for b in self.written}
        whole = own - {b.name for stage in self.host.unpack for b in written(stage)}
        found = {n: a for n, a in expected.items() if n in whole}
        if len(found) == len(expected) or not inputs:
            return found
        # What an unpack stage makes of it is known; what goes into it, lanes nobody reads included, the program says.
        device, have = self.host.device, self.packed(inputs)
        outputs = written(device)
        results = run(device, *[have[b.name] for b in device.buffers if b not in outputs])
        return {**{b.name: results[k] for k, b in enumerate(outputs) if b.name in own}, **found}


def _parameter(known: Mapping[str, Buffer], name: str) -> Buffer:
    from autosched.errors import UnknownNameError

    if name not in known:
        raise UnknownNameError("parameter", name, known)
    return known[name]


def _bytes_of(buffer: Buffer, array: npt.ArrayLike) -> bytes:
    data = np.asarray(array)
    if data.shape != shape_of(buffer) or data.dtype != np.dtype(buffer.dtype):
        raise ProgramError(
            f"parameter {buffer.name} is {buffer.dtype}{list(shape_of(buffer))}, got {data.dtype}{list(data.shape)}"
        )
    return np.ascontiguousarray(data).astype(data.dtype.newbyteorder("<"), copy=False).tobytes()


def lower(func: PrimFunc | IRModule, target: str | Target = "vta-de10") -> Program:
    """A scheduled function as a VTA program, without contents of its parameters.

    Args:
        func: a scheduled program: copies between DRAM and the on-chip scopes, matrix products tensorized with the target's
            intrinsic, elementwise computations in the accumulator. A module of one function is that function.
        target: a target or its name.

    Returns:
        The program; ``lower_table(func, target).program(inputs)`` gives one with a memory image.

    Raises:
        LoweringError: the program has no equivalent on the target. Its ``kind`` is one of ``symbolic``, ``index``,
            ``statement``, ``extern`` (the program), ``scope``, ``dtype``, ``pattern``, ``pad``, ``alu``, ``element`` (the
            machine has no such operation), ``thread``, ``annotation`` (the schedule), ``capacity``, ``field``, ``tokens``
            (too large), ``empty``.
    """
    return lower_table(func, target).program()


def lower_table(func: PrimFunc | IRModule, target: str | Target = "vta-de10") -> Lowered:
    """``lower`` without building any memory image: instructions, micro-ops and addresses.

    Args:
        func: as for ``lower``.
        target: as for ``lower``.

    Raises:
        LoweringError: as for ``lower``.
    """
    machine = get_target(target)
    if isinstance(func, IRModule):
        if len(func.functions) != 1:
            raise ProgramError(f"a module of {len(func.functions)} functions ({', '.join(func.functions)}): lower one of them")
        func = next(iter(func.functions.values()))
    whole, host = func, split_host(func)
    func = host.device
    # HLS may run instances of one instruction together, and elsewhere than on the RTL it costs to go on somewhere else.
    slides, waits = machine.semantics == "chisel", machine.semantics != "chisel"
    while True:
        program = tree.build(func)
        try:
            return _lowered(program, machine, func, whole, host, slides, waits)
        except _InPlaceError as error:
            slides, waits = slides and error.apart, True
        finally:
            parts.put_back(program.parts)


class _InPlaceError(Exception):
    """What stands in a storage of its own, or in that of a larger operand, is in the way; without that there may be a program.

    Args:
        apart: whether something stands in a storage of its own so as not to wait.
    """

    def __init__(self, apart: bool) -> None:
        super().__init__(apart)
        self.apart = apart


def _lowered(
    program: tree.Tree, machine: Target, func: PrimFunc, whole: PrimFunc, host: HostSplit, slides: bool, waits: bool
) -> Lowered:
    config, semantics = machine.config, machine.semantics
    normalise.split_inits(program)
    normalise.unfuse(program, lambda site: _lanes(site, config))
    normalise.split_values(program)
    slid, apart = in_place.share_in_place(program, slides, waits)
    chain.protect_operands(program, semantics)
    normalise.refresh_stores(program)
    sites = program.index()
    if not sites:
        raise LoweringError("empty", f"{func.name} does nothing")
    try:
        storages = allocate(program, sites, machine)
    except LoweringError as error:
        if slid or apart:
            raise _InPlaceError(apart) from error
        raise
    emitter = _Emitter(func, program, sites, storages, config, semantics, machine.usable.uop)
    table, dram, triples, zeros = emitter.run()
    return Lowered(
        func.name, machine, table, func.buffers, emitter.written(), dram, triples, zeros, tuple(emitter.info),
        tuple([_describe(s) for s in storages.values()]), func=whole, host=host,
    )


def warm() -> None:
    """Compiles the kernels of this package, or loads them from numba's cache; to be called before workers start."""
    gemm.warm()
    uops.warm()
    dma.warm()
    tokens.warm()
    starts.warm()


def _describe(s: Storage) -> StorageInfo:
    names = tuple([loop.name for loop in s.path])
    return StorageInfo(s.buffer.name, s.buffer.scope, s.address, s.size, s.total // s.size, s.extents, names,
                       prod(loop.extent for loop in s.path))


def _lanes(site: Site, config: VTAConfig) -> int:
    """Lanes of the elements that a site works on."""
    if site.kind == "gemm":
        return config.batch * config.block_out
    scope = site.write.buffer.scope if site.kind != "store" else ACC
    return lanes_of(scope, config)


@dataclass(slots=True)
class _Emitter:
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
            stream, kept = starts.start_by_max(stream, self.config, self.declared(at))
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
        elems = elements(site, storages, _lanes(site, self.config))
        if site.kind != "alu":
            return self.copy(site, elems, key, self.dram_base(site, at))
        steps = chain.steps_of(site, elems, self.semantics)
        return self.chain(site, elems, steps, key) if steps else None

    def product(self, site: Site, storages: Mapping[Buffer, Storage], key: order.Key) -> dma.Rows | Kernels:
        places = [whole_element(a, storages, site.name) for a in (site.write, *site.reads)]
        asked = alike.question(site, site.inner, places, key)
        return self.answered(
            asked, (), [key.start, *[storages[a.buffer].address for a in (site.write, *site.reads)]],
            lambda: gemm.lower_gemm(site, places, key, self.config, self.semantics),
        )

    def chain(self, site: Site, elems: Elements, steps: Sequence[Step], key: order.Key) -> dma.Rows | Kernels:
        places = [elems.write, *[s.place for s in steps]]
        asked = alike.question(site, elems.loops, places, key)
        # Which operand stands in which column differs from step to step, so addresses are asked for, too.
        held = [p.storage.address for p in places if p is not None and p.storage is not None]
        rest = (*[(s.op, s.imm, s.moves) for s in steps], None, *held)
        return self.answered(
            asked, rest, [key.start], lambda: lower_alu(site, elems, steps, key, self.config, self.semantics)
        )

    def copy(self, site: Site, elems: Elements, key: order.Key, dram_base: int) -> dma.Rows | Kernels:
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
