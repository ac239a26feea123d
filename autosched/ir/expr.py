"""Expressions of the IR: integers, scalars and loads from buffers.

Nodes are frozen. ``Var`` compares by identity (two variables of one name are two variables); every other node
compares by structure. ``==`` therefore asks whether two trees are the same; to build a comparison, use ``eq``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

from autosched.ir.quick import quick

if TYPE_CHECKING:
    from autosched.ir.stmt import Buffer

ExprLike = Union["Expr", int, float, bool]

ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%", "min", "max", "truncdiv", "truncmod"})
COMPARISON = frozenset({"==", "!=", "<", "<=", ">", ">="})
LOGICAL = frozenset({"and", "or"})


class Expr:
    """Base of all expressions; every subclass has a ``dtype``."""

    __slots__ = ()
    dtype: str

    def __add__(self, other: ExprLike) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary("*", other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary("/", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary("/", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary("//", self, other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return binary("//", other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return binary("%", self, other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return binary("%", other, self)

    def __neg__(self) -> Expr:
        # A product, as TVM has it, so that both print the same text.
        return binary("*", self, -1 if is_int(self.dtype) else -1.0)

    def __lt__(self, other: ExprLike) -> Expr:
        return binary("<", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return binary("<=", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return binary(">", self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return binary(">=", self, other)

    def __rshift__(self, other: ExprLike) -> Expr:
        return intrin("shift_right", self, other)

    def __rrshift__(self, other: ExprLike) -> Expr:
        return intrin("shift_right", other, self)

    def __lshift__(self, other: ExprLike) -> Expr:
        return intrin("shift_left", self, other)

    def __rlshift__(self, other: ExprLike) -> Expr:
        return intrin("shift_left", other, self)

    def __and__(self, other: ExprLike) -> Expr:
        return binary("and", self, other) if self.dtype == "bool" else intrin("bitwise_and", self, other)

    def __or__(self, other: ExprLike) -> Expr:
        return binary("or", self, other) if self.dtype == "bool" else intrin("bitwise_or", self, other)

    def __xor__(self, other: ExprLike) -> Expr:
        return intrin("bitwise_xor", self, other)

    def __invert__(self) -> Expr:
        return Not(self) if self.dtype == "bool" else intrin("bitwise_not", self)

    def __bool__(self) -> bool:
        # ``if i < n`` inside a Python function would silently take one branch.
        raise TypeError("an IR expression has no truth value in Python; use if_then_else, logical_and or logical_or")

    def equal(self, other: ExprLike) -> Expr:
        """The comparison ``self == other`` as an expression."""
        return binary("==", self, other)

    def astype(self, dtype: str) -> Expr:
        """This value converted to ``dtype`` (itself where nothing changes)."""
        return cast(dtype, self)


@quick
@dataclass(frozen=True, eq=False, slots=True)
class Var(Expr):
    """A scalar variable; its identity, not its name, is what it is.

    Args:
        name: what is printed.
        dtype: scalar type, or ``handle``.
    """

    name: str
    dtype: str = "int32"

    def __repr__(self) -> str:
        return self.name


@quick
@dataclass(frozen=True, slots=True)
class IntImm(Expr):
    """An integer (or bool) constant.

    Args:
        value: the value.
        dtype: integer type or ``bool``.
    """

    value: int
    dtype: str = "int32"


@dataclass(frozen=True, slots=True)
class FloatImm(Expr):
    """A floating constant.

    Args:
        value: the value.
        dtype: ``float32`` or ``float64`` or ``float16``.
    """

    value: float
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class StringImm(Expr):
    """A string argument of a call."""

    value: str
    dtype: str = "handle"


@quick
@dataclass(frozen=True, slots=True)
class BinOp(Expr):
    """A binary operation without any folding; build with ``binary`` or operators to fold constants.

    Args:
        op: one of ARITHMETIC, COMPARISON or LOGICAL; ``//`` and ``%`` round to minus infinity.
        a: left operand.
        b: right operand, same dtype as ``a``.
        dtype: result type (``bool`` for comparisons).
    """

    op: str
    a: Expr
    b: Expr
    dtype: str


@quick
@dataclass(frozen=True, slots=True)
class Not(Expr):
    """Logical negation."""

    a: Expr
    dtype: str = "bool"


@quick
@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """Conversion of a value; narrowing keeps the low bits.

    Args:
        dtype: type to convert to.
        value: what is converted.
    """

    dtype: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """``a if condition else b``, both sides evaluated."""

    condition: Expr
    true_value: Expr
    false_value: Expr
    dtype: str


@quick
@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A call of an intrinsic or an external function.

    Args:
        op: name, e.g. ``shift_right``, ``if_then_else``, ``exp``, ``call_extern``, ``tvm_access_ptr``.
        args: operands; strings are ``StringImm``, a buffer's ``.data`` is ``BufferData``.
        dtype: result type; ``handle`` or ``void`` where there is none.
    """

    op: str
    args: tuple[Expr, ...]
    dtype: str


