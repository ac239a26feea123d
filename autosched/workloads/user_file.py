"""``FILE.py:FUNC``: a program of the user's own, and what is said of a file that does not give one."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
import traceback
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from autosched.errors import AutoschedError, ProgramError, UnknownNameError, shortened, suggest
from autosched.ir import interp
from autosched.ir.stmt import IRModule, PrimFunc
from autosched.workloads.rehearsal import rehearse
from autosched.workloads.workload import Array, Workload

_LONGEST = 400  # characters of a message that a user's file may put into ours


def from_file(name: str, file: str, attribute: str) -> Workload:
    """A user's own program; its reference is the interpreter.

    Args:
        name: how the workload is called: ``FILE.py:FUNC`` as it was typed.
        file: path of a Python file; it may import its neighbours.
        attribute: a program of the file, or a function without arguments that returns one.

    Raises:
        ProgramError: there is no such file, or it raises, ends the process, or gives something else; the line says file, line
            number and error.
        UnknownNameError: the file has no such function.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        near = [str(p) for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise ProgramError(f"no file {file}{suggest(file, near)}")
    path = path.resolve()
    rehearse(file, path, attribute)
    with _apart(path.parent):
        try:
            found = load(path, attribute)
        except UnknownNameError:
            raise
        except (Exception, SystemExit) as error:
            raise blame(error, file, path) from error
    if isinstance(found, IRModule) and len(found.functions) == 1:
        found = next(iter(found.functions.values()))
    if isinstance(found, Workload):
        return found
    if not isinstance(found, PrimFunc):
        raise ProgramError(f"{name}: expected a PrimFunc or a function that returns one, got {type(found).__name__}")
    return of_func(found, name)


@contextlib.contextmanager
def _apart(directory: Path) -> Iterator[None]:
    """What the file prints goes to standard error, for standard output is data; its folder is where it may import from."""
    folder = str(directory)
    sys.path.insert(0, folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def load(path: Path, attribute: str) -> Any:
    """What a file gives under a name; whatever the file raises comes out.

    Args:
        path: the file, absolute.
        attribute: a name of it, or a function without arguments, which is called.
    """
    # The name depends on the path, so that two files of one name do not replace each other.
    module_name = f"_autosched_user_{path.stem}_{zlib.crc32(str(path).encode()):x}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    if not attribute or not hasattr(module, attribute):
        public = [n for n in vars(module) if not n.startswith("_")]
        usable = [n for n in public if isinstance(getattr(module, n), PrimFunc | Workload) or callable(getattr(module, n))]
        raise UnknownNameError(f"function of {path.name}", attribute, usable)
    found = getattr(module, attribute)
    if not callable(found) or isinstance(found, PrimFunc | IRModule | Workload | type):
        return found
    wanted = _required(found)
    if wanted:
        line = getattr(getattr(found, "__code__", None), "co_firstlineno", None)
        text = f"{attribute} needs arguments ({', '.join(wanted)}), and is called without any: give them defaults"
        raise ProgramError(text, line)
    return found()


def _required(function: Any) -> list[str]:
    """The parameters of a function that have no default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def blame(error: BaseException, file: str, path: Path) -> ProgramError:
    """The one line about what a user's file did: file, line number, error.

    Args:
        error: what came out of it.
        file: the file as the user typed it.
        path: the same, absolute; where an import of its neighbours failed, the neighbour is named.
    """
    places = [(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        places.append((error.filename, error.lineno))
    # The deepest line that is the user's: deeper ones are of libraries, which are not at fault.
    mine = [(Path(where), number) for where, number in places if Path(where).parent == path.parent]
    name, line = (str(Path(file).with_name(mine[-1][0].name)), mine[-1][1]) if mine else (file, None)
    if isinstance(error, SyntaxError):
        said = f"{type(error).__name__}: {error.msg}"
    elif isinstance(error, ProgramError):
        line = error.line or line
        said = error.message.removesuffix(f" [{path.name}]")
    elif isinstance(error, AutoschedError):
        said = str(error)
    elif isinstance(error, SystemExit):
        said = f"the file ends the process (SystemExit: {error.code})"
    else:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
    first = next((part.strip() for part in said.splitlines() if part.strip()), type(error).__name__)
    return ProgramError(f"{name}:{line}: {shortened(first, _LONGEST)}" if line else f"{name}: {shortened(first, _LONGEST)}")


def of_func(func: PrimFunc, name: str | None = None) -> Workload:
    """A workload of a program; its reference is the program itself, run by the interpreter.

    Args:
        func: the program.
        name: how to call it; default the program's name.
    """
    label = name or func.name
    return Workload(label, func, partial(_interpret, func), 0, label, tuple(None for _ in func.buffers))


def _interpret(func: PrimFunc, *inputs: Array) -> Array | tuple[Array, ...]:
    outputs = interp.run(func, *inputs)
    return tuple(outputs) if len(outputs) > 1 else outputs[0]
