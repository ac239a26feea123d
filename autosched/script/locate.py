"""The definition of a Python function in the text that it was compiled from.

A text is believed only if compiling it gives the very code of the function (instructions, constants, names, line
numbers): a stale file, a file of the same name, or another cell never stands in for it. Looked at, in this order:

* what ``linecache`` knows under the code's file name: files, notebook cells, doctests, ``python -c`` and the prompt of
  Python 3.13;
* the command line (``python -c``), and standard input where that is a file;
* the history of the prompt, which holds what was typed up to Python 3.12;
* texts that the callers still hold: ``exec(text)``, ``code.InteractiveConsole``.
"""

from __future__ import annotations
import __future__

import ast
import importlib.machinery
import inspect
import linecache
import os
import stat
import sys
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType

from autosched.errors import ProgramError

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag
# Longest history and deepest stack that are searched.
_HISTORY, _FRAMES = 400, 200


def locate(func: FunctionType) -> tuple[ast.Module, ast.FunctionDef, str]:
    """The text that defines a function.

    Args:
        func: a function of Python; decorators that keep ``__wrapped__`` are looked through.

    Returns:
        The parsed text, the definition in it, and the name of its file.

    Raises:
        ProgramError: nothing that is still held compiles to this function.
    """
    code = inspect.unwrap(func).__code__
    if code.co_name == "<lambda>":
        raise ProgramError("the source of a lambda does not hold a program; write it as an ordinary def")
    where = Path(code.co_filename).name
    stale = Path(code.co_filename).is_file()
    file_text = "".join(linecache.getlines(code.co_filename, func.__globals__))
    found = _find(file_text, code)
    if found is None and stale:
        linecache.checkcache(code.co_filename)
        file_text = "".join(linecache.getlines(code.co_filename, func.__globals__))
        found = _find(file_text, code)
    if found is not None:
        return *found, where
    for text in _elsewhere(code):
        found = _find(text, code)
        if found is not None:
            return *found, where
    if stale and file_text:
        near = _rewritten(file_text, code, func)
        if near is not None:
            return *near, where
    why = (
        f"line {code.co_firstlineno} of {where} does not hold it: the file was changed after it was read, or another text "
        "was compiled under its name" if stale else
        "it was read from a pipe, or made by exec from a text that nobody holds any more"
    )
    raise ProgramError(
        f"the source of function {func.__name__!r} is not available ({why}); write it to a file or a notebook cell, or "
        "pass its text to autosched.script.parse('''...''')"
    )


def _elsewhere(code: CodeType) -> Iterator[str]:
    """Texts that may have been compiled under the name of the code's file."""
    if code.co_filename == "<string>":
        for argument in sys.orig_argv[1:]:
            yield argument
            if argument[:1] == "-" and "c" in argument:
                yield argument[argument.index("c") + 1:]  # python -Ictext
    if code.co_filename == "<stdin>":
        yield from _standard_input()
        yield from _typed(code)
    yield from _held(f"def {code.co_name}")


def _standard_input() -> Iterator[str]:
    """All of standard input where it is a file, wherever its reader stands."""
    try:
        status = os.fstat(0)
        if stat.S_ISREG(status.st_mode) and hasattr(os, "pread"):
            yield os.pread(0, status.st_size, 0).decode()
    except (OSError, UnicodeDecodeError):
        return


def _typed(code: CodeType) -> Iterator[str]:
    """What was typed at a prompt that keeps a history, the latest first; blank lines are not in it."""
    readline = sys.modules.get("readline")
    if readline is None:
        return
    count = readline.get_current_history_length()
    items = (readline.get_history_item(i) for i in range(max(1, count - _HISTORY), count + 1))
    lines = [item for item in items if item is not None]
    for start in range(len(lines) - 1, -1, -1):
        # One statement is compiled at a time, and the function is the last thing typed, or is inside it.
        text = "\n".join(lines[start:]) + "\n"
        if lines[start][:1] not in ("", " ", "\t", "#", ")", "]", "}") and f"def {code.co_name}" in text:
            yield text


def _held(marker: str) -> Iterator[str]:
    """Strings with a definition in the variables and constants of the callers, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    seen: set[int] = set()
    for _ in range(_FRAMES):
        if frame is None:
            return
        tables = [frame.f_locals] if frame.f_locals is frame.f_globals else [frame.f_locals, frame.f_globals]
        for values in (*[list(t.values()) for t in tables if id(t) not in seen], frame.f_code.co_consts):
            for value in values:
                if isinstance(value, str) and marker in value and id(value) not in seen:
                    seen.add(id(value))
                    yield value
                    plain = textwrap.dedent(value)
                    if plain != value:
                        yield plain
        seen.add(id(frame.f_globals))
        frame = frame.f_back


@lru_cache(maxsize=8)
def _read(text: str, flags: int) -> tuple[ast.Module, dict[int, list[ast.FunctionDef]], tuple[CodeType, ...]] | None:
    """A text parsed, its definitions by first line, and all code in it; None where it is not Python."""
    try:
        tree = ast.parse(text)
        code = compile(text, "<text>", "exec", flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    table: dict[int, list[ast.FunctionDef]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            table.setdefault(_first_line(node), []).append(node)
    return tree, table, tuple(_codes(code))


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *[d.lineno for d in node.decorator_list]])


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _codes(value)


def _find(text: str, code: CodeType) -> tuple[ast.Module, ast.FunctionDef] | None:
    if code.co_name not in text:
        return None
    read = _read(text, code.co_flags & _FUTURE)
    if read is None:
        return None
    tree, table, codes = read
    nodes = [n for n in table.get(code.co_firstlineno, ()) if n.name == code.co_name]
    if len(nodes) == 1 and any(same_code(c, code) for c in codes if c.co_name == code.co_name):
        return tree, nodes[0]
    return None


def same_code(a: CodeType, b: CodeType) -> bool:
    """Whether two code objects were compiled from the same statements on the same lines."""
    return (
        a.co_name == b.co_name and a.co_firstlineno == b.co_firstlineno and a.co_flags == b.co_flags
        and a.co_argcount == b.co_argcount and a.co_varnames == b.co_varnames and a.co_names == b.co_names
        and a.co_freevars == b.co_freevars and a.co_cellvars == b.co_cellvars and a.co_code == b.co_code
        and len(a.co_consts) == len(b.co_consts) and all(map(_same_constant, a.co_consts, b.co_consts))
        and list(a.co_lines()) == list(b.co_lines())
    )


def _same_constant(a: object, b: object) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return same_code(a, b)
    if isinstance(a, frozenset):
        return type(a) is type(b) and a == b
    return type(a) is type(b) and repr(a) == repr(b)  # Tells 1 from True, and 0.0 from -0.0.


def _rewritten(text: str, code: CodeType, func: FunctionType) -> tuple[ast.Module, ast.FunctionDef] | None:
    """The definition in a file whose loader changes what it compiles, as that of pytest does with assertions."""
    spec = func.__globals__.get("__spec__")
    loader = None if spec is None else spec.loader
    if spec is None or loader is None or type(loader) is importlib.machinery.SourceFileLoader or spec.origin != code.co_filename:
        return None
    read = _read(text, code.co_flags & _FUTURE)
    nodes = [] if read is None else [n for n in read[1].get(code.co_firstlineno, ()) if n.name == code.co_name]
    if read is None or len(nodes) != 1:
        return None
    spelled = nodes[0].args
    names = [a.arg for a in (*spelled.posonlyargs, *spelled.args)]
    return (read[0], nodes[0]) if names == list(code.co_varnames[:code.co_argcount]) else None
