"""The command line: ``commands.py`` is the table of commands, ``exit_codes.py`` says what exit codes mean.

Data goes to stdout, chatter to stderr; bad input is one line there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        argv: arguments without the program's name; default those of the process.

    Returns:
        The exit code.
    """
    try:
        # Whatever is loaded is loaded here, where Ctrl-C is one line.
        from autosched.cli.entry import command

        return command(argv)
    except KeyboardInterrupt:
        from autosched.cli.exit_codes import Exit

        print("autosched: interrupted", file=sys.stderr)
        return Exit.INTERRUPTED
