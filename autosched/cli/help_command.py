"""``autosched help COMMAND`` and ``autosched completion SHELL``: finding one's way."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from autosched.cli.exit_codes import Exit
from autosched.cli.options import Parser
from autosched.errors import NotSupportedError, ProgramError

SHELLS = ("bash", "zsh", "tcsh")
# What an argument names, by its name in the parsers; the other ones are completed by their choices alone.
WORKLOADS, TARGETS, TOPICS, DIRECTORIES, FILES = "workloads", "targets", "topics", "directories", "files"
COMPLETED = {
    "topic": TOPICS,
    "workload": WORKLOADS, "what": WORKLOADS, "first": WORKLOADS, "second": WORKLOADS, "target": TARGETS, "log": DIRECTORIES,
    "sources": DIRECTORIES, "output": FILES, "file": FILES, "input": FILES, "network": FILES, "calibrate": FILES,
    "timeline": FILES,
}


def _help_options(p: Parser) -> None:
    p.add_argument("topic", nargs="*", metavar="COMMAND", help="a command, and an action of it; default: the list of commands")
    p.set_defaults(run=show_help)


def _completion_options(p: Parser) -> None:
    p.add_argument("shell", choices=SHELLS, help="the shell; its script goes to standard output")
    p.set_defaults(run=completion)


OPTIONS = {"help": _help_options, "completion": _completion_options}


def show_help(args: argparse.Namespace) -> int:
    """Prints what ``COMMAND --help`` does."""
    from autosched.cli.commands import build_parser

    # Help is given before what stands behind a command is looked at.
    at: argparse.ArgumentParser = build_parser(args.topic)
    for place, word in enumerate(args.topic):
        sub = next((a for a in at._actions if isinstance(a, argparse._SubParsersAction)), None)
        if sub is None:
            raise ProgramError(f"unknown word {word!r} behind {at.prog!r}; write autosched help {' '.join(args.topic[:place])}")
        if word not in sub.choices:
            break  # the parser names the nearest
        at = sub.choices[word]
    words = [*args.topic, "--help"]
    build_parser(words).parse_args(words)
    return Exit.OK  # not reached: argparse ends the process after a help


def completion(args: argparse.Namespace) -> int:
    """Prints a shell's script."""
    from autosched.cli.commands import COMMANDS, build_parser

    try:
        import shtab
    except ImportError as error:
        raise NotSupportedError("completion needs shtab; run: pip install 'autosched[completion]'") from error
    from autosched.workloads import names, networks
    from sim.presets import TARGETS as PRESETS

    parser = build_parser(tuple(COMMANDS), everything=True)
    topics = [str(name) for a in _actions(parser) if isinstance(a, argparse._SubParsersAction) for name in a.choices]
    known = {WORKLOADS: (*names(), *networks()), TARGETS: tuple(PRESETS), TOPICS: tuple(dict.fromkeys(topics))}
    files = {DIRECTORIES: shtab.DIRECTORY, FILES: shtab.FILE}
    for action in _actions(parser):
        kind = COMPLETED.get(action.dest)
        if kind is not None and not action.choices:
            # tcsh takes words from one command: the files of the working directory are among them, those of others are not.
            here = "" if kind == TOPICS else "; ls"
            words = {"bash": f"_autosched_{kind}", "zsh": f"_autosched_{kind}",
                     "tcsh": f"`echo {' '.join(known.get(kind, ()))}{here}`"}
            action.complete = files.get(kind, words)  # type: ignore[attr-defined]
    print(shtab.complete(parser, args.shell, preamble=_preamble(known)))  # type: ignore[arg-type]
    return Exit.OK


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for sub in dict.fromkeys(action.choices.values()):
                yield from _actions(sub)


def _preamble(known: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """What completes names; files as well, where a workload or a target may be one."""
    bash, zsh = [], []
    for kind, words in known.items():
        files = ("", "") if kind == TOPICS else (' compgen -f -- "$1";', " _files")
        bash.append(f'_autosched_{kind}() {{ compgen -W "{" ".join(words)}" -- "$1";{files[0]} }}')
        zsh.append(f"_autosched_{kind}() {{ compadd -- {' '.join(words)};{files[1]} }}")
    return {"bash": "\n".join(bash), "zsh": "\n".join(zsh), "tcsh": ""}