@quick
@dataclass(frozen=True, slots=True)
class BufferLoad(Expr):
    """One element of a buffer (an index may be a ``Ramp`` after vectorising).

    Args:
        buffer: what is read.
        indices: one expression per dimension.
        dtype: the buffer's type.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class BufferData(Expr):
    """The address of a buffer, ``buf.data``, as an argument of a call."""

    buffer: Buffer
    dtype: str = "handle"


@dataclass(frozen=True, slots=True)
class Ramp(Expr):
    """The vector ``base, base + stride, ...`` of ``lanes`` values."""

    base: Expr
    stride: Expr
    lanes: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Let(Expr):
    """``let var = value in body`` as an expression."""

    var: Var
    value: Expr
    body: Expr
    dtype: str


@dataclass(frozen=True, slots=True)
class Reduce(Expr):
    """A TE reduction, present only between ``te.compute`` and ``create_prim_func``.

    Args:
        op: ``sum``, ``max`` or ``min``.
        source: value reduced.
        axes: reduction ``IterVar``s.
        condition: only iterations where it holds count, or None.
        dtype: result type.
    """

    op: str
    source: Expr
    axes: tuple[object, ...]
    condition: Expr | None
    dtype: str


def is_int(dtype: str) -> bool:
    """Whether ``dtype`` is an integer type (bool not included)."""
    return dtype.startswith(("int", "uint"))


def is_float(dtype: str) -> bool:
    """Whether ``dtype`` is a floating type."""
    return dtype.startswith(("float", "bfloat"))


def element(dtype: str) -> str:
    """The scalar type of a vector type; a scalar type itself."""
    return dtype.partition("x")[0]


def lanes(dtype: str) -> int:
    """The number of scalars in a value of ``dtype``."""
    return int(dtype.partition("x")[2] or 1)


def vector(dtype: str, count: int) -> str:
    """The type of ``count`` values of ``dtype`` side by side."""
    count *= lanes(dtype)
    return element(dtype) if count == 1 else f"{element(dtype)}x{count}"


def bits(dtype: str) -> int:
    """Width of one scalar of ``dtype`` in bits."""
    if dtype == "bool":
        return 1
    digits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz").split("_")[0].split("x")[0]
    return int(digits) if digits else 64


def const(value: int | float | bool, dtype: str | None = None) -> Expr:
    """A constant of the given type; Python ints are int32, floats float32, bools bool."""
    if dtype is None:
        dtype = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
    if is_float(dtype):
        return FloatImm(float(value), dtype)
    return IntImm(int(value), dtype)


def as_expr(value: ExprLike, dtype: str | None = None) -> Expr:
    """An expression of a Python number, or the expression itself."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, int | float):
        return const(value, dtype)
    if hasattr(value, "__index__"):
        return const(int(value), dtype)
    raise TypeError(f"expected an expression or a number, got {type(value).__name__}")


