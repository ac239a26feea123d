"""Programs and the JSON files that hold them.

A file is ``{"config", "programs": [{"name", "insns", "cycles"?, "delay"?, "insn_address"?, "memory"?,
"outputs"?}]}``: instructions as 32 hex digits, most significant first, bytes as base64. ``config`` is a preset's
name or an object of configuration keys (and optionally "semantics"); any other string is a remark. The caller's configuration
counts, where it is given: it may differ from the file's in what decides cycles only.
"""

from __future__ import annotations

import base64
import binascii
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sim import isa
from sim.config import INSN_BYTES, SEMANTICS, VTAConfig, mode_of
from sim.costs import INSN_ADDRESS
from sim.dram import SPACE, Segment
from sim.encoding import encoding_of
from sim.errors import ConfigError, DecodeError, FieldError, ProgramError, SimError, clipped
from sim.files import read_bytes, write_text
from sim.legality import check_semantics
from sim.markup import printable
from sim.presets import TARGETS, target_spec

__all__ = ["Output", "Program", "Segment", "dump_file", "dumps", "load_file", "loads"]

DEFAULT_TARGET = "vta-de10"
MAX_OUTPUT_BYTES = 1 << 28

_FILE_KEYS = ("config", "programs")
_PROGRAM_KEYS = ("name", "insns", "cycles", "delay", "insn_address", "memory", "outputs")
_SEGMENT_KEYS = ("address", "bytes")
_OUTPUT_KEYS = ("name", "address", "size", "expected")


@dataclass(frozen=True)
class Output:
    """A named range of DRAM after a run: ``size`` bytes from ``address``; ``expected`` if they are known."""

    name: str
    address: int
    size: int
    expected: bytes | None = None

    def __post_init__(self) -> None:
        if self.address < 0 or self.size < 0 or self.address + self.size > SPACE:
            raise ProgramError(
                f"output '{self.name}'", f"{self.size} bytes at {self.address:#x} are outside the 32-bit address space"
            )
        if self.expected is not None and len(self.expected) != self.size:
            raise ProgramError(f"output '{self.name}'", f"{len(self.expected)} expected bytes, but size {self.size}")


@dataclass(frozen=True, eq=False)
class Program:
    """A program for one machine, with its memory image.

    table: instructions, int64[n, NCOLS] (sim.isa). insn_address: where fetch reads them (byte address).
    memory: DRAM before the run. outputs: what a run is to produce. cycles: the count that is claimed, if any.
    semantics: the implementation it is for: chisel, fsim or portable.
    """

    name: str
    config: VTAConfig
    table: isa.Table
    insn_address: int = INSN_ADDRESS
    memory: tuple[Segment, ...] = ()
    outputs: tuple[Output, ...] = ()
    cycles: int | None = None
    semantics: str = "chisel"

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", isa.as_table(self.table))
        end = self.insn_address + INSN_BYTES * len(self.table)
        if self.insn_address < 0 or self.insn_address % 8 or end > SPACE:
            raise ProgramError(
                f"program '{self.name}'", f"insn_address {self.insn_address}: not 8-byte aligned in a 32-bit space"
            )
        total = sum(o.size for o in self.outputs)
        if total > MAX_OUTPUT_BYTES:
            raise ProgramError(f"program '{self.name}'", f"outputs have {total} bytes, more than {MAX_OUTPUT_BYTES}")
        names = [o.name for o in self.outputs]
        twice = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
        if twice:
            raise ProgramError(f"program '{self.name}'", f"two outputs are called '{clipped(twice[0])}'")

    def with_memory(self, memory: Iterable[Segment] | Mapping[int, bytes]) -> Program:
        """Return the program with segments (or bytes by address) laid over its memory."""
        more = tuple(Segment(a, bytes(d)) for a, d in memory.items()) if isinstance(memory, Mapping) else tuple(memory)
        return replace(self, memory=(*self.memory, *more))

    def disassemble(self, sram: bool = False) -> str:
        """Return the instructions as assembler text.

        sram: with a comment at each instruction: the SRAM elements that it touches, those of its micro-ops included.
        """
        from sim import asm

        text: str = asm.disassemble(self.table, self.config, self.semantics)
        if not sram:
            return text
        from sim.operands import operands

        lines = zip(text.splitlines(), operands(self))
        return "".join([f"{line}  # {remark}\n" if remark else f"{line}\n" for line, remark in lines])


