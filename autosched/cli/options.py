"""Argument parsing with errors of one line that name the nearest valid word, and the options that commands share."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from typing import Any, NoReturn

from autosched.errors import ProgramError, suggest

Commands = Any  # argparse's sub-parser action has no public name


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` whose errors are one line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Prints the error in one line and exits with 2."""
        choice = re.match(r"argument (.*): invalid choice: '(.*)' \(choose from (.*)\)", message)
        if choice:
            name = "command" if choice[1] == "COMMAND" else choice[1]
            known = re.findall(r"[\w.\-]+", choice[3])
            message = f"unknown {name} {choice[2]!r}{suggest(choice[2], known)}"
        unknown = re.match(r"unrecognized arguments: (\S+)", message)
        if unknown:
            word = unknown[1].split("=")[0]
            # An option of another command is no suggestion here.
            known = [s for action in self._everything() for s in action.option_strings if s != word]
            near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
            message = f"unknown argument {unknown[1]!r}" + (f"; did you mean {near[0]!r}?" if near else "")
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(2)

    def _everything(self) -> list[argparse.Action]:
        actions = list(self._actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for sub in action.choices.values():
                    actions += sub._actions
        return actions


def positive(text: str) -> int:
    """A positive integer, for ``type=``."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return value


def seconds(text: str) -> float:
    """A positive number of seconds, for ``type=``."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text!r}")
    return value


def fraction(text: str) -> float:
    """A fraction such as ``0.01`` or ``1%``, for ``type=``."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a fraction such as 0.01 or 1%, got {text!r}")
    return value


def add_target(parser: argparse.ArgumentParser, default: str | None = "vta-de10") -> None:
    """Adds ``--target``."""
    text = "machine: a preset or a JSON file" + (f" (default {default})" if default else "")
    parser.add_argument("--target", default=default, metavar="NAME", help=text)


def add_log(parser: argparse.ArgumentParser) -> None:
    """Adds ``--log``."""
    parser.add_argument("--log", metavar="DIR",
                        help="directory of the log (default tuning_logs/runs, then the shipped schedules)")


def add_format(parser: argparse.ArgumentParser) -> None:
    """Adds ``--format``."""
    parser.add_argument("--format", choices=("table", "json"), default="table", help="form of the output (default table)")


def parse_pairs(pairs: list[str], what: str) -> dict[str, str]:
    """``name=value`` words as a dict.

    Raises:
        ProgramError: a word without ``=``.
    """
    found = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark or not name:
            raise ProgramError(f"{what} {pair!r}: expected name=value")
        found[name] = value
    return found