def cast(dtype: str, value: ExprLike) -> Expr:
    """``value`` converted to ``dtype``; constants fold, a no-op conversion vanishes."""
    expr = as_expr(value)
    if expr.dtype == dtype:
        return expr
    if isinstance(expr, IntImm):
        if is_float(dtype):
            return FloatImm(float(expr.value), dtype)
        return IntImm(wrap(expr.value, dtype), dtype)
    if isinstance(expr, FloatImm) and is_float(dtype):
        return FloatImm(expr.value, dtype)
    return Cast(dtype, expr)


def wrap(value: int, dtype: str) -> int:
    """``value`` reduced to the range of an integer ``dtype`` (two's complement)."""
    if dtype == "int32" and -0x80000000 <= value <= 0x7FFFFFFF:
        return value
    if dtype == "bool":
        return int(bool(value))
    width = bits(dtype)
    value &= (1 << width) - 1
    if dtype.startswith("int") and value >= 1 << (width - 1):
        value -= 1 << width
    return value


def _match(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Both operands in one dtype: numbers take the other's, narrow integers widen, integers become floats."""
    if isinstance(a, Expr):
        if isinstance(b, Expr):
            if a.dtype == b.dtype:
                return a, b
        elif type(b) is int and a.dtype == "int32":
            return a, IntImm(b, "int32")
    if not isinstance(a, Expr) and isinstance(b, Expr):
        a = as_expr(a, b.dtype if not isinstance(a, float) or is_float(b.dtype) else None)
    elif not isinstance(b, Expr) and isinstance(a, Expr):
        b = as_expr(b, a.dtype if not isinstance(b, float) or is_float(a.dtype) else None)
    x, y = as_expr(a), as_expr(b)
    if x.dtype == y.dtype:
        return x, y
    if is_float(x.dtype) and not is_float(y.dtype):
        return x, cast(x.dtype, y)
    if is_float(y.dtype) and not is_float(x.dtype):
        return cast(y.dtype, x), y
    # A constant follows the other side when it fits: TVM's tests compare shapes of mixed int32/int64 constants.
    if bits(x.dtype) < bits(y.dtype):
        return cast(y.dtype, x), y
    return x, cast(x.dtype, y)


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """``a op b`` with operand types matched, constants folded and neutral elements removed.

    Args:
        op: an operator of ARITHMETIC, COMPARISON or LOGICAL.
        a: left operand.
        b: right operand.

    Raises:
        TypeError: ``/`` on integers.
        ZeroDivisionError: division of integers by the constant zero.
    """
    x, y = _match(a, b)
    if op == "/" and not is_float(x.dtype):
        raise TypeError("'/' divides floats; for integers use '//' (rounds down) or truncdiv (rounds to zero)")
    dtype = "bool" if op in COMPARISON or op in LOGICAL else x.dtype
    if isinstance(x, IntImm) and isinstance(y, IntImm):
        folded = fold(op, x.value, y.value)
        if folded is not None:
            return IntImm(wrap(folded, dtype), dtype)
    if isinstance(x, FloatImm) and isinstance(y, FloatImm) and op in ("+", "-", "*", "min", "max"):
        value = {"+": x.value + y.value, "-": x.value - y.value, "*": x.value * y.value,
                 "min": min(x.value, y.value), "max": max(x.value, y.value)}[op]
        return FloatImm(value, dtype)
    if is_int(x.dtype):
        simple = _neutral(op, x, y)
        if simple is not None:
            return simple
    if op in LOGICAL:
        for this, other in ((x, y), (y, x)):
            if isinstance(this, IntImm):
                return other if bool(this.value) == (op == "and") else this
    return BinOp(op, x, y, dtype)


def _neutral(op: str, x: Expr, y: Expr) -> Expr | None:
    if isinstance(y, IntImm):
        if (op in ("+", "-") and y.value == 0) or (op in ("*", "//", "truncdiv") and y.value == 1):
            return x
        if (op == "*" and y.value == 0) or (op in ("%", "truncmod") and y.value == 1):
            return IntImm(0, x.dtype)
    if isinstance(x, IntImm):
        if (op == "+" and x.value == 0) or (op == "*" and x.value == 1):
            return y
        if x.value == 0 and op in ("*", "//", "%", "truncdiv", "truncmod"):
            return x
    return None


def fold(op: str, a: int, b: int) -> int | None:
    """The integer result of ``a op b``, or None where it is not foldable (true division)."""
    if op in ("//", "%", "truncdiv", "truncmod") and b == 0:
        raise ZeroDivisionError(f"{a} {op} 0 in an index expression")
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // b
        case "%":
            return a % b
        case "truncdiv":
            return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)
        case "truncmod":
            return abs(a) % abs(b) * (1 if a >= 0 else -1)
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
        case "==":
            return int(a == b)
        case "!=":
            return int(a != b)
        case "<":
            return int(a < b)
        case "<=":
            return int(a <= b)
        case ">":
            return int(a > b)
        case ">=":
            return int(a >= b)
        case "and":
            return int(bool(a) and bool(b))
        case "or":
            return int(bool(a) or bool(b))
    return None


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller of two values."""
    return binary("min", a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The larger of two values."""
    return binary("max", a, b)


