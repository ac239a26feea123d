"""Argument parsing with errors of one line that name the nearest valid word, and the options that commands share."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from autosched import arguments
from autosched.errors import BadArgumentError, ProgramError, shortened, suggest

Number = TypeVar("Number", int, float)


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

    def _print_message(self, message: str, file: Any = None) -> None:
        """As argparse's, which takes output that finds no room for written."""
        stream = file or sys.stderr
        if message and stream is not None:
            stream.write(message)

    def _everything(self) -> list[argparse.Action]:
        actions = list(self._actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for sub in action.choices.values():
                    actions += sub._actions
        return actions


def named(text: str) -> str:
    """A name without the white space around it, for ``type=``."""
    return _said(text, "a name").strip()


def folder(text: str) -> str:
    """A directory, for ``type=``."""
    return _said(text, "a directory")


def file(text: str) -> str:
    """A file, for ``type=``."""
    return _said(text, "a file")


def _said(text: str, what: str) -> str:
    """A text that says something: a variable of the shell that is not set would be taken for "all", or for the working folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"expected {what}, got {text!r}")
    return text


def positive(text: str) -> int:
    """A positive integer, for ``type=``."""
    return _checked(text, lambda: arguments.integer("", _whole(text)))


def at_most(most: int) -> Callable[[str], int]:
    """A positive integer that may not be larger, for ``type=``."""
    return lambda text: _checked(text, lambda: arguments.integer("", _whole(text), 1, most))


def seed(text: str) -> int:
    """A seed of 32 bits, for ``type=``."""
    return _checked(text, lambda: arguments.seed(_whole(text)))


def decisions(text: str) -> dict[str, int]:
    """Decisions such as ``tile_y=7,banks_acc=2``, for ``type=``."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        number = arguments.decimal(value.strip(), 0, 10**9 - 1)
        if not (name and equals) or number is None:
            raise argparse.ArgumentTypeError(f"expected decisions such as tile_y=7,banks_acc=2, got {shortened(text, 60)!r}")
        if name.strip() in found:
            raise argparse.ArgumentTypeError(f"{shortened(name.strip(), 60)} is given twice")
        found[name.strip()] = number
    return found


def add_fix(parser: argparse.ArgumentParser) -> None:
    """``--fix``, which may be repeated."""
    parser.add_argument("--fix", type=decisions, action=_Fix, default={}, metavar="NAME=VALUE[,..]",
                        help="only schedules with these decisions, e.g. tile_y=7,banks_acc=2; "
                             "`autosched space WORKLOAD --decisions` lists them")


class _Fix(argparse.Action):
    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        known = getattr(namespace, self.dest)
        twice = next((name for name in values if name in known), None)
        if twice is not None:
            raise argparse.ArgumentError(self, f"{shortened(twice, 60)} is given twice")
        setattr(namespace, self.dest, {**known, **values})


def seconds(text: str) -> float:
    """A positive number of seconds, for ``type=``."""
    return _checked(text, lambda: arguments.seconds("", _real(text)))


def fraction(text: str) -> float:
    """A fraction such as ``0.01`` or ``1%``, for ``type=``."""
    percent = text.endswith("%")
    return _checked(text, lambda: arguments.fraction("", _real(text[:-1]) / 100 if percent else _real(text)))


def _checked(text: str, check: Callable[[], Number]) -> Number:
    """What a check of ``autosched.arguments`` gives, its refusal in argparse's words."""
    try:
        return check()
    except BadArgumentError as error:
        raise argparse.ArgumentTypeError(f"expected {error.expected}, got {shortened(text, 60)!r}") from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        # Words, and numbers with more digits than Python converts.
        return -1


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0


def add_target(parser: argparse.ArgumentParser, default: str | None = "vta-de10", text: str = "") -> None:
    """Adds ``--target``; ``text`` is its help where it says more than what a machine is."""
    text = text or "machine: a preset or a JSON file" + (f" (default {default})" if default else "")
    parser.add_argument("--target", type=named, default=default, metavar="NAME", help=text)


def add_log(parser: argparse.ArgumentParser) -> None:
    """Adds ``--log``."""
    parser.add_argument("--log", type=folder, metavar="DIR",
                        help="directory of the log (default tuning_logs/runs, then the shipped schedules)")


def add_format(parser: argparse.ArgumentParser) -> None:
    """Adds ``--format``."""
    parser.add_argument("--format", choices=("table", "json"), default="table", help="form of the output (default table)")


def parse_pairs(pairs: list[str], what: str) -> dict[str, str]:
    """``name=value`` words as a dict.

    Raises:
        ProgramError: a word without ``=``, with nothing on a side of it, or with a name that another one has.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark or not name.strip() or not value.strip():
            raise ProgramError(f"{what} {shortened(pair, 60)!r}: expected name=value")
        if name in found:
            raise ProgramError(f"{what}: {shortened(name, 60)} is given twice")
        found[name] = value
    return found
