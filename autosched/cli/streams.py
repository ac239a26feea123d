"""Standard output and standard error of the process that a command is."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any


class UnreadError(Exception):
    """Whoever read our standard output has gone (``| head``). No ``OSError``: libraries answer those in ways of their own."""


class _Output(io.FileIO):
    """Standard output. Of writes that fail the first one says so; what comes after it goes nowhere."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "w", closefd=False)
        self.over = False

    def write(self, data: Any) -> int:
        if self.over:
            # Python writes what is left when it ends, and would complain in its own words.
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            self.over = True
            if error.errno == errno.EPIPE:
                raise UnreadError from None
            raise OSError(error.errno, error.strerror, "standard output") from None


class _Remarks(io.FileIO):
    """Standard error. No command ends because nobody takes its remarks: a reader that has gone, a full disk."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "w", closefd=False)

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def open_streams() -> None:
    """A stream that whoever started us has closed goes nowhere; what the terminal's encoding lacks is written as an escape."""
    for name, kind in (("stdout", _Output), ("stderr", _Remarks)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
            continue
        if sys.platform == "win32":
            # A console there takes characters, and no bytes.
            stream.reconfigure(errors="backslashreplace")
            continue
        raw = kind(stream.fileno())
        # As Python's own: PYTHONUNBUFFERED asks for none of the two buffers.
        whole: Any = raw if stream.write_through else io.BufferedWriter(raw)
        setattr(sys, name, io.TextIOWrapper(
            whole, encoding=stream.encoding, errors="backslashreplace", line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        ))


def flush() -> None:
    """Writes what standard output still holds, so that it fails where it can be told and not when Python ends.

    Raises:
        UnreadError, OSError: as every write.
    """
    if sys.stdout is not None:
        sys.stdout.flush()


def abandon() -> None:
    """Writes nothing more to standard output: who reads it may have stopped to without going, and would be waited for."""
    raw = getattr(sys.stdout, "buffer", None)
    raw = getattr(raw, "raw", raw)
    if isinstance(raw, _Output):
        raw.over = True
