"""Writing files whole: what others may be reading, or what stood there before, is never half replaced."""

from __future__ import annotations

import errno
import itertools
import os
from contextlib import suppress
from pathlib import Path

_numbers = itertools.count()


def write_bytes(path: str | Path, data: bytes) -> None:
    """Writes a file; it has all of its new contents, or what it had before.

    The contents go into a file beside it that then takes its name. What is no regular file (a pipe, a terminal) is written to.

    Args:
        path: the file; its folder must exist. A link stays one; one that leads to itself is refused.
        data: its contents.

    Raises:
        OSError: it cannot be written; ``filename`` is ``path``.
    """
    try:
        real = os.path.realpath(path)  # fails where the working directory has gone
        if os.path.islink(real):  # what is left where links lead round
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if os.path.exists(real) and not os.path.isfile(real):
            with open(real, "wb") as file:
                file.write(data)
            return
        _replace(real, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_text(path: str | Path, text: str) -> None:
    """``write_bytes`` of a text in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def _replace(real: str, data: bytes) -> None:
    mode = os.stat(real).st_mode & 0o777 if os.path.exists(real) else None
    beside = os.path.join(os.path.dirname(real), f".{os.getpid()}-{next(_numbers)}.tmp")
    fd = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
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
