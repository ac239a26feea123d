"""Every error a user can meet, in one place; all of them survive pickling."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

# Of one refusal: the note of a replayed trace, which tells the instruction, is a line more.
MOST_LINES = 14


ScheduleCode = Literal[
    "address", "argument", "depth", "domain", "form", "handle", "index", "intrinsic", "layout", "loop", "name", "order", "output",
    "place", "range", "reader", "reduction", "root", "symbolic", "writer",
]
# What a primitive refuses; docs/api.md has the same table. Texts may change, codes do not.
SCHEDULE_CODES: dict[ScheduleCode, str] = {
    "argument": "an argument is of a kind or value that cannot be",
    "name": "nothing has the name that was given, or more than one thing has",
    "handle": "a handle of something that is gone, of another kind or of another function",
    "root": "the root block is not for primitives",
    "intrinsic": "a block or a loop is not what the tensor intrinsic computes",
    "place": "blocks or loops do not stand as they would have to: around, below or beside each other, alone, in a chain",
    "loop": "a loop's start, kind or marks, or what it drives",
    "symbolic": "an extent is not a constant",
    "form": "the statements of a block are not of the form that the primitive works on",
    "index": "indices are not those that the primitive can follow: plain iterators, affine, one to one",
    "layout": "an index map or a layout does not fit the buffer",
    "domain": "a block runs, or is known to run, for a part of its iterations only",
    "order": "something would be read before it is written, or written in another order",
    "reduction": "a reduction would start, end or add up differently",
    "writer": "something else writes the buffer, or the block itself does",
    "reader": "something else reads the buffer, or the block reads it in several ways",
    "output": "the buffer is a result or a parameter, not an intermediate",
    "address": "the address of the buffer is taken, or a view of it",
    "range": "a value or an index would leave its type's range",
    "depth": "the program is nested too deep",
}

LoweringCode = Literal[
    "alu", "annotation", "capacity", "dtype", "element", "empty", "extern", "field", "index", "pad", "pattern", "scope",
    "statement", "store", "symbolic", "thread", "tokens",
]
# Why a scheduled program has no equivalent on the target; docs/api.md has the same table.
LOWERING_CODES: dict[LoweringCode, str] = {
    "symbolic": "a size is not a constant",
    "index": "an index is no place in an instruction stream",
    "statement": "a statement is none",
    "extern": "a call is none",
    "scope": "the machine has no such memory, or no such way between memories",
    "dtype": "the machine has no operation on such elements",
    "pattern": "a block is no pattern that an instruction computes",
    "pad": "a load cannot pad so",
    "alu": "the ALU has no such operation",
    "element": "a transfer or an operation does not work on whole elements",
    "store": "a store cannot take it from there",
    "thread": "a thread binding asks for what the machine does not do",
    "annotation": "an annotation does",
    "capacity": "it is too large for a memory or a buffer",
    "field": "it is too large for a field of an instruction",
    "tokens": "more would wait than the token counters count",
    "empty": "nothing is left to do",
}


SpaceCode = Literal[
    "choice", "copy", "form", "index", "join", "layout", "machine", "operand", "order", "pad", "product", "result", "symbolic",
    "type", "written",
]
# Why a program has no design space; docs/api.md has the same table.
SPACE_CODES: dict[SpaceCode, str] = {
    "form": "a block is not one store, or holds others, or leaves out a part of its domain",
    "symbolic": "an extent is not a constant",
    "index": "an index is data, or not affine, or another place than the one that is written",
    "written": "several blocks write a tensor, or a block reads what it writes",
    "result": "what is stored is no int8, or nothing is stored, or what is made is not stored",
    "type": "a stage reads elements that the ALU does not take",
    "product": "a product, or a reduction, is none that the GEMM or the ALU computes",
    "choice": "a value is chosen by data",
    "pad": "a load pads with zeros only",
    "operand": "something computes an operand of the GEMM, or never writes it",
    "join": "chains of stages come together that no nest holds",
    "copy": "a block feeds what different nests make",
    "order": "blocks do not store one element for each iteration, in one order",
    "layout": "no layout of the tensors is known: which index would be lanes",
    "machine": "lowering, or the limits of a program, refuse whatever is decided",
}


class AutoschedError(Exception):
    """Root of the errors that name a user's mistake or a candidate's failure."""


class ProgramError(AutoschedError):
    """A tensor program is malformed: bad script text, bad IR, bad arguments to a kernel.

    Args:
        message: what is wrong, in one line.
        line: 1-based line of the source text, or None.
        column: 1-based column of the source text, or None.
    """

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message, line, column)
        self.message = message
        self.line = line
        self.column = column

    def __str__(self) -> str:
        if self.line is None:
            return self.message
        where = f"line {self.line}" + (f", column {self.column}" if self.column is not None else "")
        return f"{where}: {self.message}"


class SpaceError(ProgramError):
    """A program has no design space on a target.

    Args:
        message: which part of which block is in the way, and what to write instead, in one line.
        code: what kind of refusal it is, one of ``SPACE_CODES``; the texts may change.
    """

    def __init__(self, message: str, code: SpaceCode) -> None:
        super().__init__(message)
        self.args = message, code
        self.code: SpaceCode = code


class ScheduleError(AutoschedError):
    """A schedule primitive refused: the program does not allow it.

    Args:
        primitive: name of the primitive, e.g. ``compute_at``.
        reason: why it was refused, in the field's words; one line where possible.
        excerpt: the lines of the program at fault, culprits marked; may be empty. Of most refusals nobody reads them, since
            another way is tried: a function is called when they are asked for.
        hint: what to do instead; may be empty.
        code: what kind of refusal it is, one of ``SCHEDULE_CODES``; the texts may change.
    """

    usual: ScheduleCode = "form"  # where nothing else is said

    def __init__(
        self, primitive: str, reason: str, excerpt: str | Callable[[], str] = "", hint: str = "",
        code: ScheduleCode | None = None,
    ) -> None:
        super().__init__(primitive, reason)
        self.code: ScheduleCode = code or self.usual
        self.primitive = primitive
        self.reason = reason
        self._excerpt = excerpt
        self.hint = hint

    def __reduce__(self) -> tuple[type[ScheduleError], tuple[str, str], dict[str, object]]:
        return type(self), (self.primitive, self.reason), {**self.__dict__, "_excerpt": self.excerpt}

    @property
    def excerpt(self) -> str:
        """The lines of the program at fault, culprits marked; may be empty."""
        if not isinstance(self._excerpt, str):
            try:
                self._excerpt = self._excerpt()
            except RecursionError:
                self._excerpt = ""  # of a program that cannot be printed, for it is too deep, the reason is said all the same
        return self._excerpt

    def __str__(self) -> str:
        said = folded(f"{self.primitive}: {self.reason}".split("\n"), 3)
        hint = folded(f"try: {self.hint}".split("\n"), MOST_LINES - len(said) - 4) if self.hint else []
        lines = self.excerpt.split("\n") if self.excerpt else []
        room = MOST_LINES - len(said) - len(hint)
        while len(lines) > room and not all(line.startswith(">") for line in lines):
            # What is not marked goes first, the farthest from the culprits last in the text before the others.
            lines.pop(max(k for k, line in enumerate(lines) if not line.startswith(">")))
        if len(lines) > room:
            lines = [*lines[:room - 1], f"  and {len(lines) - room + 1} more lines at fault"]
        return "\n".join([*(shortened(line, 1000) for line in said), *lines, *hint])


class NotSupportedError(AutoschedError):
    """A form that this version does not implement; never used for an illegal schedule."""


class LoweringError(AutoschedError):
    """A scheduled program has no equivalent on the target, with a reason code.

    Args:
        kind: one of ``LOWERING_CODES``.
        message: what does not fit and where, in one line.
    """

    def __init__(self, kind: LoweringCode, message: str) -> None:
        super().__init__(kind, message)
        self.kind: LoweringCode = kind
        self.message = message

    @property
    def code(self) -> LoweringCode:
        """What kind of refusal it is, as of a ``ScheduleError``; the texts may change."""
        return self.kind

    @property
    def of_program(self) -> bool:
        """Whether it is about what the program computes, not about how large its pieces are or how its loops are marked."""
        return self.kind not in ("capacity", "field", "tokens", "thread", "annotation", "store")

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class RecordError(AutoschedError):
    """A log, a record or its file cannot be used."""


class ExecutorError(AutoschedError):
    """Candidates cannot be measured where they were to be: no worker starts, no scheduler answers, a library is missing."""


class BadArgumentError(AutoschedError, ValueError):
    """An argument of a function or a command that cannot be.

    Args:
        what: name of the argument.
        given: what was given, as ``repr`` shows it.
        expected: what would do, e.g. ``a positive integer``.
    """

    def __init__(self, what: str, given: str, expected: str) -> None:
        super().__init__(what, given, expected)
        self.what = what
        self.given = given
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.what} must be {self.expected}, got {shortened(self.given, 80)}"


class NoScheduleError(RecordError):
    """Nothing that could be applied is known of a workload on a target.

    Args:
        what: what was looked for, where, in one line.
        workload: its name, for ``autosched tune``.
        target: the target's name.
        command: that finds one; by default a plain ``autosched tune``, and none is said where it is empty.
    """

    def __init__(self, what: str, workload: str, target: str, command: str | None = None) -> None:
        super().__init__(what, workload, target, command)
        self.what = what
        self.workload = workload
        self.target = target
        self.command = f"autosched tune {workload} --target {target}" if command is None else command

    def __str__(self) -> str:
        return f"{self.what}; run: {self.command}" if self.command else self.what


class UnknownNameError(AutoschedError):
    """A name that does not exist, with the nearest that do.

    Args:
        what: kind of thing, e.g. ``workload``, ``target``, ``block``.
        name: the name that was asked for.
        known: the names that exist.
        most: of so many names all are listed where none is near.
    """

    def __init__(self, what: str, name: str, known: Iterable[str] = (), most: int = 12) -> None:
        known = tuple(known)
        super().__init__(what, name, known, most)
        self.what = what
        self.name = name
        self.known = known
        self.most = most

    def __str__(self) -> str:
        # Something else than text may be given for a name.
        given = shortened(self.name, 120) if isinstance(self.name, str) else self.name
        return f"unknown {self.what} {given!r}{suggest(self.name, self.known, most=self.most)}"


def shortened(text: str, width: int) -> str:
    """A line that is no longer than ``width``: what is cut off at its end is shown as ``...``."""
    return text if len(text) <= width else text[:width - 4].rstrip() + " ..."


def together(names: Sequence[str]) -> str:
    """Names as a sentence lists them, ``a, b and c``.

    Args:
        names: one at least.
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def folded(lines: list[str], most: int) -> list[str]:
    """Lines as at most ``most``: those after the first are joined by semicolons, so that none is lost.

    Args:
        lines: text of one paragraph, or lines of Python after a first line of prose.
        most: lines allowed, at least one.
    """
    if len(lines) <= most:
        return lines
    if most < 2:
        return ["; ".join(line.strip() for line in lines)]
    per = -(-(len(lines) - 1) // (most - 1))
    rest = lines[1:]
    return [lines[0], *("  " + "; ".join(line.strip() for line in rest[k:k + per]) for k in range(0, len(rest), per))]


def suggest(name: str, known: Iterable[str], limit: int = 3, most: int = 12) -> str:
    """The tail of an error line that proposes the nearest valid names.

    Args:
        name: what was given.
        known: the valid names.
        limit: at most so many proposals.
        most: of so many names all are listed where none is near.

    Returns:
        ``"; did you mean 'a' or 'b'?"``, ``"; known: ..."`` for short lists, or an empty string.
    """
    known = list(dict.fromkeys(map(str, known)))
    near = difflib.get_close_matches(str(name), known, n=limit, cutoff=0.5)
    if not near and (low := str(name).lower()) != name:
        # Typed in capitals; names that are spelled with them have been looked at.
        near = difflib.get_close_matches(low, known, n=limit, cutoff=0.5)
    if near:
        return "; did you mean " + " or ".join(repr(n) for n in near) + "?"
    if 0 < len(known) <= most:
        return "; known: " + ", ".join(known)
    return ""
