"""Errors of the machine model, all derived from :class:`SimError`.

Every class passes its own arguments to ``Exception`` and builds its text in ``__str__``, so that an
error raised in a worker process arrives in the parent unchanged.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


class SimError(Exception):
    """Base of everything that ``sim`` raises for a user's input."""


def clipped(text: str) -> str:
    """A file's own words as a message holds them: 40 characters at most, and what is not printable as its escape."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:41])
    return shown if len(shown) <= 40 else shown[:37] + "..."


def nearest(name: str, names: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest of ``names``, or a list of them if none is close."""
    known = sorted(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if not close:
        lowered = {k.lower(): k for k in known}
        close = [lowered[c] for c in difflib.get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.5)]
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known: {', '.join(known)}"


class ConfigError(SimError):
    """A machine description that cannot exist; ``field`` is its key and ``reason`` says why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"config: {self.field}: {self.reason}"


class UnknownTargetError(SimError):
    """A target name that is not a preset."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name = name
        self.known = known

    def __str__(self) -> str:
        return f"unknown target '{self.name}'{nearest(self.name, self.known)}"


class FieldError(SimError):
    """A value that does not fit its instruction field; ``index`` counts instructions (or uops) from 0."""

    def __init__(self, index: int, field: str, value: int, reason: str) -> None:
        super().__init__(index, field, value, reason)
        self.index = index
        self.field = field
        self.value = value
        self.reason = reason

    def __str__(self) -> str:
        return f"instruction {self.index}: {self.field} = {self.value}: {self.reason}"


class DecodeError(SimError):
    """An instruction word that means nothing."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(index, reason)
        self.index = index
        self.reason = reason

    def __str__(self) -> str:
        return f"instruction {self.index}: {self.reason}"


class AsmError(SimError):
    """Assembler text that cannot be read; ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


class ProgramError(SimError):
    """A program file, memory image or program record that is not usable; ``where`` names the place."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class ExecutionError(SimError):
    """An instruction that the chosen semantics cannot execute."""

    def __init__(self, index: int, field: str, reason: str) -> None:
        super().__init__(index, field, reason)
        self.index = index
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"instruction {self.index}: {self.field}: {self.reason}"


class LimitError(SimError):
    """A program too large to simulate in bounded time and memory.

    ``index`` is the first instruction that exceeds the limit, ``field`` what makes it large.
    """

    def __init__(self, index: int, field: str, value: int, limit: int, reason: str) -> None:
        super().__init__(index, field, value, limit, reason)
        self.index = index
        self.field = field
        self.value = value
        self.limit = limit
        self.reason = reason

    def __str__(self) -> str:
        return f"instruction {self.index}: {self.field} = {self.value}: {self.reason} (limit {self.limit})"


@dataclass(frozen=True)
class Waiter:
    """A unit that never advances again: which instruction it holds, what it waits for, since which cycle."""

    unit: str
    index: int | None
    what: str
    since: int

    def __str__(self) -> str:
        insn = "" if self.index is None else f" at instruction {self.index}"
        return f"{self.unit}{insn} waits for {self.what} since cycle {self.since}"


class DeadlockError(SimError):
    """A program that never raises FINISH; ``waiters`` says who waits for what, ``cycle`` when all stopped."""

    def __init__(self, cycle: int, waiters: tuple[Waiter, ...]) -> None:
        super().__init__(cycle, waiters)
        self.cycle = cycle
        self.waiters = waiters

    def __str__(self) -> str:
        head = f"deadlock: FINISH is never reached, nothing moves after cycle {self.cycle}"
        return "; ".join([head, *(str(w) for w in self.waiters)])
