"""The command line: one function per command, a table of commands. What exit codes mean stands in ``exit_codes.py``.

Data goes to stdout, chatter to stderr; bad input is one line there. A command's module is loaded when the command is asked for,
so that ``--help`` and ``--version`` load nothing heavy.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, TextIO

from autosched.cli.exit_codes import Exit
from autosched.cli.interrupts import Interrupts
from autosched.cli.options import Parser
from autosched.errors import AutoschedError
from sim.errors import SimError

# Command -> (module of this package that has it, what it does), in the order of ``--help``.
COMMANDS = {
    "tune": ("tune_command", "search for the best schedule of a workload or a network"),
    "best": ("log_commands", "the best logged schedules"),
    "show": ("log_commands", "a schedule as a program, a trace, instructions or a Gantt chart"),
    "apply": ("log_commands", "run the best logged schedule on NumPy files or random data, bit-exactly"),
    "export": ("log_commands", "write a program file that any VTA implementation can run and check"),
    "space": ("space_command", "size of a workload's design space and the draft's favourites"),
    "run": ("network_commands", "run a quantized network from an ONNX file, bit-exactly"),
    "quantize": ("network_commands", "make a network's scales powers of two"),
    "sim": ("sim_command", "run a program file on the simulator"),
}


class _Chosen:
    """What a command's module registers with: only the command that was asked for is made, under the table's words."""

    def __init__(self, commands: Any, name: str) -> None:
        self.commands, self.name = commands, name

    def add_parser(self, name: str, **kwargs: Any) -> Parser:
        if name != self.name:
            return Parser(prog=name)
        parser: Parser = self.commands.add_parser(name, help=COMMANDS[name][1], description=COMMANDS[name][1], **kwargs)
        return parser


def build_parser(argv: Sequence[str] = ()) -> Parser:
    """The parser of all commands; only the one that ``argv`` asks for has its options."""
    parser = Parser(prog="autosched", description="Find, prove and apply the best schedule of a tensor program on a VTA.")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    asked = next((word for word in argv if not word.startswith("-")), None)
    for name, (module, text) in COMMANDS.items():
        if name == asked:
            importlib.import_module(f"autosched.cli.{module}").register(_Chosen(commands, name))
        else:
            commands.add_parser(name, help=text)
    return parser


def _version() -> str:
    from autosched import __version__

    return f"autosched {__version__}"


def _remark(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as one line; the place in our code that gave it says nothing to a user."""
    print(f"autosched: {message}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        argv: arguments without the program's name; default those of the process.

    Returns:
        The exit code.
    """
    with Interrupts() as interrupts:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        except KeyboardInterrupt as error:
            print(interrupts.line(error), file=sys.stderr)
            return interrupts.code


def _run(words: Sequence[str]) -> int:
    try:
        args = build_parser(words).parse_args(words)
        with warnings.catch_warnings():
            warnings.showwarning = _remark
            return int(args.run(args))
    except (AutoschedError, SimError) as error:
        print(f"autosched: {error}", file=sys.stderr)
        return Exit.BAD_INPUT
    except BrokenPipeError:
        # Whoever read our output has gone (``| head``); there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        print(f"autosched: {name}{error.strerror or error}", file=sys.stderr)
        return Exit.BAD_INPUT
    except Exception as error:
        # Python ends with Exit.BUG after an exception that nobody expected; the last line of its traceback is this one.
        error.add_note("autosched: this is a bug of autosched; the lines above belong into its report")
        raise
