"""The table of commands. A command's module is loaded when the command is asked for, so that ``--help`` loads nothing heavy."""

from __future__ import annotations

import argparse
import importlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.cli.options import Parser


@dataclass(frozen=True)
class Command:
    """A command.

    Args:
        module: module of this package whose ``OPTIONS`` has, under the command's name, the function that adds its options.
        text: what it does, for ``--help``.
        example: one that works as it stands.
    """

    module: str
    text: str
    example: str


# In the order of ``--help``.
COMMANDS = {
    "tune": Command("tune_command", "search for the best schedule of a workload or a network",
                    "autosched tune resnet18.c8 --trials 64 --jobs 2"),
    "best": Command("log_commands", "the best logged schedules", "autosched best resnet18 --format json"),
    "show": Command("log_commands", "a schedule as a program, a trace, instructions or a Gantt chart",
                    "autosched show resnet18.c8 --as gantt"),
    "apply": Command("log_commands", "run the best logged schedule on NumPy files or random data, bit-exactly",
                     "autosched apply t3 --input data=x.npy --output y.npy"),
    "export": Command("log_commands", "write a program file that any VTA implementation can run and check",
                      "autosched export t3 --target vta-pynq -o t3.json"),
    "space": Command("space_command", "size of a workload's design space and the draft's favourites",
                     "autosched space dense:m=1,k=256,n=256 --top 3"),
    "oracle": Command("oracle_command", "the proven optimum of a small design space, and how far every sampler is off",
                      "autosched oracle dense:m=1,k=64,n=64 --sampler draft --trials 8"),
    "run": Command("network_commands", "run a quantized network from an ONNX file, bit-exactly",
                   "autosched run digits_q.onnx --input digits_test.npz --check"),
    "quantize": Command("network_commands", "make a network's scales powers of two",
                        "autosched quantize net.onnx --calibrate images.npz -o net_q.onnx"),
    "explain": Command("explain_command", "where a schedule's cycles go, and what keeps it from the machine's bound",
                       "autosched explain resnet18.c10 --target vta-de10"),
    "compare": Command("compare_command", "what differs between two schedules, machines or logs, and what it is worth",
                       "autosched compare resnet18.c8 resnet18.c8@vta-de10-portable"),
    "report": Command("report_command", "write one offline HTML page about a workload, a network or a log",
                      "autosched report resnet18 -o report.html"),
    "db": Command("db_command", "look after a log: best, list, merge, fsck, compact, verify, export, import",
                  "autosched db list --shipped"),
    "sim": Command("sim_command", "run a program file on the simulator", "autosched sim t3.json --check --stats"),
    "list": Command("list_command", "names of workloads and targets, and the runs of a log", "autosched list workloads"),
    "help": Command("help_command", "what a command does, and its options", "autosched help tune"),
    "completion": Command("help_command", "a script that completes commands, options and names in a shell",
                          "autosched completion bash"),
}


def build_parser(argv: Sequence[str] = (), everything: bool = False) -> Parser:
    """The parser of all commands.

    Args:
        argv: the words of the command line; only the command that they ask for has its options.
        everything: whether all commands have their options.
    """
    parser = Parser(
        prog="autosched", description="Find, prove and apply the best schedule of a tensor program on a VTA.",
        epilog="example: autosched tune resnet18.c8", formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    asked = next((word for word in argv if not word.startswith("-")), None)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(
            name, help=command.text, description=command.text, epilog=f"example: {command.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if everything or name == asked:
            importlib.import_module(f"autosched.cli.{command.module}").OPTIONS[name](sub)
    return parser


def _version() -> str:
    from autosched import __version__

    return f"autosched {__version__}"


def tune_hint(args: argparse.Namespace, workload: str) -> str:
    """The command that would find what is missing, with the flags that the user gave.

    Args:
        args: the command line that found nothing.
        workload: what to tune.
    """
    words = ["autosched", "tune", workload]
    for flag in ("target", "log", "rounding"):
        value = getattr(args, flag, None)
        if value is not None and (flag, value) != ("target", "vta-de10"):
            words += [f"--{flag}", str(value)]
    for shape in getattr(args, "shape", []):
        words += ["--shape", shape]
    return shlex.join(words)
