"""Whole files: what others may be reading, or what stood there, is never half replaced; what no memory holds is not read."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

MAX_FILE_BYTES = 1 << 29  # of a file that is read whole: a program file, a network
PIECE = 1 << 20  # bytes that are read at a time
_numbers = itertools.count()


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """The contents of a file, a pipe or a device.

    Args:
        path: the file.
        most: bytes that it may have; default ``MAX_FILE_BYTES``.

    Raises:
        OSError: it cannot be read, or has more bytes; what never ends is read no further than that.
    """
    most = MAX_FILE_BYTES if most is None else most
    found: list[bytes] = []
    size = 0
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size <= most:
            # A device, or a file that grows, has more than it says.
            while size <= most and (piece := file.read(PIECE)):
                found.append(piece)
                size += len(piece)
            if size <= most:
                return b"".join(found)
    raise OSError(errno.EFBIG, f"more than {most} bytes", str(path))


def begins(path: str | Path, other: str | Path) -> bool:
    """Whether the contents of another file begin with those of a file.

    Raises:
        OSError: one of them cannot be read.
    """
    with open(path, "rb") as file, open(other, "rb") as beside:
        while piece := file.read(PIECE):
            if beside.read(len(piece)) != piece:
                return False
    return True


def copy(source: str | Path, path: str | Path) -> None:
    """``write_bytes`` of the contents of another file, however large.

    Raises:
        OSError: one of them cannot be read or written.
    """
    with open(source, "rb") as file:
        write_pieces(path, pieces(file))


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """What follows in an open file, a piece at a time."""
    return iter(lambda: file.read(PIECE), b"")


def write_bytes(path: str | Path, data: bytes) -> None:
    """Writes a file; it has all of its new contents, or what it had before.

    The contents go into a file beside it that then takes its name. What is no regular file (a pipe, a terminal) is written to.

    Args:
        path: the file; its folder must exist. A link stays one; one that leads to itself is refused.
        data: its contents.

    Raises:
        OSError: it cannot be written; ``filename`` is ``path``.
    """
    write_pieces(path, (data,))


def write_text(path: str | Path, text: str) -> None:
    """``write_bytes`` of a text in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_pieces(path: str | Path, contents: Iterable[bytes]) -> None:
    """``write_bytes`` of what no memory need hold."""
    try:
        real = os.path.realpath(path)  # fails where the working directory has gone
        if os.path.islink(real):  # what is left where links lead round
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if os.path.exists(real) and not os.path.isfile(real):
            with open(real, "wb") as file:
                file.writelines(contents)
            return
        _replace(real, contents)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _replace(real: str, pieces: Iterable[bytes]) -> None:
    mode = os.stat(real).st_mode & 0o777 if os.path.exists(real) else None
    beside = os.path.join(os.path.dirname(real), f".{os.getpid()}-{next(_numbers)}.tmp")
    fd = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            file.writelines(pieces)
            file.flush()
            # Without this the name may be on the disk before the contents are.
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(beside, mode)
        os.replace(beside, real)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
