"""``FILE.py:FUNC``: a program of the user's own, and what is said of a file that does not give one."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import json
import os
import sys
import traceback
import warnings
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from autosched.errors import AutoschedError, ProgramError, UnknownNameError, shortened, suggest
from autosched.ir import interp
from autosched.ir.expr import int_value
from autosched.ir.inside import require_inside
from autosched.ir.stmt import IRModule, PrimFunc
from autosched.ir.structural import structural_hash
from autosched.ir.verify import check
from autosched.script import parse
from autosched.workloads.apart import LOST, told
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
    path, answer = _asked(file, attribute)
    if "type" in answer:
        raise ProgramError(f"{name}: expected a PrimFunc or a function that returns one, got {answer['type']}")
    if "script" in answer:
        with warnings.catch_warnings():
            # What there is to say of the program was said where it was written.
            warnings.simplefilter("ignore")
            func = parse(answer["script"])
        assert isinstance(func, PrimFunc) and structural_hash(func) == answer["key"], f"{name} is not what it prints"
        return of_func(func, name)
    # A reference of the user's own is Python that no text carries: only then the file runs in this process as well.
    with _apart(path.parent):
        try:
            found = load(path, attribute)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise blame(error, file, path) from error
    if not isinstance(found, Workload):
        raise ProgramError(f"{name}: expected the same Workload again, got {type(found).__name__}")
    return found


def trace_from_file(name: str) -> list[dict[str, Any]]:
    """The trace of a schedule of the user's own, as JSON objects: its steps, none of which is the file's code.

    Args:
        name: ``FILE.py:FUNC``; FUNC is a ``Schedule`` of the file, or a function without arguments that returns one.

    Raises:
        ProgramError, UnknownNameError: as ``from_file``.
    """
    file, colon, attribute = name.strip().rpartition(":")
    if not colon or not file.endswith(".py"):
        raise ProgramError(f"a schedule is given as FILE.py:FUNC, got {name!r}")
    _, answer = _asked(file, attribute)
    if "trace" not in answer:
        got = answer.get("type") or ("Workload" if "workload" in answer else "PrimFunc")
        raise ProgramError(f"{name}: expected a Schedule or a function that returns one, got {got}")
    trace: list[dict[str, Any]] = answer["trace"]
    return trace


def _asked(file: str, attribute: str) -> tuple[Path, dict[str, Any]]:
    """A user's file, and what it gives under a name, told by another process."""
    path = Path(file).expanduser()
    if not path.is_file():
        near = [str(p) for p in path.parent.glob("*.py") if p.is_file()] if path.parent.is_dir() else []
        raise ProgramError(f"no file {file}{suggest(file, near)}")
    path = path.resolve()
    answer = told(file, path, attribute)
    for text in answer.get("warnings", ()):
        warnings.warn(text, stacklevel=3)
    if "unknown" in answer:
        raise UnknownNameError(*answer["unknown"])
    if "error" in answer:
        raise ProgramError(answer["error"])
    return path, answer


def tell(file: str, path: str, attribute: str) -> NoReturn:
    """In the child: says on standard output what a file gives, as JSON, and ends the process.

    ``script`` and ``key`` of a program; ``workload`` alone for a ``Workload``; the ``type`` of anything else; ``error`` or
    ``unknown`` where it does not get so far; ``warnings`` that came with a program.

    Args:
        file: the file as the user typed it.
        path: the same, absolute.
        attribute: what is wanted of it.
    """
    # Whatever the file prints, by Python or past it, goes where errors go.
    asked = os.getpid()
    out = os.dup(1)
    os.dup2(2, 1)
    code = 0
    answer: dict[str, Any]
    with warnings.catch_warnings(record=True) as caught, _apart(Path(path).parent):
        try:
            answer = _described(load(Path(path), attribute))
        except MemoryError:
            answer, code = {}, LOST
        except UnknownNameError as error:
            answer = {"unknown": [error.what, error.name, error.known]}
        except BaseException as error:  # noqa: BLE001 - whatever a file raises is told by the parent
            answer = {"error": str(blame(error, file, Path(path)))}
    if os.getpid() != asked:
        # A copy that the file has made of this process and let return: it was not asked.
        os._exit(0)
    answer["warnings"] = [str(w.message) for w in caught] if "script" in answer else []
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # the file has closed it, or put another one there
            stream.flush()
    try:
        with os.fdopen(out, "wb") as pipe:
            pipe.write(json.dumps(answer).encode())
    except OSError:  # the file has closed what is not its own
        code = 1
    # Threads that the file has left running are not waited for.
    os._exit(code)


def _described(found: Any) -> dict[str, Any]:
    if isinstance(found, IRModule) and len(found.functions) == 1:
        found = next(iter(found.functions.values()))
    if isinstance(found, Workload):
        return {"workload": found.name}
    if isinstance(found, PrimFunc):
        return {"script": found.script(), "key": structural_hash(found)}
    # Most files hold a program alone, and have no use for primitives.
    from autosched.schedule import Schedule

    if isinstance(found, Schedule):
        return {"type": "Schedule", "trace": found.trace.as_json()}
    return {"type": type(found).__name__}


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
        said = f"{type(error).__name__}: {_text(error)}".rstrip(": ")
    first = next((part.strip() for part in said.splitlines() if part.strip()), type(error).__name__)
    return ProgramError(f"{name}:{line}: {shortened(first, _LONGEST)}" if line else f"{name}: {shortened(first, _LONGEST)}")


def _text(error: BaseException) -> str:
    """What an exception of a user's file says; making it is the file's own code."""
    try:
        return str(error)
    except Exception as another:  # noqa: BLE001 - as above
        return f"its text raises {type(another).__name__}"


def of_func(func: PrimFunc, name: str | None = None) -> Workload:
    """A workload of a program; its reference is the program itself, run by the interpreter.

    Args:
        func: the program.
        name: how to call it; default the program's name.

    Raises:
        ProgramError: it is malformed, certainly reads or writes outside a buffer, or has a tensor without elements.
    """
    check(func)
    require_inside(func)
    for buffer in func.buffers:
        if 0 in map(int_value, buffer.shape):
            raise ProgramError(f"{func.name}: {buffer.name} has no elements")
    label = name or func.name
    return Workload(label, func, partial(_interpret, func), 0, label, tuple(None for _ in func.buffers))


def _interpret(func: PrimFunc, *inputs: Array) -> Array | tuple[Array, ...]:
    outputs = interp.run(func, *inputs)
    return tuple(outputs) if len(outputs) > 1 else outputs[0]