class _Reader:
    """Typed access to parsed JSON; every refusal names the file, the program and the field."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.unknown: list[str] = []

    def fail(self, where: str, reason: str) -> ProgramError:
        return ProgramError(f"{self.source}: {where}" if where else self.source, reason)

    def mapping(self, value: object, where: str, known: Sequence[str]) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(where, f"must be an object, not {_kind(value)}")
        self.unknown += [f"{where}.{key}" if where else key for key in value if key not in known]
        return value

    def items(self, value: object, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise self.fail(where, f"must be a list, not {_kind(value)}")
        return value

    def integer(self, value: object, where: str, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(where, f"must be an integer, not {_kind(value)}")
        if not low <= value <= high:
            raise self.fail(where, f"{clipped(str(value))} is outside {low}..{high}")
        return value

    def text(self, value: object, where: str) -> str:
        if not isinstance(value, str):
            raise self.fail(where, f"must be a string, not {_kind(value)}")
        return value

    def name(self, value: object, where: str) -> str:
        found = self.text(value, where)
        if not found.isprintable():
            # Names go to terminals and tables, one line each.
            raise self.fail(where, f"must be printable text, not {clipped(repr(found))}")
        return found

    def data(self, value: object, where: str) -> bytes:
        try:
            return base64.b64decode(self.text(value, where), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.fail(where, f"not base64: {error}") from None


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _config(reader: _Reader, value: object, config: VTAConfig | None, asked: str | None) -> tuple[VTAConfig, str]:
    """The configuration that a file's programs run on, and their semantics; a remark leaves both to the caller.

    The caller's machine also counts for a file that names its own, where that decides nothing but when things happen.
    """
    own = _own(reader, value, config, asked)
    if own is not None:
        return own if config is None else (config, _moved(reader, *own, config, asked))
    default = target_spec(DEFAULT_TARGET)
    if config is None:
        return default.config, default.semantics
    if asked is not None:
        return config, asked
    match = [spec.semantics for spec in TARGETS.values() if spec.config == config]
    return config, match[0] if match else default.semantics


def _own(reader: _Reader, value: object, config: VTAConfig | None, asked: str | None) -> tuple[VTAConfig, str] | None:
    """The machine that a file names and its semantics: the caller's, where it names none of these and the caller's machine."""
    if isinstance(value, dict):
        semantics = value.get("semantics")
        if semantics is not None and semantics not in SEMANTICS:
            raise reader.fail("config.semantics", f"{clipped(repr(semantics))} is none of {', '.join(SEMANTICS)}")
        try:
            found = VTAConfig.from_json({k: v for k, v in value.items() if k != "semantics"})
        except (ConfigError, TypeError) as error:
            raise reader.fail("config", str(error).removeprefix("config: ")) from None
        chosen = semantics or (asked if asked and found == config else _semantics_of(found))
        try:
            check_semantics(found, chosen)
        except ConfigError as error:
            raise reader.fail("config", str(error).removeprefix("config: ")) from None
        return found, chosen
    if isinstance(value, str) and value in TARGETS:
        return TARGETS[value].config, TARGETS[value].semantics
    if value is not None and not isinstance(value, str):
        raise reader.fail("config", f"must be a preset's name, a remark or an object, not {_kind(value)}")
    return None


def _moved(reader: _Reader, own: VTAConfig, semantics: str, config: VTAConfig, asked: str | None) -> str:
    """The semantics of programs that were written for one machine and run on another, which reads and holds the same."""
    sizes = [f.name for f in fields(own) if f.name.startswith("LOG_")]
    other = next((name for name in sizes if getattr(own, name) != getattr(config, name)), None)
    if other is not None:
        reason = f"its programs are for {other} {getattr(own, other)}, the machine asked for has {getattr(config, other)}"
    elif config.uop_capacity < own.uop_capacity:
        reason = f"its programs may hold {own.uop_capacity} micro-ops, the machine asked for {config.uop_capacity}"
    elif encoding_of(own, semantics) != encoding_of(config, asked or semantics):
        reason = f"its instructions are laid out as {mode_of(semantics)} has them, not as {mode_of(asked or semantics)} does"
    else:
        return asked or semantics
    raise reader.fail("config", f"{reason}; they run on a machine of their own sizes only")


def _semantics_of(config: VTAConfig) -> str:
    """What a machine without a name is taken for: the RTL, unless its batch is more than the RTL has."""
    return "chisel" if config.batch == 1 else "fsim"


def _program(reader: _Reader, value: object, number: int, config: VTAConfig, semantics: str) -> Program:
    where = f"programs[{number}]"
    entry = reader.mapping(value, where, _PROGRAM_KEYS)
    name = reader.name(entry.get("name", where), f"{where}.name")
    where = f"program '{clipped(name)}'"
    if "insns" not in entry:
        raise reader.fail(f"{where}: insns", "missing")
    lines = reader.items(entry["insns"], f"{where}: insns")
    if not lines:
        raise reader.fail(f"{where}: insns", "empty: a program ends with FINISH")
    if entry.get("delay") is not None:
        delay = reader.integer(entry["delay"], f"{where}: delay", 1, 100_000)
        config = replace(config, read_delay=delay)
    try:
        table = isa.decode(isa.from_hex(lines), config, semantics)
    except (DecodeError, FieldError) as error:
        raise reader.fail(f"{where}: insns", _clip_reason(str(error))) from None
    address = reader.integer(entry.get("insn_address", INSN_ADDRESS), f"{where}: insn_address", 0, SPACE - INSN_BYTES)
    cycles = entry.get("cycles")
    if cycles is not None:
        cycles = reader.integer(cycles, f"{where}: cycles", 0, 1 << 62)
    memory = tuple(
        _segment(reader, item, f"{where}: memory[{i}]")
        for i, item in enumerate(reader.items(entry.get("memory", []), f"{where}: memory"))
    )
    outputs = tuple(
        _output(reader, item, f"{where}: outputs[{i}]")
        for i, item in enumerate(reader.items(entry.get("outputs", []), f"{where}: outputs"))
    )
    try:
        return Program(name, config, table, address, memory, outputs, cycles, semantics)
    except ProgramError as error:
        raise reader.fail(where, error.reason) from None


def _clip_reason(text: str) -> str:
    return text if len(text) <= 160 else text[:157] + "..."


def _segment(reader: _Reader, value: object, where: str) -> Segment:
    entry = reader.mapping(value, where, _SEGMENT_KEYS)
    for key in _SEGMENT_KEYS:
        if key not in entry:
            raise reader.fail(f"{where}.{key}", "missing")
    address = reader.integer(entry["address"], f"{where}.address", 0, SPACE - 1)
    data = reader.data(entry["bytes"], f"{where}.bytes")
    if address + len(data) > SPACE:
        raise reader.fail(where, f"{len(data)} bytes at {address:#x} run past the 32-bit address space")
    return Segment(address, data)


def _output(reader: _Reader, value: object, where: str) -> Output:
    entry = reader.mapping(value, where, _OUTPUT_KEYS)
    for key in ("address", "size"):
        if key not in entry:
            raise reader.fail(f"{where}.{key}", "missing")
    name = reader.name(entry.get("name", "OUT"), f"{where}.name")
    address = reader.integer(entry["address"], f"{where}.address", 0, SPACE - 1)
    size = reader.integer(entry["size"], f"{where}.size", 0, SPACE - address)
    expected = None if entry.get("expected") is None else reader.data(entry["expected"], f"{where}.expected")
    if expected is not None and len(expected) != size:
        raise reader.fail(f"{where}.expected", f"{len(expected)} bytes, but size says {size}")
    return Output(name, address, size, expected)


def loads(
    text: str, source: str = "program", config: VTAConfig | None = None, semantics: str | None = None
) -> list[Program]:
    """Read the programs of a JSON text; ``source`` names it in messages.

    config, semantics: the machine that the programs run on, and what they are for there; without them those that the file names
    (default vta-de10).
    Unknown fields are named in one warning.
    Raises ProgramError that says file, program and field; of a file for a machine of other sizes, too.
    """
    reader = _Reader(source)
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise reader.fail("", f"not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise reader.fail("", "not readable JSON: nested too deep") from None
    except ValueError as error:
        raise reader.fail("", f"not readable JSON: {_clip_reason(str(error))}") from None
    top = reader.mapping(parsed, "", _FILE_KEYS)
    if "programs" not in top:
        raise reader.fail("programs", "missing")
    machine, chosen = _config(reader, top.get("config"), config, semantics)
    entries = reader.items(top["programs"], "programs")
    if not entries:
        raise reader.fail("programs", "empty: there is nothing to run")
    programs = [_program(reader, entry, i, machine, chosen) for i, entry in enumerate(entries)]
    if reader.unknown:
        names = sorted({name.split(".")[-1] for name in reader.unknown})
        shown = ", ".join(clipped(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")
        warnings.warn(f"{source}: unknown fields ignored: {shown}", UserWarning, stacklevel=2)
    return programs


def load_file(path: str | Path, config: VTAConfig | None = None, semantics: str | None = None) -> list[Program]:
    """Read a program file of at most 512 MiB, or a pipe; see :func:`loads`."""
    try:
        text = read_bytes(path).decode("utf-8")
    except OSError as error:
        raise ProgramError(str(path), error.strerror or "cannot be read") from None
    except UnicodeDecodeError as error:
        raise ProgramError(str(path), f"not UTF-8 text at byte {error.start}") from None
    return loads(text, str(path), config, semantics)


def _entry(program: Program, config: VTAConfig, cycles: int | None) -> dict[str, object]:
    entry: dict[str, object] = {
        "name": printable(program.name),
        "insns": isa.to_hex(isa.encode(program.table, program.config, program.semantics)),
    }
    if cycles is not None:
        entry["cycles"] = cycles
    if program.config.read_delay != config.read_delay:
        entry["delay"] = program.config.read_delay
    entry["insn_address"] = program.insn_address
    entry["memory"] = [{"address": s.address, "bytes": base64.b64encode(s.data).decode()} for s in program.memory]
    outputs: list[dict[str, object]] = []
    for o in program.outputs:
        item: dict[str, object] = {"name": printable(o.name), "address": o.address, "size": o.size}
        if o.expected is not None:
            item["expected"] = base64.b64encode(o.expected).decode()
        outputs.append(item)
    entry["outputs"] = outputs
    return entry


def dumps(programs: Iterable[Program], target: str | None = None) -> str:
    """Write programs of one machine as a JSON text; what of a name is not printable stands in it as its escape.

    target: the preset's name to write; without one, the preset with this machine and semantics, else the
    machine's keys. ``cycles`` of programs that claim none are counted. Raises ProgramError where programs
    differ in more than read_delay, or disagree with ``target``.
    """
    items = list(programs)
    if not items:
        raise ProgramError("programs", "nothing to write")
    first = items[0]
    base = target_spec(target).config if target is not None else first.config
    for program in items:
        if replace(program.config, read_delay=base.read_delay) != base:
            raise ProgramError(f"program '{program.name}'", "has another machine than the file; write it to its own")
        if program.semantics != first.semantics:
            raise ProgramError(f"program '{program.name}'", "has other semantics than the file; write it to its own")
    if target is None:
        same = [s.name for s in TARGETS.values() if s.config == base and s.semantics == first.semantics]
        target = same[0] if same else None
    entries = [_entry(p, base, p.cycles if p.cycles is not None else _count(p)) for p in items]
    config: object = target
    if target is None:
        own = {} if first.semantics == _semantics_of(base) else {"semantics": first.semantics}
        config = base.to_json() | own
    return json.dumps({"config": config, "programs": entries}, indent=1) + "\n"


def _count(program: Program) -> int | None:
    from sim import timing

    try:
        semantics = program.semantics
        return int(timing.cycles(program.table, program.config, program.insn_address, semantics=semantics))
    except SimError:
        # A program that never finishes has no count, and a file may still carry it.
        return None


def dump_file(path: str | Path, programs: Iterable[Program], target: str | None = None) -> None:
    """Write a program file; see :func:`dumps`."""
    text = dumps(programs, target)
    write_text(path, text)
