"""The compiled thing: called with arrays it computes on the simulated machine, bit by bit; saved, it can be had again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from autosched.arguments import writable
from autosched.errors import BadArgumentError, ProgramError, UnknownNameError
from autosched.ir.interp import written
from autosched.ir.stmt import Buffer, PrimFunc
from autosched.lower import HostWork, Lowered, lower_table
from autosched.schedule import Schedule, Trace
from autosched.target import Target, get_target
from autosched.workloads import Layout, Workload, of_func, workload
from sim.files import write_text
from sim.markup import number, table, text
from sim.program import Program

Array = np.ndarray[Any, Any]
TraceLike = Trace | Sequence[Mapping[str, Any]] | str
FORMAT = "autosched-kernel-1"


@dataclass(frozen=True, eq=False)
class Kernel:
    """A workload with a schedule, lowered for a target; call it with arrays.

    Args:
        workload: what it computes.
        target: the machine.
        schedule: the program with its schedule applied.
        lowered: its instructions, micro-ops and addresses.
    """

    workload: Workload
    target: Target
    schedule: Schedule
    lowered: Lowered = field(repr=False)

    @cached_property
    def cycles(self) -> int:
        """Cycles of one run, as the hardware's counter would give them; host packing is not in them."""
        return self.lowered.cycles()

    @cached_property
    def program(self) -> Program:
        """The VTA program without contents of its parameters; ``program.disassemble()`` is its text."""
        return self.lowered.program(cycles=self.cycles)

    def _repr_html_(self) -> str:
        """What it is and what it takes and gives, for notebooks."""
        said = f"{text(self.workload.name)} on {text(self.target.name)}: {number(self.cycles)} cycles, "
        rows = [(b.name, b.dtype, " x ".join(map(str, b.shape)), "written" if b in self.lowered.written else "read")
                for b in self.lowered.params]
        return f"<p>{said}{number(len(self.lowered.table))} instructions</p>" + table(["tensor", "dtype", "shape", "is"], rows)

    @property
    def func(self) -> PrimFunc:
        """The unscheduled program."""
        return self.workload.func

    @cached_property
    def hash(self) -> str:
        """SHA-256 of what decides bytes and cycles: instructions, micro-ops, their addresses, and the machine."""
        return program_hash(self.lowered)

    @cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        """The parameters that a call takes, in order."""
        outputs = set(written(self.func))
        return tuple(b for b in self.func.buffers if b not in outputs)

    def __call__(self, *arrays: Array, **named: Array) -> Array | tuple[Array, ...]:
        """Runs the program on the simulated machine.

        Args:
            arrays: one array per input, in signature order, packed or plain (the rank tells); dtypes exact.
            named: the same by parameter name.

        Returns:
            The output in the layout of the first input; a tuple where there are several outputs.

        Raises:
            ProgramError: a missing or superfluous argument, a wrong shape or dtype, or a value outside the declared
                range.
            SimError: the machine cannot run the program.
        """
        packed, was_packed = self.pack(*arrays, **named)
        results = []
        for name, array in self._run(packed).items():
            layout = self._parameter(name)[1]
            results.append(array if was_packed or layout is None else layout.unpack(array))
        return results[0] if len(results) == 1 else tuple(results)

    def host_work(self, *arrays: Array, **named: Array) -> tuple[HostWork, ...]:
        """What the host does around one run, stage by stage: bytes and milliseconds, measured on these arguments.

        Args:
            arrays: as for a call.
            named: as for a call.

        Raises:
            ProgramError, SimError: as for a call.
        """
        work: list[HostWork] = []
        self._run(self.pack(*arrays, **named)[0], work)
        return tuple(work)

    def _run(self, packed: Mapping[str, Array], work: list[HostWork] | None = None) -> dict[str, Array]:
        """The function's results by name, in signature order."""
        from sim.semantics import execute

        low = self.lowered
        program = low.program(packed)
        ran = execute(program, self.target.mode)
        stored = {out.name: low.stored_array(out.name, ran.read(out.address, out.size)) for out in program.outputs}
        if work is not None:
            low.packed(packed, work)
        return low.unpacked(stored, packed, work)

    def pack(self, *arrays: Array, **named: Array) -> tuple[dict[str, Array], bool]:
        """The arguments of a call checked and packed, by parameter name, and whether the first one was packed already.

        Raises:
            ProgramError: as for a call.
        """
        given = dict(zip((b.name for b in self.inputs), arrays))
        names = ", ".join(b.name for b in self.inputs)
        if len(arrays) > len(self.inputs):
            raise ProgramError(f"{self.workload.name} takes {len(self.inputs)} arrays ({names}), {len(arrays)} given")
        for name, array in named.items():
            if name not in {b.name for b in self.inputs}:
                raise UnknownNameError(f"parameter of {self.workload.name}", name, [b.name for b in self.inputs])
            if name in given:
                raise ProgramError(f"{self.workload.name}: {name} is given twice")
            given[name] = array
        missing = [b.name for b in self.inputs if b.name not in given]
        if missing:
            raise ProgramError(f"{self.workload.name} takes {names}; {', '.join(missing)} missing")
        packed: dict[str, Array] = {}
        first = True
        for k, buffer in enumerate(self.inputs):
            try:
                array = np.asarray(given[buffer.name])
            except ValueError:
                # Rows of different lengths.
                raise ProgramError(f"{buffer.name}: expected {buffer.dtype}, got lists that are no array") from None
            packed[buffer.name], whole = self._accept(buffer, array)
            first = whole if k == 0 else first
        return packed, first

    def _accept(self, buffer: Buffer, array: Array) -> tuple[Array, bool]:
        buffer, layout = self._parameter(buffer.name)
        if array.dtype != np.dtype(buffer.dtype):
            raise ProgramError(f"{buffer.name}: expected {buffer.dtype}, got {array.dtype}")
        k = self.func.params.index(buffer)
        bounds = self.func.value_ranges[k] if k < len(self.func.value_ranges) else None
        if bounds is not None and array.size and (int(array.min()) < bounds[0] or int(array.max()) > bounds[1]):
            worst = int(array.min()) if int(array.min()) < bounds[0] else int(array.max())
            raise ProgramError(f"{buffer.name}: value {worst} is outside its declared range {bounds[0]}..{bounds[1]}")
        if layout is not None:
            return layout.accept(buffer.name, array)
        shape = tuple(int(e.value) for e in buffer.shape)  # type: ignore[attr-defined]
        if array.shape != shape:
            raise ProgramError(f"{buffer.name}: expected shape {shape}, got {array.shape}")
        return array, True

    def _parameter(self, name: str) -> tuple[Buffer, Layout | None]:
        tensors = self.func.buffers
        k = next(i for i, b in enumerate(tensors) if b.name == name)
        return tensors[k], self.workload.layouts[k] if k < len(self.workload.layouts) else None

    def save(self, path: str | Path) -> None:
        """Writes the kernel to a JSON file that ``load`` reads.

        Args:
            path: file to write; it appears whole or not at all.

        Raises:
            ProgramError: no file can be written there.
        """
        writable(path)
        w = self.workload
        data = {
            "format": FORMAT,
            "workload": {
                "name": w.name, "recipe": w.recipe, "key": w.key, "script": w.func.script(),
            },
            "target": {"name": self.target.name, "semantics": self.target.semantics, "config": self.target.config.to_json()},
            "trace": self.schedule.trace.as_json(),
            "cycles": self.cycles,
            "program": self.hash,
        }
        write_text(path, json.dumps(data, indent=1) + "\n")

    @staticmethod
    def load(path: str | Path) -> Kernel:
        """A kernel that ``save`` wrote, lowered again by this version.

        Args:
            path: file to read. A warning tells where this version's program differs from the saved one's.

        Raises:
            ProgramError: not such a file, or it is damaged.
            ScheduleError, LoweringError: this version refuses the schedule.
        """
        from autosched.kernel.stored import load

        return load(Path(path))


