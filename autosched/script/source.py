"""Where program text comes from: functions, files, notebooks, strings."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from autosched.errors import ProgramError
from autosched.ir.depth import TOO_DEEP
from autosched.script.locate import locate
from autosched.script.namespace import I, Namespace, T

# Python's parser refuses these without saying where.
_UNREADABLE = re.compile("[\\0\\ud800-\\udfff]")


@dataclass(frozen=True)
class Source:
    """Text with its place in the file it came from.

    Args:
        tree: the parsed text.
        where: file name for messages, or an empty string.
        line_offset: lines of the file before the text.
        column_offset: indentation that was removed.
    """

    tree: ast.Module
    where: str = ""
    line_offset: int = 0
    column_offset: int = 0


def of_text(text: str, where: str = "", line_offset: int = 0) -> Source:
    """The source of a string; common indentation is removed.

    Raises:
        ProgramError: it is not Python.
    """
    plain = textwrap.dedent(text)
    first = next((line for line in text.splitlines() if line.strip()), "")
    indent = len(first) - len(first.lstrip()) if plain != text else 0
    odd = _UNREADABLE.search(text)
    if odd is not None:
        before = text[:odd.start()]
        raise ProgramError(
            f"not Python: the character {odd[0]!a} cannot stand in a text" + (f" [{where}]" if where else ""),
            before.count("\n") + 1 + line_offset, odd.start() - (before.rfind("\n") + 1) + 1,
        )
    try:
        tree = ast.parse(plain)
    except (RecursionError, MemoryError):
        raise ProgramError(TOO_DEEP + (f" [{where}]" if where else "")) from None
    except SyntaxError as error:
        line = None if error.lineno is None else error.lineno + line_offset
        column = None if error.offset is None else error.offset + indent
        raise ProgramError(f"not Python: {error.msg}" + (f" [{where}]" if where else ""), line, column) from error
    return Source(tree, where, line_offset, indent)


def of_function(func: FunctionType) -> tuple[Source, ast.FunctionDef]:
    """The source of a Python function, and its definition in there.

    Raises:
        ProgramError: no text compiles to this function, with what to do instead.
    """
    tree, node, where = locate(func)
    return Source(tree, where), node


def names_of(func: FunctionType, frame_locals: Mapping[str, Any] | None = None) -> tuple[Mapping[str, Any], ...]:
    """The names that a function sees: its closure, the locals around its definition, its module."""
    closure: dict[str, Any] = {}
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or ()):
        try:
            closure[name] = cell.cell_contents
        except ValueError:
            continue  # Not assigned yet; an error will say so if the program uses it.
    return (closure, frame_locals or {}, adopt(func.__globals__), LANGUAGE)


def adopt(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """The names of a module, with another package's script dialect replaced by this one."""
    foreign = {
        key: LANGUAGE[key] for key in ("T", "I", "tir", "tvm")
        if isinstance(names.get(key), ModuleType) and str(names[key].__name__).partition(".")[0] == "tvm"
    }
    return {**names, **foreign} if foreign else names


def imports(node: ast.Import | ast.ImportFrom) -> dict[str, Any]:
    """What an import line of a program text binds: only the language itself can be imported."""
    bound: dict[str, Any] = {}
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        last = alias.name.rpartition(".")[2]
        if last in ("T", "tir", "tirx", "ty"):
            bound[name] = T
        elif last in ("I", "ir"):
            bound[name] = I
        elif last in ("tvm", "script", "autosched"):
            bound[name] = LANGUAGE["tvm"]
    return bound


def _language() -> dict[str, Any]:
    script = Namespace("tvm.script", {"tir": T, "ty": T, "T": T, "I": I, "ir": I, "tirx": T})
    tvm = Namespace("tvm", {"script": script, "tir": T, "tirx": T, "T": T, "I": I, "ir": I})
    return {"T": T, "I": I, "tir": T, "ty": T, "tvm": tvm}


LANGUAGE: dict[str, Any] = _language()
