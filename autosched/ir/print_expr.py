"""Names and expressions as text; statements and functions are in ``autosched.ir.printer``.

What is printed must read back as the same tree. Where an operator would fold when read (``x + 0``), the unfolded form
``T.Add(x, 0)`` is printed; where a call's type does not follow from its operands, ``dtype=`` is.
"""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autosched.ir.expr import (
    BinOp,
    BufferData,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Not,
    Ramp,
    Reduce,
    Select,
    StringImm,
    Var,
    binary,
    intrin,
    is_float,
)
from autosched.ir.intrinsics import CALLS, DTYPE_FIRST, ELEMENTWISE, ROUNDING, TWO, implied_dtype
from autosched.ir.stmt import Buffer, BufferRegion, IterVar

# Node names for operations that the operator syntax would fold, or that Python has no operator for.
RAW_NAMES = {
    "+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "//": "FloorDiv", "%": "FloorMod", "min": "Min", "max": "Max",
    "truncdiv": "Div", "truncmod": "Mod", "==": "EQ", "!=": "NE", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE",
    "and": "And", "or": "Or",
}
_PRECEDENCE = {
    "or": 2, "and": 3, "==": 5, "!=": 5, "<": 5, "<=": 5, ">": 5, ">=": 5,
    "+": 10, "-": 10, "*": 11, "/": 11, "//": 11, "%": 11,
}
_NOT, _COMPARE, _ATOM = 4, 5, 20
RESERVED = frozenset({"T", "I", "range", *keyword.kwlist})

