"""What a program is compiled for: a VTA, and which implementation's meaning of its instructions counts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from autosched.errors import BadArgumentError, ProgramError, UnknownNameError
from autosched.ir.scopes import ACC, INP, SRAM_SCOPES, WGT
from sim import isa
from sim.config import SEMANTICS, VTAConfig, loads_widen, mode_of, multiplies, shifts_by_tensors
from sim.encoding import Usable, usable
from sim.errors import SimError
from sim.files import read_bytes
from sim.legality import check_semantics, check_size
from sim.presets import TARGETS

SCOPES = SRAM_SCOPES
MAX_BYTES = 1 << 20  # of a target file; one has a few lines
# What the machine calls them.
MEMORY_TYPES: dict[str, int] = {INP: isa.MEM_INP, WGT: isa.MEM_WGT, ACC: isa.MEM_ACC}


@dataclass(frozen=True, slots=True)
class Memory:
    """An on-chip memory as programs name it.

    Args:
        scope: the storage scope, e.g. ``local.acc_buffer``.
        elements: how many of its elements instructions can name.
        lanes: scalars of one element: (rows, columns).
        dtype: type of a scalar.
        element_bytes: bytes of one element.
    """

    scope: str
    elements: int
    lanes: tuple[int, int]
    dtype: str
    element_bytes: int


@dataclass(frozen=True)
class Target:
    """A machine and the meaning of its instructions.

    Args:
        name: what it is called in logs and on the command line.
        config: the machine.
        semantics: ``chisel`` (the RTL), ``fsim`` (the functional simulator) or ``portable`` (only what all agree on).
        verified: what its simulation was checked against.
        extrapolated: what of it was not.
    """

    name: str
    config: VTAConfig
    semantics: str
    verified: str = ""
    extrapolated: str = ""

    def key(self) -> str:
        """SHA-256, in hex, of what decides bytes and cycles: the machine and its semantics, not the name."""
        text = json.dumps({"config": self.config.key(), "semantics": self.semantics}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def gemm_intrin(self) -> str:
        """Name of the matrix product's tensor intrinsic, e.g. ``vta.gemm.1x16x16``."""
        from autosched.target.intrin import gemm_name

        return gemm_name(self.config)

    @property
    def mode(self) -> str:
        """How its programs are executed, timed and encoded: ``chisel`` or ``fsim``."""
        return mode_of(self.semantics)

    @property
    def multiplies(self) -> bool:
        """Whether its ALU multiplies; else the GEMM alone does, int8 by int8."""
        return multiplies(self.semantics)

    @property
    def shifts_by_tensors(self) -> bool:
        """Whether its ALU shifts each element by one of another tensor; else all by one number."""
        return shifts_by_tensors(self.semantics)

    @property
    def loads_widen(self) -> bool:
        """Whether its loads bring int8 elements into the accumulators; else these come as int32, or through the GEMM."""
        return loads_widen(self.semantics)

    @property
    def usable(self) -> Usable:
        """Elements of each memory that instructions can name."""
        return usable(self.config, self.semantics)

    @cached_property
    def memories(self) -> dict[str, Memory]:
        """The on-chip memories by scope."""
        c, held = self.config, self.usable
        return {
            INP: Memory(INP, held.inp, (c.batch, c.block_in), "int8", c.inp_elem_bytes),
            WGT: Memory(WGT, held.wgt, (c.block_out, c.block_in), "int8", c.wgt_elem_bytes),
            ACC: Memory(ACC, held.acc, (c.batch, c.block_out), "int32", c.acc_elem_bytes),
        }

    def capacity(self, scope: str) -> int:
        """Elements of a scope that programs can name.

        Raises:
            UnknownNameError: the target has no such scope.
        """
        memory = self.memories.get(scope)
        if memory is None:
            raise UnknownNameError("scope", scope, SCOPES)
        return memory.elements

    def __str__(self) -> str:
        return self.name


def names() -> tuple[str, ...]:
    """The presets."""
    return tuple(TARGETS)


