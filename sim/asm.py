"""Assembler text, both ways: one instruction per line, only what is not 0.

    LOAD INP sram=5 dram=32771 y_size=14 x_size=14 x_stride=32 x_pad_0=1 pop_next push_next
    GEMM uop_end=3 iter_out=5 iter_in=7 dst_out=1 pop_prev
    ALU MAX uop_end=1 iter_out=1 iter_in=16 dst_in=1 src_in=1 use_imm imm=-128
    STORE dram=65536 y_size=2 x_size=8 x_stride=16 push_prev
    FINISH

One-bit fields are bare words (or ``name=0``, ``name=1``), numbers are decimal or 0x hex, ``#`` starts a comment, case
does not matter in names. STORE takes an optional memory, OUT by default.
"""

from __future__ import annotations

import re

import numpy as np

from sim.config import VTAConfig
from sim.errors import AsmError, FieldError, nearest
from sim.isa import (
    ALU_NAMES,
    ALU_OP,
    COLUMN_OF,
    MEM,
    MEM_OUT,
    MEMORY_NAMES,
    NCOLS,
    OP_ALU,
    OP_LOAD,
    OP_STORE,
    OPCODE,
    OPCODE_NAMES,
    Table,
    as_table,
    check_table,
    layout_of,
)

_NUMBER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]{1,12}|[0-9]{1,15})")
# Written last, as bare words: what an instruction waits for and what it announces.
_TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")


def _fields(opcode: int, config: VTAConfig, semantics: str) -> dict[str, int]:
    """Return the width of every field that is written as ``name=value`` or as a bare word, in text order."""
    operand = {OP_LOAD: "mem", OP_STORE: "mem", OP_ALU: "alu_op"}.get(opcode)
    widths = {name: width for name, _, width in layout_of(opcode, config, semantics) if name not in ("opcode", operand)}
    return {name: widths[name] for name in [n for n in widths if n not in _TOKENS] + list(_TOKENS)}


def disassemble(table: Table, config: VTAConfig, semantics: str = "chisel") -> str:
    """Return a table as text, one line per instruction; FieldError for a table that cannot be encoded."""
    table = as_table(table)
    check_table(table, config, semantics)
    fields = [_fields(opcode, config, semantics) for opcode in range(len(OPCODE_NAMES))]
    lines = []
    for row in table.tolist():
        opcode = row[OPCODE]
        words = [OPCODE_NAMES[opcode]]
        if opcode == OP_LOAD or (opcode == OP_STORE and row[MEM] != MEM_OUT):
            words.append(MEMORY_NAMES[row[MEM]])
        elif opcode == OP_ALU:
            words.append(ALU_NAMES[row[ALU_OP]])
        for name, width in fields[opcode].items():
            value = row[COLUMN_OF[name]]
            if value:
                words.append(name if width == 1 else f"{name}={value}")
        lines.append(" ".join(words) + "\n")
    return "".join(lines)


def assemble(text: str, config: VTAConfig, semantics: str = "chisel") -> Table:
    """Read what :func:`disassemble` writes, and anything in its form.

    Raises AsmError, with the line's number, for a word that is unknown there, repeated or missing, and for a value
    that does not fit its field.
    """
    rows: list[Table] = []
    numbers: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#", 1)[0].split()
        if words:
            rows.append(_row(words, number, config, semantics))
            numbers.append(number)
    table = as_table(rows)
    try:
        check_table(table, config, semantics)
    except FieldError as error:
        raise AsmError(numbers[error.index], f"{error.field}={error.value}: {error.reason}") from None
    return table


def _pick(word: str, names: tuple[str, ...], what: str, line: int) -> int:
    if word.upper() not in names:
        raise AsmError(line, f"'{word}' is not {what}{nearest(word, names)}")
    return names.index(word.upper())


def _row(words: list[str], line: int, config: VTAConfig, semantics: str) -> Table:
    row: Table = np.zeros(NCOLS, dtype=np.int64)
    opcode = _pick(words[0], OPCODE_NAMES, "an instruction", line)
    row[OPCODE] = opcode
    rest = words[1:]
    if opcode in (OP_LOAD, OP_ALU):
        what, names = ("a memory", MEMORY_NAMES) if opcode == OP_LOAD else ("an ALU operation", ALU_NAMES)
        if not rest:
            raise AsmError(line, f"{OPCODE_NAMES[opcode]} needs {what}: {', '.join(names)}")
        row[MEM if opcode == OP_LOAD else ALU_OP] = _pick(rest.pop(0), names, what, line)
    elif opcode == OP_STORE:
        row[MEM] = MEM_OUT
        if rest and rest[0].upper() in MEMORY_NAMES:
            row[MEM] = MEMORY_NAMES.index(rest.pop(0).upper())
    fields = _fields(opcode, config, semantics)
    seen = set()
    for word in rest:
        raw_name, has_value, value = word.partition("=")
        name = raw_name.lower()
        if name not in fields:
            raise AsmError(line, f"{OPCODE_NAMES[opcode]} has no field '{raw_name}'{nearest(name, fields)}")
        if name in seen:
            raise AsmError(line, f"field '{name}' is given twice")
        seen.add(name)
        if not has_value and fields[name] != 1:
            raise AsmError(line, f"field '{name}' needs a value: {name}=NUMBER")
        if has_value and not _NUMBER.fullmatch(value):
            raise AsmError(line, f"'{word}': expected a decimal or 0x number after '='")
        row[COLUMN_OF[name]] = int(value, 0 if "x" in value.lower() else 10) if has_value else 1
    return row