_CALLS, _ELEMENTWISE, _TWO = frozenset(CALLS), frozenset(ELEMENTWISE), frozenset(TWO) - {"power"}
_IDENTIFIER = re.compile(r"[^0-9a-zA-Z_]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Names:
    """Hands out identifiers: unique along the path from the function to a statement, reused in sibling scopes.

    Args:
        on_free: called with a variable or buffer that no scope defined; returns the text to print for it.
    """

    def __init__(self, on_free: Callable[[Var | Buffer], str] | None = None) -> None:
        self.text: dict[Var | Buffer, str] = {}
        self.used: set[str] = set()
        self.ever: set[str] = set()
        self._frames: list[list[str]] = [[]]
        self._on_free = on_free

    def push(self) -> None:
        """Opens a scope."""
        self._frames.append([])

    def pop(self) -> None:
        """Closes the innermost scope; its names are free again."""
        self.used.difference_update(self._frames.pop())

    def define(self, node: Var | Buffer, hint: str | None = None, globally: bool = False) -> str:
        """A fresh identifier for ``node`` in the innermost scope.

        Args:
            node: what is named.
            hint: wished name (default the node's own).
            globally: whether the name must differ from every name ever given out.
        """
        base = _IDENTIFIER.sub("_", hint if hint is not None else node.name) or "v"
        if base[0].isdigit():
            base = "v" + base
        taken = self.ever if globally else self.used
        name, count = base, 0
        while name in taken or name in RESERVED:
            count += 1
            name = f"{base}_{count}"
        self.alias(node, name)
        return name

    def alias(self, node: Var | Buffer, text: str) -> None:
        """Prints ``node`` as ``text`` from here on."""
        self.text[node] = text
        self.used.add(text)
        self.ever.add(text)
        self._frames[-1].append(text)

    def of(self, node: Var | Buffer) -> str:
        """The text of a variable or buffer."""
        text = self.text.get(node)
        if text is not None:
            return text
        if self._on_free is not None:
            return self._on_free(node)
        return self.define(node)


class ExprPrinter:
    """Prints expressions with the names of one program.

    Args:
        names: the identifiers in use.
    """

    def __init__(self, names: Names) -> None:
        self.names = names

    def text(self, expr: Expr) -> str:
        """The text of an expression."""
        return self._show(expr)[0]

    def region(self, region: BufferRegion) -> str:
        """``A[i, 0:16]``."""
        parts = []
        for r in region.region:
            lo = self.text(r.min)
            if isinstance(r.extent, IntImm) and r.extent.value == 1:
                parts.append(lo)
            else:
                parts.append(f"{lo}:{self.text(binary('+', r.min, r.extent))}")
        return f"{self.names.of(region.buffer)}[{', '.join(parts) or '()'}]"

    def load(self, buffer: Buffer, indices: Sequence[Expr]) -> str:
        """``A[i, j]``, on either side of an assignment."""
        return f"{self.names.of(buffer)}[{', '.join(self.text(i) for i in indices) or '()'}]"

    def shape(self, shape: Sequence[Expr]) -> str:
        """A tuple of expressions."""
        inner = ", ".join(self.text(s) for s in shape)
        return f"({inner},)" if len(shape) == 1 else f"({inner})"

    def value(self, value: Any) -> str:
        """An annotation's value: Python data or an expression."""
        if isinstance(value, Expr):
            return self.text(value)
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(self.value(v) for v in value) + "]"
        if isinstance(value, Buffer):
            return self.names.of(value)
        if isinstance(value, float):
            text = float_text(value)
            return f"float({text})" if text.startswith('"') else text
        return repr(value)

    def _show(self, e: Expr) -> tuple[str, int]:
        if isinstance(e, Var):
            return self.names.of(e), _ATOM
        if isinstance(e, IntImm):
            if e.dtype == "bool":
                return f"T.bool({bool(e.value)})", _ATOM
            return (str(e.value) if e.dtype == "int32" else f"T.{e.dtype}({e.value})"), _ATOM
        if isinstance(e, BinOp):
            return self._binary(e)
        if isinstance(e, BufferLoad):
            return self.load(e.buffer, e.indices), _ATOM
        if isinstance(e, Cast):
            return f"T.Cast({quoted(e.dtype)}, {self.text(e.value)})", _ATOM
        if isinstance(e, Call):
            return self._call(e), _ATOM
        if isinstance(e, FloatImm):
            return f"T.{e.dtype}({float_text(e.value)})", _ATOM
        if isinstance(e, StringImm):
            return quoted(e.value), _ATOM
        if isinstance(e, BufferData):
            return f"{self.names.of(e.buffer)}.data", _ATOM
        if isinstance(e, Not):
            if isinstance(e.a, IntImm):
                return f"T.Not({self.text(e.a)})", _ATOM
            return f"not {self._child(e.a, _NOT)}", _NOT
        if isinstance(e, Select):
            sides = ", ".join(self.text(x) for x in (e.condition, e.true_value, e.false_value))
            return f"T.Select({sides})", _ATOM
        if isinstance(e, Ramp):
            return f"T.Ramp({self.text(e.base)}, {self.text(e.stride)}, {e.lanes})", _ATOM
        if isinstance(e, Let):
            where = f"{{{self.names.of(e.var)}: {self.text(e.value)}}}"
            return f"T.Let({self.text(e.body)}, where={where})", _ATOM
        assert isinstance(e, Reduce), type(e)
        axes = ", ".join(self.names.of(a.var) for a in e.axes if isinstance(a, IterVar))
        where = "" if e.condition is None else f", where={self.text(e.condition)}"
        return f"{e.op}({self.text(e.source)}, axis=[{axes}]{where})", _ATOM

    def _child(self, e: Expr, precedence: int, strict: bool = False) -> str:
        text, own = self._show(e)
        return f"({text})" if own < precedence or (strict and own == precedence) else text

    def _binary(self, e: BinOp) -> tuple[str, int]:
        op = e.op
        if folds(e):
            name = RAW_NAMES[op] if op != "truncdiv" else "TruncDiv"
            return f"T.{name}({self.text(e.a)}, {self.text(e.b)})", _ATOM
        if op in ("min", "max", "truncmod"):
            return f"T.{op}({self.text(e.a)}, {self.text(e.b)})", _ATOM
        if op == "truncdiv":
            return f"T.Div({self.text(e.a)}, {self.text(e.b)})", _ATOM
        level = _PRECEDENCE[op]
        left = self._child(e.a, level, strict=level == _COMPARE)
        return f"{left} {op} {self._child(e.b, level, strict=True)}", level

    def _call(self, e: Call) -> str:
        args = [self.text(a) for a in e.args]
        name = e.op
        if not _reads_back(e):
            known = name in _CALLS or name in _ELEMENTWISE or name in _TWO or name == "if_then_else"
            full = f"tirx.{name}" if known else name  # as TVM registers it
            return f"T.Call({quoted(full)}, [{', '.join(args)}], ret_ty={quoted(e.dtype)})"
        if name in DTYPE_FIRST:
            args.insert(0, quoted(e.dtype))
        elif e.dtype != implied_dtype(name, e.args):
            args.append(f"dtype={quoted(e.dtype)}")
        return f"T.{name}({', '.join(args)})"


def expr_text(expr: Expr) -> str:
    """An expression as text; variables appear under their own names."""
    return ExprPrinter(Names()).text(expr)


def folds(e: BinOp) -> bool:
    """Whether building this operation with operators would give another tree."""
    if e.op == "/" and not is_float(e.dtype):
        return True  # The language has no such operator.
    try:
        again = binary(e.op, e.a, e.b)
    except ZeroDivisionError:
        return True
    if not (isinstance(again, BinOp) and again.a is e.a and again.b is e.b and again.dtype == e.dtype):
        return True
    # Written as an operator, this is refused.
    return e.op in ("//", "%", "truncdiv", "truncmod") and isinstance(e.b, IntImm) and e.b.value == 0


def _reads_back(e: Call) -> bool:
    """Whether ``T.name(...)`` gives this call again."""
    op, args = e.op, e.args
    if op in _CALLS:
        return True
    if any(isinstance(a, StringImm) for a in args):
        return False
    if op in _ELEMENTWISE:
        return len(args) == 1 and (op not in ROUNDING or is_float(args[0].dtype))
    if len(args) != (3 if op == "if_then_else" else 2):
        return False
    if op == "if_then_else":
        return not isinstance(args[0], IntImm) and args[1].dtype == args[2].dtype == e.dtype
    if op == "broadcast":
        return isinstance(args[1], IntImm) and args[1].dtype == "int32" and e.dtype == implied_dtype(op, args)
    if op not in _TWO or args[0].dtype != args[1].dtype:
        return False
    try:
        # Constants fold; a shift by a negative count does not even.
        return isinstance(intrin(op, *args), Call)
    except ValueError:
        return False


def identifier(name: str) -> str:
    """A name as Python can spell it: itself where it is an identifier that means nothing else in a program."""
    if name.isidentifier() and name.isascii() and name not in RESERVED:
        return name
    spelled = _IDENTIFIER.sub("_", name) or "v"
    spelled = "v" + spelled if spelled[0].isdigit() else spelled
    return spelled + "_1" if spelled in RESERVED else spelled


def quoted(text: str) -> str:
    """A string literal in double quotes; what no file could hold is escaped."""
    plain = json.dumps(text, ensure_ascii=False)
    return plain if plain.isascii() else _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", plain)


def float_text(value: float) -> str:
    """A float literal; infinities and not-a-number as strings."""
    if math.isinf(value) or math.isnan(value):
        return '"nan"' if math.isnan(value) else ('"inf"' if value > 0 else '"-inf"')
    return repr(value)