def get_target(target: str | Path | Target) -> Target:
    """A target of a preset's name, a JSON file or itself; its tensor intrinsics are registered.

    Args:
        target: a preset (``vta-de10``), or the path of a JSON object with keys of ``vta_config.json`` and of the shell, and
            optionally ``name`` and ``semantics`` (default ``chisel``).

    Raises:
        BadArgumentError: something else.
        UnknownNameError: no such preset and no such file.
        ProgramError: the file does not describe a machine that can exist.
    """
    if not isinstance(target, str | Path | Target):
        raise BadArgumentError("target", repr(target), f"a preset ({', '.join(TARGETS)}), the path of a JSON file or a Target")
    if not isinstance(target, Target):
        target = _lookup(target)
    from autosched.target.intrin import register

    register(target.config)
    return target


def _lookup(target: str | Path) -> Target:
    text = str(target)
    spec = TARGETS.get(text)
    if spec is not None:
        return Target(spec.name, spec.config, spec.semantics, spec.verified, spec.extrapolated)
    path = Path(target)
    if not path.is_file():
        if path.suffix == ".json" or "/" in text:
            raise ProgramError(f"target file {text}: {_no_file(path)}")
        raise UnknownNameError("target", text, TARGETS)
    return _from_file(path)


def _no_file(path: Path) -> str:
    """What a path is that is no file to be read."""
    if path.is_dir():
        return "a directory, expected a JSON file"
    if path.exists():
        return "no regular file (a pipe or a device), expected a JSON file"
    return "a link that leads nowhere" if path.is_symlink() else "no such file"


def _from_file(path: Path) -> Target:
    try:
        data = json.loads(read_bytes(path, MAX_BYTES).decode("utf-8"), object_pairs_hook=_once)
    except OSError as error:
        raise ProgramError(f"target file {path}: {error.strerror or error}") from None
    except ProgramError as error:
        raise ProgramError(f"target file {path}: {error}") from None
    except RecursionError:
        raise ProgramError(f"target file {path}: not readable JSON: nested too deep") from None
    except ValueError as error:
        raise ProgramError(f"target file {path}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ProgramError(f"target file {path}: expected a JSON object, got {type(data).__name__}")
    name, semantics = data.pop("name", path.stem), data.pop("semantics", "chisel")
    if not isinstance(name, str) or not name.strip():
        raise ProgramError(f"target file {path}: name must be a string that says something, not {name!r}")
    if semantics not in SEMANTICS:
        raise ProgramError(f"target file {path}: semantics {semantics!r} is none of {', '.join(SEMANTICS)}")
    try:
        config = VTAConfig.from_json(data)
        check_machine(config, semantics)
    except (ProgramError, SimError) as error:
        raise ProgramError(f"target file {path}: {error}") from None
    return Target(name, config, semantics, "", f"a machine described by {path.name}; timing by the RTL's rules")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members; a machine has each of its fields once."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ProgramError(f"config: {key}: given twice")
        found[key] = value
    return found


def check_machine(config: VTAConfig, semantics: str) -> None:
    """Refuses a machine that nothing is compiled for, though the simulator may know its instructions.

    Args:
        config: the machine.
        semantics: one of ``SEMANTICS``.

    Raises:
        ProgramError: its numbers are of other widths than those of programs.
        SimError: it is too large to be simulated, or has no programs of these semantics, e.g. batch above 1 on the RTL.
    """
    for field, bits in (("LOG_INP_WIDTH", 8), ("LOG_WGT_WIDTH", 8), ("LOG_ACC_WIDTH", 32)):
        if (given := 1 << getattr(config, field)) != bits:
            raise ProgramError(f"config: {field}: programs compute with int{bits} there, and {given} bits are given")
    check_size(config)
    check_semantics(config, semantics)


__all__ = ["ACC", "INP", "MEMORY_TYPES", "SCOPES", "WGT", "Memory", "Target", "get_target", "names"]