def scheduled(func: PrimFunc, trace: TraceLike, level: str = "detail", check: bool = True) -> PrimFunc:
    """The program of ``replay``, in less time."""
    return replay(func, trace, level, check, traced=False).func


def replay(
    func: PrimFunc, trace: TraceLike, level: str = "detail", check: bool = True, traced: bool = True
) -> Schedule:
    """A program with a trace applied.

    Args:
        func: the unscheduled program.
        trace: a trace, its JSON objects, or their text.
        level: how much a refusal shows (``error_render_level`` of ``Schedule``).
        check: whether every step is checked in full (``enable_check`` of ``Schedule``).
        traced: whether the schedule's own trace is wanted, too (``Trace.apply_to_schedule``).

    Raises:
        ScheduleError: a step does not fit the program.
        ProgramError: not a trace, or one of another program.
    """
    sch = Schedule(func, seed=0, error_render_level=level, enable_check=check)
    try:
        if isinstance(trace, Trace) or traced:
            steps = trace if isinstance(trace, Trace) else Trace.from_json(trace)
            steps.apply_to_schedule(sch, traced=traced)
        else:
            Trace.program_of_json(trace, sch)
    except ValueError as error:
        raise ProgramError("; ".join([str(error), *getattr(error, "__notes__", [])])) from error
    return sch


