"""Where a command writes: looked at before there is anything to write, and never what the command itself reads."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from autosched.arguments import one_file, writable
from autosched.errors import ProgramError

# What a command reads, by the argument's name in the parsers.
_READ = {"workload": "the workload", "what": "the workload", "network": "the network", "file": "the program file",
         "target": "--target", "calibrate": "--calibrate", "input": "--input"}


def require_outputs(args: argparse.Namespace, *names: str) -> None:
    """Refuses files that cannot be written, that the command reads, or that two of its options name.

    Args:
        args: the command's.
        names: its arguments that name a file to write; those that are None are not asked for.

    Raises:
        ProgramError: such a file, with the reason.
    """
    given = [(f"--{name}", str(path)) for name in names if (path := getattr(args, name)) is not None]
    for _, path in given:
        writable(path)
    read = list(_read(args))
    for option, path in given:
        for what, other in read:
            if one_file(path, other):
                raise ProgramError(f"cannot write {path}: {option} and {what} are one file")
        if _of_log(args, path):
            raise ProgramError(f"cannot write {path}: it is a file of the log")
    for (option, path), (another, other) in combinations(given, 2):
        if one_file(path, other):
            raise ProgramError(f"cannot write {path}: {option} and {another} are one file")


def _read(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """What a command reads, and the files that the words may mean."""
    from sim.presets import TARGETS

    for name, what in _READ.items():
        words = getattr(args, name, None) or ()
        for word in (words,) if isinstance(words, str) else words:
            if name in ("workload", "what"):
                # A file that is called as a workload is none that is read.
                program, colon, _ = word.rpartition(":")
                if colon and program.endswith(".py"):
                    yield what, os.path.expanduser(program)
                elif word.lower().endswith(".onnx"):
                    yield what, word
            elif name != "target" or word not in TARGETS:
                yield what, word
                if name == "input":
                    yield what, word.partition("=")[2]


def _of_log(args: argparse.Namespace, path: str) -> bool:
    """Whether a file is one of the log's, of which none is written but by its writer."""
    from autosched.records.log import DEFAULT

    real = os.path.realpath(path)
    folders = [getattr(args, "log", None) or str(DEFAULT), getattr(args, "what", None)]
    return real.endswith(".jsonl") and os.path.isfile(real) and any(
        os.path.isdir(folder) and os.path.samefile(Path(real).parent, folder) for folder in folders if folder)
