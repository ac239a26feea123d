"""A lowered function: its instructions and addresses, and the program with a memory image that inputs make of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import ProgramError
from autosched.ir.host import HostSplit
from autosched.ir.interp import run, written
from autosched.ir.stmt import Buffer, PrimFunc
from autosched.lower.affine import Ints
from autosched.lower.dram import Dram, buffer_bytes
from autosched.lower.host_work import HostWork, run_stage
from autosched.lower.regions import shape_of
from autosched.target import Target
from sim import isa
from sim.config import VTAConfig
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