def eq(a: ExprLike, b: ExprLike) -> Expr:
    """The comparison ``a == b`` as an expression."""
    return binary("==", a, b)


def logical_and(*terms: ExprLike) -> Expr:
    """The conjunction of all terms (true when there are none)."""
    result: Expr = IntImm(1, "bool")
    for term in terms:
        result = binary("and", result, term)
    return result


def logical_not(a: Expr) -> Expr:
    """The negation; constants fold."""
    return IntImm(1 - a.value, "bool") if isinstance(a, IntImm) else Not(a)


def select(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> Expr:
    """``Select`` with both sides in one dtype."""
    a, b = _match(true_value, false_value)
    return Select(as_expr(condition), a, b, a.dtype)


def if_then_else(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> Expr:
    """Only the chosen side is evaluated: out-of-range loads on the other side are harmless."""
    a, b = _match(true_value, false_value)
    cond = as_expr(condition)
    if isinstance(cond, IntImm):
        return a if cond.value else b
    return Call("if_then_else", (cond, a, b), a.dtype)


def intrin(op: str, *args: ExprLike, dtype: str | None = None) -> Expr:
    """A call whose operands share one dtype (two-operand integer intrinsics fold constants).

    Args:
        op: e.g. ``shift_right``, ``bitwise_and``, ``exp``.
        args: operands.
        dtype: result type; default that of the operands.
    """
    if len(args) == 2:
        x, y = _match(args[0], args[1])
        if isinstance(x, IntImm) and isinstance(y, IntImm) and op in _INT_INTRIN:
            return IntImm(wrap(_INT_INTRIN[op](x.value, y.value), x.dtype), x.dtype)
        return Call(op, (x, y), dtype or x.dtype)
    exprs = tuple(as_expr(a) for a in args)
    return Call(op, exprs, dtype or (exprs[0].dtype if exprs else "handle"))


_INT_INTRIN = {
    "shift_right": lambda a, b: a >> b,
    "shift_left": lambda a, b: a << b,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}


def int_value(expr: ExprLike) -> int | None:
    """The value of a constant integer, or None for anything else."""
    if isinstance(expr, IntImm):
        return expr.value
    return expr if isinstance(expr, int) else None


def as_int(expr: ExprLike, what: str = "extent") -> int:
    """The value of a constant integer.

    Raises:
        ProgramError: ``expr`` is not a constant; the message names ``what``.
    """
    value = int_value(expr)
    if value is None:
        from autosched.errors import ProgramError
        from autosched.ir.printer import expr_text

        text = expr_text(expr) if isinstance(expr, Expr) else repr(expr)
        raise ProgramError(f"{what} must be a constant integer, got {text}")
    return value


def all_of(exprs: Sequence[Expr]) -> Expr:
    """The conjunction of a sequence of conditions."""
    return logical_and(*exprs)
