"""The command line: one function per command, a table of commands, exit codes.

0 ok; 2 bad input, in one line on stderr; 3 no valid schedule; 4 only a part was done. Data goes to stdout, chatter to stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from autosched.cli.options import Parser
from autosched.errors import AutoschedError
from sim.errors import SimError

OK, BAD_INPUT, NO_SCHEDULE, PARTIAL = 0, 2, 3, 4


def build_parser() -> Parser:
    """The parser of all commands."""
    from autosched.cli import log_commands, sim_command, space_command, tune_command

    parser = Parser(prog="autosched", description="Find, prove and apply the best schedule of a tensor program on a VTA.")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    tune_command.register(commands)
    log_commands.register(commands)
    space_command.register(commands)
    sim_command.register(commands)
    return parser


def _version() -> str:
    from autosched import __version__

    return f"autosched {__version__}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        argv: arguments without the program's name; default those of the process.

    Returns:
        The exit code.
    """
    try:
        args = build_parser().parse_args(argv)
        return int(args.run(args))
    except (AutoschedError, SimError) as error:
        print(f"autosched: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # Whoever read our output has gone (``| head``); there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        print(f"autosched: {name}{error.strerror or error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("autosched: interrupted; what was measured is in the log", file=sys.stderr)
        return 130
