"""The ways into the language: ``parse``, ``from_source``, ``@prim_func`` and ``@ir_module``."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any, overload

from autosched.errors import ProgramError, UnknownNameError
from autosched.ir.print_expr import identifier
from autosched.ir.repeated import warn_of_program
from autosched.ir.stmt import IRModule, PrimFunc
from autosched.script.evaluate import Evaluator, Scopes
from autosched.script.forms import BufferSpec, DType
from autosched.script.parser import FunctionParser
from autosched.script.source import LANGUAGE, Source, imports, names_of, of_function, of_text

_FIELDS = frozenset({"params", "body", "name", "attrs", "value_ranges"})


def _parse_def(
    node: ast.FunctionDef, source: Source, names: tuple[Mapping[str, Any], ...], func: FunctionType | None = None
) -> PrimFunc:
    ev = Evaluator(Scopes(*names), source.where, source.line_offset, source.column_offset)
    if func is not None:
        _check_annotations(node, func, ev)
    read = FunctionParser(ev).parse(node)
    warn_of_program(read)
    return read


def _check_annotations(node: ast.FunctionDef, func: FunctionType, ev: Evaluator) -> None:
    """Annotations are not part of a function's code, so they are compared apart.

    Raises:
        ProgramError: the types in the text are not those that the function was defined with.
    """
    try:
        given = func.__annotations__
    except NameError:  # Evaluated late, by Python 3.14; the parser says which name.
        return
    for arg in node.args.args:
        defined, spelled = given.get(arg.arg), arg.annotation
        if spelled is None:
            continue
        if isinstance(defined, str):
            quoted = isinstance(spelled, ast.Constant) and isinstance(spelled.value, str)
            text = str(spelled.value) if quoted and isinstance(spelled, ast.Constant) else ast.unparse(spelled)
            changed = text != defined and ast.unparse(ast.parse(defined)) != text
        elif isinstance(defined, BufferSpec | DType):
            try:
                now = ev.eval(spelled)
            except ProgramError:
                continue
            changed = isinstance(now, BufferSpec | DType) and repr(now) != repr(defined)
        else:
            continue  # Of another package.
        if changed:
            ev.fail(arg, f"the type of parameter {arg.arg} reads otherwise now than when {node.name!r} was defined: a name in "
                         "it, or the text itself, was changed since; define it again")


def parse(program: str | Callable[..., Any] | type | PrimFunc | IRModule, /, **extern: Any) -> PrimFunc | IRModule:
    """A program from its text, or from a Python function.

    Args:
        program: TVMScript text (a function, a module class, or a whole file), a function, or a class of functions.
        extern: values of names that the text uses and does not define.

    Returns:
        A ``PrimFunc`` if the text holds one function, else an ``IRModule``.

    Raises:
        ProgramError: the text is not a program; with line, column, and the nearest valid name.
    """
    if isinstance(program, PrimFunc | IRModule):
        return program
    if isinstance(program, str):
        return _parse_text(of_text(program), extern)
    if isinstance(program, type):
        module: IRModule = ir_module(program)
        return module
    if isinstance(program, FunctionType):
        source, node = of_function(program)
        return _parse_def(node, source, (extern, *names_of(program)), program)
    raise TypeError(f"expected program text or a function, got {type(program).__name__}")


def from_source(program: str | Callable[..., Any], extra_vars: Mapping[str, Any] | None = None, **_: Any) -> Any:
    """``parse`` under TVM's name; ``extra_vars`` are its ``extern``."""
    return parse(program, **dict(extra_vars or {}))


def parse_file(path: str | Path, name: str | None = None) -> PrimFunc | IRModule:
    """The program in a file, without running the file.

    Args:
        path: a Python file with decorated functions or module classes.
        name: which function, where there are several.

    Raises:
        ProgramError: it is not a program.
        UnknownNameError: no function of that name.
        OSError: the file cannot be read.
    """
    where = Path(path)
    result = _parse_text(of_text(where.read_text(encoding="utf-8"), where.name), {}, name)
    if name is None:
        return result
    if isinstance(result, PrimFunc):
        return result
    if name not in result.functions:
        raise UnknownNameError(f"function in {where.name}:", name, result.functions)
    return result[name]


def _parse_text(source: Source, extern: Mapping[str, Any], only: str | None = None) -> PrimFunc | IRModule:
    found: dict[str, PrimFunc] = {}
    is_module = False
    module_names: dict[str, Any] = {}
    names = (extern, module_names, LANGUAGE)
    ev = Evaluator(Scopes(*names), source.where, source.line_offset, source.column_offset)
    for node in source.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module_names.update(imports(node))
        elif isinstance(node, ast.FunctionDef) and _is_program(node):
            if only is None or node.name == only:
                found[node.name] = _parse_def(node, source, names)
        elif isinstance(node, ast.ClassDef):
            is_module = True
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and _is_program(inner) and only in (None, inner.name):
                    func = _parse_def(inner, source, names)
                    # A key that Python cannot spell is stated by the function's attributes, as the printer does.
                    found[func.name if identifier(func.name) == inner.name else inner.name] = func
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            # A constant above the functions; anything else up here is the file's own business.
            try:
                module_names[node.targets[0].id] = ev.eval(node.value)
            except ProgramError:
                continue
    if not found:
        if only is not None:
            raise UnknownNameError(f"function in {source.where or 'the text'}:", only, _program_names(source.tree))
        raise ProgramError("no program found: expected a function under @T.prim_func, or a class under @I.ir_module")
    if len(found) == 1 and not is_module:
        return next(iter(found.values()))
    return IRModule(found)


