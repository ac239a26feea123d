"""What the exit code of a command says; the only place where the numbers stand."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes, as docs/cli.md lists them."""

    OK = 0
    # An exception that nobody expected: Python prints its traceback and ends with this.
    BUG = 1
    BAD_INPUT = 2
    NO_SCHEDULE = 3
    PARTIAL = 4
    # Bytes differ from what they should be, or could not be compared.
    DIFFERS = 5
    INTERRUPTED = 130
    TERMINATED = 143
