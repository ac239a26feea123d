"""Checks of what people pass to the entry points, the same for the command line and for Python."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autosched.errors import BadArgumentError, ProgramError

SEEDS = (0, 2**32 - 1)  # what every generator and every sampler takes
SAMPLE = 100_000  # points that are drawn at once; they take a gigabyte
RUNS = 10_000  # of a sampler, side by side


def integer(what: str, value: Any, low: int = 1, high: int | None = None) -> int:
    """A whole number within bounds.

    Args:
        what: name of the argument.
        value: what was given; anything with ``__index__`` but no bool.
        low: the least allowed.
        high: the greatest allowed, or None.

    Raises:
        BadArgumentError: not an integer, or out of bounds.
    """
    if high is not None:
        expected = f"an integer from {low} to {high}"
    else:
        expected = {0: "an integer, at least 0", 1: "a positive integer"}.get(low, f"an integer, at least {low}")
    try:
        found = operator.index(value)
    except TypeError:
        raise BadArgumentError(what, repr(value), expected) from None
    if isinstance(value, bool) or found < low or (high is not None and found > high):
        raise BadArgumentError(what, repr(value), expected)
    return found


def text(what: str, value: Any, expected: str) -> str:
    """A text.

    Args:
        what: name of the argument.
        value: what was given.
        expected: what would do, in a refusal.

    Raises:
        BadArgumentError: anything else.
    """
    if not isinstance(value, str):
        raise BadArgumentError(what, repr(value), expected)
    return value


def folder(what: str, value: Any) -> Path:
    """The path of a directory.

    Raises:
        BadArgumentError: anything else than a text or a path, and a text that says nothing.
    """
    if not isinstance(value, str | os.PathLike) or not value:
        raise BadArgumentError(what, repr(value), "the path of a directory")
    return Path(value)


def listener(value: Any) -> None:
    """Refuses a listener that cannot be called with an event.

    Raises:
        BadArgumentError: neither None nor something that can be called.
    """
    if not (value is None or callable(value)):
        raise BadArgumentError("listener", repr(value), "a function that takes an event")


def decimal(text: str, low: int, high: int) -> int | None:
    """What plain digits say; None for any other text, and for a number out of bounds, however many digits it has.

    Args:
        text: e.g. of a command line.
        low: the least allowed, not below 0.
        high: the greatest allowed.
    """
    digits = text.lstrip("0") or text[-1:]
    # Python converts no more than some thousand digits.
    if not (text.isascii() and text.isdecimal()) or len(digits) > len(str(high)):
        return None
    found = int(digits)
    return found if low <= found <= high else None


def seed(value: Any) -> int:
    """A seed.

    Raises:
        BadArgumentError: not an integer of 32 bits.
    """
    return integer("seed", value, *SEEDS)


def decisions(what: str, value: Any) -> dict[str, int]:
    """Decisions of a design space by name.

    Args:
        what: name of the argument.
        value: what was given: a mapping of names to whole numbers.

    Raises:
        BadArgumentError: anything else.
    """
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise BadArgumentError(what, repr(value), "decisions by name, such as {'tile_y': 7}")
    return {name: integer(f"{what}: {name}", number, 0) for name, number in value.items()}


def fraction(what: str, value: Any) -> float:
    """A number from 0 to below 1.

    Raises:
        BadArgumentError: anything else.
    """
    found = _real(value)
    if found is None or not 0 <= found < 1:
        raise BadArgumentError(what, repr(value), "a fraction such as 0.01, from 0 to below 1")
    return found


def seconds(what: str, value: Any) -> float:
    """A positive number of seconds.

    Raises:
        BadArgumentError: anything else.
    """
    found = _real(value)
    if found is None or not found > 0:
        raise BadArgumentError(what, repr(value), "a positive number of seconds")
    return found


def _real(value: Any) -> float | None:
    if isinstance(value, bool | str | bytes):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def writable(path: str | Path) -> None:
    """Refuses a path at which no file can be written, before there is anything to write.

    Args:
        path: of the file.

    Raises:
        ProgramError: it names no file, it is a link that leads to itself, or its folder does not exist.
    """
    place = Path(path)
    if not str(path):
        raise ProgramError("cannot write '': it names no file")
    if place.is_dir():
        raise ProgramError(f"cannot write {path}: it is a directory")
    if not place.parent.is_dir():
        raise ProgramError(f"cannot write {path}: {place.parent} is no directory")
    try:
        real = os.path.realpath(path)
    except OSError as error:  # the working directory has gone
        raise OSError(error.errno, error.strerror, str(path)) from None
    if os.path.islink(real):
        raise ProgramError(f"cannot write {path}: it is a link that leads to itself")


def one_file(path: str | Path, other: str | Path) -> bool:
    """Whether two paths lead to one file, which need not exist yet; a pipe or a terminal may be read and written."""
    if os.path.exists(path) or os.path.exists(other):
        return os.path.isfile(path) and os.path.isfile(other) and os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def writable_beside(path: str | Path, read: str | Path, what: str) -> None:
    """``writable``, and refuses the file that what is written is made of.

    Args:
        path: of the file to write.
        read: of the one that is read.
        what: what that is, in a message.

    Raises:
        ProgramError: as ``writable``, or both are one file.
    """
    writable(path)
    if one_file(path, read):
        raise ProgramError(f"cannot write {path}: it is {what}")