def build(task: Workload | PrimFunc | str, target: str | Target, trace: TraceLike) -> Kernel:
    """A workload, scheduled by a trace and lowered.

    Args:
        task: the workload, its name, or a program.
        target: the machine.
        trace: a trace, its JSON objects, or their text.

    Raises:
        ScheduleError: a step does not fit the program.
        LoweringError: the scheduled program has no equivalent on the target.
        UnknownNameError: an unknown workload or target.
        ProgramError: not a trace, or one of another program.
    """
    machine = get_target(target)
    task = resolve(task, machine)
    return of_schedule(task, machine, replay(task.func, trace))


def of_schedule(task: Workload | PrimFunc | str, target: str | Target, schedule: Schedule) -> Kernel:
    """A workload with a schedule that was made by hand.

    Args:
        task: the workload, its name, or a program.
        target: the machine.
        schedule: of the workload's program.

    Raises:
        LoweringError: the scheduled program has no equivalent on the target.
    """
    machine = get_target(target)
    return Kernel(resolve(task, machine), machine, schedule, lower_table(schedule.func, machine))


def resolve(task: Workload | PrimFunc | str, target: Target) -> Workload:
    """A workload of its name, packed for a target, or of a program; itself if it is one.

    Raises:
        BadArgumentError: something else was given.
    """
    if isinstance(task, str):
        return workload(task, target.config.batch, target.config.block_in)
    if isinstance(task, PrimFunc):
        return of_func(task)
    if not isinstance(task, Workload):
        raise BadArgumentError("the workload", repr(task), "a name, a Workload or a PrimFunc")
    return task


@lru_cache(maxsize=64)
def _key_of(target: Target) -> bytes:
    return target.key().encode()


def program_hash(lowered: Lowered) -> str:
    """SHA-256 of what decides bytes and cycles of a lowered program, in hex."""
    digest = hashlib.sha256(_key_of(lowered.target))
    digest.update(lowered.insn_address.to_bytes(8, "little"))
    digest.update(np.ascontiguousarray(lowered.table, dtype="<i8").reshape(-1).data)
    digest.update(np.ascontiguousarray(lowered.triples, dtype="<i8").reshape(-1).data)
    for constant in lowered.host.device.constants:
        digest.update(lowered.dram.buffers[constant.buffer].to_bytes(8, "little"))
        digest.update(constant.data)
    return digest.hexdigest()