def _program_names(tree: ast.Module) -> list[str]:
    return [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and _is_program(n)]


def _is_program(node: ast.FunctionDef) -> bool:
    if not node.decorator_list:
        return any(_mentions_language(a.annotation) for a in node.args.args if a.annotation is not None)
    for d in node.decorator_list:
        text = ast.unparse(d.func if isinstance(d, ast.Call) else d)
        if text.endswith("prim_func") or text in ("tvm.script.tir", "script.tir"):
            return True
    return False


def _mentions_language(node: ast.expr) -> bool:
    return ast.unparse(node).startswith(("T.", "tir.", "ty."))


class LazyPrimFunc(PrimFunc):
    """A function that is read at its first use, then an ordinary ``PrimFunc``.

    Args:
        func: the Python function.
        frame_locals: names around its definition, as they were then.
    """

    def __init__(self, func: FunctionType, frame_locals: Mapping[str, Any] | None = None) -> None:
        object.__setattr__(self, "_pending", (func, names_of(func, frame_locals), None))

    def find(self) -> None:
        """Finds the text now, where only the caller holds it; an error waits for the first use."""
        func, names, found = object.__getattribute__(self, "_pending")
        if found is None and not Path(func.__code__.co_filename).is_file():
            with suppress(ProgramError):
                object.__setattr__(self, "_pending", (func, names, of_function(func)))

    def __getattribute__(self, name: str) -> Any:
        if name in _FIELDS:
            self.force()
        return object.__getattribute__(self, name)

    def force(self) -> PrimFunc:
        """Reads the text now.

        Raises:
            ProgramError: as ``parse`` does; again at each use.
        """
        func, names, found = object.__getattribute__(self, "_pending")
        source, node = of_function(func) if found is None else found
        done = _parse_def(node, source, names, func)
        own = object.__getattribute__(self, "__dict__")
        own.clear()
        own.update(done.__dict__)
        object.__setattr__(self, "__class__", PrimFunc)
        return self

    def __reduce__(self) -> Any:
        done = self.force()
        return PrimFunc, (done.params, done.body, done.name, done.attrs, done.value_ranges)


@overload
def prim_func(func: Callable[..., Any]) -> PrimFunc: ...
@overload
def prim_func(
    func: None = None, *, private: bool = False, check_well_formed: bool = True, s_tir: bool = True, lazy: bool = False
) -> Callable[[Callable[..., Any]], PrimFunc]: ...


def prim_func(
    func: Callable[..., Any] | None = None, *, private: bool = False, check_well_formed: bool = True,
    s_tir: bool = True, lazy: bool = False,
) -> PrimFunc | Callable[[Callable[..., Any]], PrimFunc]:
    """The decorator that turns a Python function in TVMScript into a program.

    It reads the text of the function, which must therefore be held somewhere: in a file, a notebook cell, a doctest, the
    argument of ``python -c``, the history of a prompt, or a string that the caller of ``exec`` still has. Only text that
    compiles to this very function counts; else the error says so, and ``parse`` takes the text itself.

    Args:
        func: the function; None when used with options.
        private: accepted for TVM's sake: the name of a function is not part of it.
        check_well_formed: accepted for TVM's sake; malformed programs are refused where they are used.
        s_tir: accepted for TVM's sake: every program may hold blocks.
        lazy: read the text at first use, so that errors appear there and importing stays fast.

    Raises:
        ProgramError: the function is not a program, with line and column; at first use when ``lazy``.
    """
    frame = sys._getframe(1)

    def make(f: Callable[..., Any]) -> PrimFunc:
        if not isinstance(f, FunctionType):
            raise ProgramError(f"prim_func decorates functions, got {type(f).__name__}")
        around = dict(frame.f_locals) if frame.f_locals is not frame.f_globals else {}
        pending = LazyPrimFunc(f, around)
        if not lazy:
            return pending.force()
        pending.find()
        return pending

    return make if func is None else make(func)


def ir_module(cls: Any = None, **options: Any) -> Any:
    """The decorator that collects the programs of a class into a module.

    Args:
        cls: the class; None when used with options.
        options: accepted for TVM's sake.

    Raises:
        ProgramError: the class holds no program.
    """
    if cls is None:
        return lambda c: ir_module(c)
    functions = {name: f for name, f in vars(cls).items() if isinstance(f, PrimFunc)}
    if not functions:
        raise ProgramError(f"class {cls.__name__} holds no function under @T.prim_func")
    return IRModule(functions)
