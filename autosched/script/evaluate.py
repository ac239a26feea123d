"""Evaluates the expressions of a program: Python syntax over IR values.

Numbers, tuples, dictionaries and closure constants are Python's own; an operation with an IR operand builds an IR node.
``==``, ``and``, ``or``, ``not`` and ``a if c else b`` mean the IR's operations there, which Python objects could not
express.
"""

from __future__ import annotations

import ast
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from autosched.errors import AutoschedError, ProgramError, suggest
from autosched.ir.expr import (
    BufferData,
    BufferLoad,
    Expr,
    IntImm,
    Var,
    as_expr,
    binary,
)
from autosched.ir.functor import expr_children
from autosched.ir.stmt import Buffer, BufferRegion
from autosched.ir.verify import misfit
from autosched.script import ops
from autosched.script.access import View, access, buffer_attribute
from autosched.script.forms import Form, describe, loop_range
from autosched.script.limits import Budget, check_attribute, check_format, check_operation, check_size

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add), ast.Sub: ("-", operator.sub), ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv), ast.FloorDiv: ("//", operator.floordiv), ast.Mod: ("%", operator.mod),
    ast.LShift: ("shift_left", operator.lshift), ast.RShift: ("shift_right", operator.rshift),
    ast.BitAnd: ("bitwise_and", operator.and_), ast.BitOr: ("bitwise_or", operator.or_),
    ast.BitXor: ("bitwise_xor", operator.xor), ast.Pow: ("pow", operator.pow),
}
_COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq), ast.NotEq: ("!=", operator.ne), ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le), ast.Gt: (">", operator.gt), ast.GtE: (">=", operator.ge),
}
_BUILTINS: dict[str, Any] = {
    "range": loop_range, "min": ops.minimum, "max": ops.maximum, "len": len, "int": int, "float": float, "bool": bool,
    "abs": lambda x: ops.OPS["abs"](x) if isinstance(x, Expr) else abs(x), "tuple": tuple, "list": list, "str": str,
    "sum": lambda xs, start=0: _sum(xs, start), "zip": zip, "enumerate": enumerate, "dict": dict, "sorted": sorted,
    "reversed": reversed, "all": ops.all_of, "any": ops.any_of, "True": True, "False": False, "None": None,
}
_CATCH = (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError)


def _sum(values: Any, start: Any) -> Any:
    for v in values:
        start = ops.arith("+", start, v) if isinstance(start, Expr) or isinstance(v, Expr) else start + v
    return start


class Scopes:
    """The names that are visible, innermost scope first, over those of the surrounding Python.

    Args:
        outer: names from the closure, the module, or given by the caller.
    """

    def __init__(self, *outer: Mapping[str, Any]) -> None:
        self._outer = outer
        self._frames: list[dict[str, Any]] = [{}]
        self.ended: set[str] = set()

    @contextmanager
    def nested(self) -> Iterator[None]:
        """A scope that ends with the ``with``."""
        self._frames.append({})
        try:
            yield
        finally:
            self.ended.update(self._frames.pop())

    def define(self, name: str, value: Any) -> None:
        """Binds a name in the innermost scope."""
        self._frames[-1][name] = value

    def find(self, name: str) -> tuple[bool, Any]:
        """Whether the name exists, and its value."""
        for frame in reversed(self._frames):
            if name in frame:
                return True, frame[name]
        for names in self._outer:
            if name in names:
                return True, names[name]
        if name in _BUILTINS:
            return True, _BUILTINS[name]
        return False, None

    def local(self) -> list[str]:
        """The names of the program itself."""
        return [name for frame in self._frames for name in frame]

    def known(self) -> list[str]:
        """Every name, for suggestions."""
        return [*self.local(), *(n for names in self._outer for n in names if not n.startswith("_"))]


class Evaluator:
    """Evaluates expression nodes.

    Args:
        scopes: the names.
        where: appended to errors, e.g. a file name; may be empty.
        line_offset: added to line numbers of the tree.
        column_offset: added to column numbers of the tree.
    """

    def __init__(self, scopes: Scopes, where: str = "", line_offset: int = 0, column_offset: int = 0) -> None:
        self.scopes = scopes
        self.where = where
        self.line_offset = line_offset
        self.column_offset = column_offset
        self.budget = Budget()

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        """Raises the error of one place in the text."""
        raise self.error(node, message)

    def error(self, node: ast.AST, message: str) -> ProgramError:
        """The error of one place in the text."""
        line = getattr(node, "lineno", None)
        column = getattr(node, "col_offset", None)
        return ProgramError(
            message + (f" [{self.where}]" if self.where else ""),
            None if line is None else line + self.line_offset,
            None if column is None else column + 1 + self.column_offset,
        )

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Gives errors raised inside the place of ``node``."""
        try:
            yield
        except ProgramError as error:
            if error.line is not None:
                raise
            self.fail(node, error.message)
        except AutoschedError as error:
            self.fail(node, str(error))
        except KeyError as error:
            self.fail(node, f"no key {error}")
        except _CATCH as error:
            self.fail(node, str(error) or type(error).__name__)

    def eval(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            ProgramError: it has no value; with line and column.
        """
        method = getattr(self, "_" + type(node).__name__, None)
        if method is None:
            self.fail(node, f"{type(node).__name__} expressions are not part of the language")
        value = method(node)
        if isinstance(value, Expr) and type(value) not in (Var, BufferLoad):
            self.check_constants(node, (value, *expr_children(value)))
        return value

    def check_constants(self, node: ast.expr, exprs: Iterable[Expr]) -> None:
        """Refuses constants that their types do not hold; ``verify`` says the same of programs made otherwise."""
        for e in exprs:
            fault = misfit(e.value, e.dtype) if type(e) is IntImm else None
            if fault is not None:
                self.fail(node, f"{fault}; widen the other operand (.astype), or write a constant inside the type")

    def expr(self, node: ast.expr) -> Expr:
        """The value of an expression, which must be a scalar."""
        value = self.eval(node)
        with self.at(node):
            return ops.operand(value)

    # Atoms

    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        found, value = self.scopes.find(node.id)
        if not found:
            if node.id in self.scopes.ended:
                self.fail(node, f"name {node.id!r} is not defined here: the loop, block or condition that defined it has ended")
            # A single letter is near to anything.
            near = suggest(node.id, self.scopes.known()) if len(node.id) > 1 else suggest(node.id, self.scopes.local())
            self.fail(node, f"name {node.id!r} is not defined{near}")
        return value

    def _Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._items(node.elts))

    def _List(self, node: ast.List) -> Any:
        return self._items(node.elts)

    def _Set(self, node: ast.Set) -> Any:
        return set(self._items(node.elts))

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        out: list[Any] = []
        for n in nodes:
            if isinstance(n, ast.Starred):
                out.extend(self.eval(n.value))
            else:
                out.append(self.eval(n))
        return out

    def _Dict(self, node: ast.Dict) -> Any:
        out: dict[Any, Any] = {}
        for k, v in zip(node.keys, node.values):
            if k is None:
                out.update(self.eval(v))
            else:
                out[self.eval(k)] = self.eval(v)
        return out

    def _JoinedStr(self, node: ast.JoinedStr) -> Any:
        return "".join(str(self.eval(v)) for v in node.values)

    def _FormattedValue(self, node: ast.FormattedValue) -> Any:
        value = self.eval(node.value)
        spec = "" if node.format_spec is None else str(self.eval(node.format_spec))
        with self.at(node):
            check_size(value)
            check_format(spec)
            return format(value, spec)

    # Operators

    def _BinOp(self, node: ast.BinOp) -> Any:
        a, b = self.eval(node.left), self.eval(node.right)
        entry = _BINARY.get(type(node.op))
        if entry is None:
            self.fail(node, f"the operator {type(node.op).__name__} is not part of the language")
        name, python = entry
        with self.at(node):
            if not _symbolic(a) and not _symbolic(b):
                check_operation(name, a, b)
                return python(a, b)
            if name in ("+", "-", "*", "/", "//", "%"):
                return ops.arith(name, a, b)
            x, y = ops.operand(a), ops.operand(b)
            if name in ("bitwise_and", "bitwise_or") and x.dtype == y.dtype == "bool":
                return binary("and" if name == "bitwise_and" else "or", x, y)
            return ops.OPS[name](a, b)

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.eval(node.operand)
        symbolic = _symbolic(value)
        with self.at(node):
            if isinstance(node.op, ast.USub):
                return ops.negate(value) if symbolic else -value
            if isinstance(node.op, ast.Not):
                return ops.negation(value) if symbolic else not value
            if isinstance(node.op, ast.UAdd):
                return value if symbolic else +value
            return ~ops.operand(value) if symbolic else ~value

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        op = "and" if isinstance(node.op, ast.And) else "or"
        result = self.eval(node.values[0])
        for n in node.values[1:]:
            if not _symbolic(result) and bool(result) == (op == "or"):
                # Decided in Python: ``n == 16 and ...`` with a constant on the left.
                return result
            value = self.eval(n)
            with self.at(n):
                if not _symbolic(result):
                    result = value
                elif not _symbolic(value):
                    result = binary(op, ops.operand(result), as_expr(bool(value)))
                else:
                    result = binary(op, ops.operand(result), ops.operand(value))
        return result

    def _Compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        result: Any = None
        for op, n in zip(node.ops, node.comparators):
            right = self.eval(n)
            with self.at(node):
                term = self._compare(op, left, right)
                if result is None:
                    result = term
                elif _symbolic(result) or _symbolic(term):
                    result = binary("and", ops.operand(result), ops.operand(term))
                else:
                    result = result and term
            left = right
        return result

    def _compare(self, op: ast.cmpop, a: Any, b: Any) -> Any:
        if isinstance(op, ast.Is):
            return a is b
        if isinstance(op, ast.IsNot):
            return a is not b
        check_size(a, b)
        if isinstance(op, ast.In | ast.NotIn):
            if _symbolic(a):
                raise TypeError("'in' is decided when the program is read; it cannot test a value of the program")
            return (a in b) == isinstance(op, ast.In)
        name, python = _COMPARE[type(op)]
        if not _symbolic(a) and not _symbolic(b):
            return python(a, b)
        x, y = ops.operand(a), ops.operand(b)
        return binary(name, *ops.numbers(a, b, x, y))

    def _IfExp(self, node: ast.IfExp) -> Any:
        condition = self.eval(node.test)
        if not _symbolic(condition):
            return self.eval(node.body if condition else node.orelse)
        a, b = self.eval(node.body), self.eval(node.orelse)
        with self.at(node):
            return ops.choose(condition, a, b)

    # Access

    def _Attribute(self, node: ast.Attribute) -> Any:
        owner = self.eval(node.value)
        name = node.attr
        with self.at(node):
            if isinstance(owner, Buffer):
                return buffer_attribute(owner, name)
            if isinstance(owner, View) and name == "data":
                return BufferData(owner.buffer)
            if isinstance(owner, Expr):
                if name == "dtype":
                    return owner.dtype
                if name == "astype":
                    return lambda dtype: ops.cast_value(owner, dtype)
                raise AttributeError(f"an expression has no attribute {name!r}{suggest(name, ('astype', 'dtype'))}")
            if name.startswith("_"):
                raise AttributeError(f"names that start with an underscore cannot be used in a program: {name!r}")
            check_attribute(owner, name)
            return getattr(owner, name)

    def _Subscript(self, node: ast.Subscript) -> Any:
        owner = self.eval(node.value)
        if isinstance(owner, Buffer | View):
            index = self.index(node.slice)
            with self.at(node):
                return access(owner, index)
        key = self.eval(node.slice)
        with self.at(node):
            if isinstance(key, IntImm) and not isinstance(owner, Form):
                key = key.value
            return owner[key]

    def _Slice(self, node: ast.Slice) -> Any:
        return slice(*(None if n is None else self.eval(n) for n in (node.lower, node.upper, node.step)))

    def index(self, node: ast.expr) -> tuple[Any, ...]:
        """The indices inside the brackets of a buffer access."""
        if isinstance(node, ast.Tuple):
            return tuple(self._items(node.elts))
        value = self.eval(node)
        return tuple(value) if isinstance(value, tuple | list) else (value,)

    def _Call(self, node: ast.Call) -> Any:
        func = self.eval(node.func)
        args = self._items(node.args)
        kwargs: dict[str, Any] = {}
        for k in node.keywords:
            if k.arg is None:
                kwargs.update(self.eval(k.value))
            else:
                kwargs[k.arg] = self.eval(k.value)
        if not callable(func):
            self.fail(node, f"{describe(func)} cannot be called")
        with self.at(node):
            if _is_python(func):
                check_size(*args, *kwargs.values())
            try:
                return func(*args, **kwargs)
            except TypeError as error:
                raise TypeError(_call_error(error, ast.unparse(node.func), func)) from error

    # Functions and comprehensions, for meta-programming

    def _Lambda(self, node: ast.Lambda) -> Any:
        names = [a.arg for a in node.args.args]

        def function(*args: Any) -> Any:
            self.budget.step()
            with self.scopes.nested():
                for name, value in zip(names, args, strict=True):
                    self.scopes.define(name, value)
                return self.eval(node.body)

        return function

    def _ListComp(self, node: ast.ListComp) -> Any:
        return list(self._comprehend(node.generators, lambda: self.eval(node.elt)))

    def _GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        return list(self._comprehend(node.generators, lambda: self.eval(node.elt)))

    def _DictComp(self, node: ast.DictComp) -> Any:
        return dict(self._comprehend(node.generators, lambda: (self.eval(node.key), self.eval(node.value))))

    def _comprehend(self, generators: list[ast.comprehension], leaf: Callable[[], Any]) -> Iterator[Any]:
        if not generators:
            yield leaf()
            return
        head = generators[0]
        with self.at(head.iter):
            values = iter(self.eval(head.iter))
        for value in values:
            with self.at(head.iter):
                self.budget.step()
            with self.scopes.nested():
                self.unpack(head.target, value)
                if all(self.eval(test) for test in head.ifs):
                    yield from self._comprehend(generators[1:], leaf)

    def unpack(self, target: ast.expr, value: Any) -> None:
        """Binds Python values to the names of an assignment target."""
        for name, item in self.pairs(target, value):
            self.scopes.define(name.id, item)

    def pairs(self, target: ast.expr, value: Any) -> Iterator[tuple[ast.Name, Any]]:
        """The names of a target with their values; at most one starred name takes the rest."""
        if isinstance(target, ast.Name):
            yield target, value
            return
        if not isinstance(target, ast.Tuple | ast.List):
            self.fail(target, f"cannot assign to {ast.unparse(target)}; expected a name or a tuple of names")
        if isinstance(value, Var | Form) or not hasattr(value, "__len__"):
            value = [value]
        values = list(value)
        star = next((i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)), None)
        n = len(target.elts)
        if (star is None and len(values) != n) or (star is not None and len(values) < n - 1):
            self.fail(target, f"{n} names for {len(values)} values")
        for i, t in enumerate(target.elts):
            if star is None or i < star:
                yield from self.pairs(t, values[i])
            elif i == star:
                assert isinstance(t, ast.Starred) and isinstance(t.value, ast.Name)
                yield t.value, values[i:len(values) - (n - 1 - i)]
            else:
                yield from self.pairs(t, values[i - n])


def _is_python(func: Any) -> bool:
    """Whether a function is Python's own, or a method of one of its values: these work through all that they are given."""
    owner = getattr(func, "__self__", None)
    return any(func is f for f in _BUILTINS.values()) or isinstance(owner, str | bytes | dict | list | tuple | set | int | float)


def _symbolic(value: Any) -> bool:
    return isinstance(value, Expr | Buffer | BufferRegion | Form | View)


def _call_error(error: TypeError, name: str, func: Callable[..., Any]) -> str:
    text = str(error)
    if "argument" in text and "()" in text:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", text)
        near = ""
        if unknown is not None:
            try:
                near = suggest(unknown[1], inspect.signature(func).parameters)
            except (TypeError, ValueError):
                near = ""  # A builtin without a signature.
        return name + text[text.index("()"):].partition(". Did you mean")[0] + near
    return text
