"""Expressions as machine code: dtypes, wrap-around, laziness of ``if_then_else``, and addresses in views of buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.errors import NotSupportedError, ProgramError
from autosched.ir import interp_machine as m
from autosched.ir.expr import (
    BinOp,
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
    bits,
    fold,
    is_float,
    wrap,
)
from autosched.ir.functor import walk_expr
from autosched.ir.interp_code import (
    FAR,
    ITEMSIZE,
    LOADS,
    STORES,
    Emitter,
    Val,
    constant,
    int_range,
    linear,
    round_code,
    wrap_code,
)
from autosched.ir.stmt import Buffer

_BINOPS = {
    "+": m.ADD,
    "-": m.SUB,
    "*": m.MUL,
    "//": m.FDIV,
    "%": m.FMOD,
    "truncdiv": m.TDIV,
    "truncmod": m.TMOD,
    "/": m.TDIV,
    "min": m.MIN,
    "max": m.MAX,
    "==": m.EQ,
    "!=": m.NE,
    "<": m.LT,
    "<=": m.LE,
    "and": m.AND,
    "or": m.OR,
}
_FLOAT_BINOPS = {
    "+": m.FADD,
    "-": m.FSUB,
    "*": m.FMUL,
    "/": m.FDIVIDE,
    "min": m.FMIN,
    "max": m.FMAX,
    "==": m.FEQ,
    "!=": m.FNE,
    "<": m.FLT,
    "<=": m.FLE,
}
_BITWISE = {"shift_right": m.SHR, "shift_left": m.SHL, "bitwise_and": m.AND, "bitwise_or": m.OR, "bitwise_xor": m.XOR}
_ALIASES = {"abs": "fabs", "power": "pow", "nearbyint": "round", "ceildiv": "ceil"}
_TRANSPARENT = frozenset({"likely", "large_uint_imm", "assume", "ignore_loop_partition"})


@dataclass(frozen=True)
class View:
    """How a buffer lies in memory: ``root`` numbers its storage, ``base`` and strides are in elements of ``dtype``."""

    root: int
    dtype: str
    base: Val
    shape: tuple[Val, ...]
    strides: tuple[Val, ...]


class ExprCompiler:
    """Compiles expressions under an environment of variables and views.

    Args:
        emitter: where code goes.
        env: values of variables in scope.
        views: storage of buffers in scope.
    """

    def __init__(self, emitter: Emitter, env: dict[Var, Val], views: dict[Buffer, View]) -> None:
        self.em = emitter
        self.env = env
        self.views = views
        self.where = "the program"
        self.lane: int | None = None

    # -- entry points ------------------------------------------------------------------------------------------------

    def expr(self, e: Expr) -> Val:
        """The value of an expression.

        Raises:
            ProgramError: a free variable or an unknown buffer.
            NotSupportedError: an intrinsic without a meaning here.
        """
        if isinstance(e, IntImm):
            return constant(_wrapped(e.value, e.dtype))
        if isinstance(e, Var):
            val = self.env.get(e)
            if val is None:
                raise ProgramError(f"variable {e.name} has no value in {self.where}")
            return val
        if isinstance(e, BinOp):
            return self.binary(e)
        if isinstance(e, BufferLoad):
            return self.load(e)
        if isinstance(e, Cast):
            return self.cast(self.expr(e.value), e.value.dtype, e.dtype)
        if isinstance(e, FloatImm):
            return self.em.float_const(_rounded(e.value, e.dtype))
        if isinstance(e, Call):
            return self.call(e)
        if isinstance(e, Select):
            return self.choose(e.condition, e.true_value, e.false_value, e.dtype)
        if isinstance(e, Not):
            a = self.expr(e.a)
            if a.value is not None:
                return constant(int(not a.value))
            return self.em.pure(m.NOT, a, lo=0, hi=1)
        if isinstance(e, Let):
            self.env[e.var] = self.expr(e.value)
            return self.expr(e.body)
        if isinstance(e, Ramp):
            if self.lane is None:
                raise ProgramError(f"a vector index outside a vector store in {self.where}")
            return linear([(self.expr(e.base), 1), (self.expr(e.stride), self.lane)])
        if isinstance(e, Reduce):
            raise ProgramError(f"a TE reduction must be lowered by create_prim_func before it runs ({self.where})")
        if isinstance(e, StringImm):
            raise ProgramError(f"string {e.value!r} where a value is expected in {self.where}")
        raise NotSupportedError(f"no value for a {type(e).__name__} in {self.where}")

    def view(self, buffer: Buffer) -> View:
        """The storage of a buffer."""
        view = self.views.get(buffer)
        if view is None:
            raise ProgramError(f"buffer {buffer.name} is neither a parameter nor allocated around {self.where}")
        return view

    # -- memory ------------------------------------------------------------------------------------------------------

    def address(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[View, Val]:
        """Where an element is; indices that could be outside the buffer are checked at run time."""
        view = self.view(buffer)
        if len(indices) != len(view.shape):
            raise ProgramError(
                f"buffer {buffer.name} has {len(view.shape)} dimensions, {len(indices)} indices given in {self.where}"
            )
        parts = [(view.base, 1)]
        const = 0
        for k, (index, extent, stride) in enumerate(zip(indices, view.shape, view.strides)):
            val = self.expr(index)
            size = extent.value
            if size is not None:
                if not (val.lo >= 0 and val.hi < size):
                    self.em.check(
                        val, 0, size, f"{self.where}: index {k} of {buffer.name} is {{}}, outside 0..{size - 1}"
                    )
            else:
                self.em.check(val, 0, FAR, f"{self.where}: index {k} of {buffer.name} is {{}}, below 0")
                over = linear([(val, 1), (extent, -1)])
                self.em.check(over, -FAR, 0, f"{self.where}: index {k} of {buffer.name} is {{}} beyond its extent")
            step = stride.value
            if step is not None:
                parts.append((val, step))
            else:
                parts.append((self.times(val, stride), 1))
        return view, linear(parts, const)

    def times(self, a: Val, b: Val) -> Val:
        """A product of integers that cannot overflow 64 bits."""
        if b.value is not None:
            return linear([(a, b.value)])
        if a.value is not None:
            return linear([(b, a.value)])
        corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        return self.em.pure(m.MUL, a, b, lo=max(min(corners), -FAR), hi=min(max(corners), FAR))

    def load(self, e: BufferLoad) -> Val:
        """One element."""
        view, at = self.address(e.buffer, e.indices)
        reg = self.em.reg(at)
        floating = is_float(view.dtype)
        if view.dtype not in LOADS:
            raise NotSupportedError(f"elements of type {view.dtype} cannot be interpreted (buffer {e.buffer.name})")
        lo, hi = (0, 0) if floating else int_range(view.dtype)
        val = self.em.atom(lo, hi, floating=floating)
        self.em.emit(LOADS[view.dtype], val.reg, reg)
        return val

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Val, dtype: str) -> None:
        """Writes one element."""
        view, at = self.address(buffer, indices)
        if view.dtype not in STORES:
            raise NotSupportedError(f"elements of type {view.dtype} cannot be interpreted (buffer {buffer.name})")
        value = self.cast(value, dtype, view.dtype)
        self.em.emit(STORES[view.dtype], self.em.reg(value), self.em.reg(at))

    # -- arithmetic --------------------------------------------------------------------------------------------------

    def binary(self, e: BinOp) -> Val:
        """A binary operation in its operands' dtype."""
        dtype = e.a.dtype
        if e.op in ("and", "or"):
            return self.logical(e)
        if e.op in (">", ">="):
            return self.binary(BinOp("<" if e.op == ">" else "<=", e.b, e.a, e.dtype))
        a, b = self.expr(e.a), self.expr(e.b)
        if a.floating or b.floating:
            return self.float_binary(e.op, a, b, dtype)
        if dtype == "uint64" and e.op not in ("+", "-", "*", "==", "!="):
            return self.uint64_binary(e.op, a, b)
        return self.int_binary(e.op, a, b, dtype)

    def int_binary(self, op: str, a: Val, b: Val, dtype: str) -> Val:
        """``a op b`` on integers: linear where no wrap-around is possible, folded where both are known."""
        if dtype == "bool" and op in ("+", "-", "*", "//", "truncdiv", "/"):
            return self.cast(self.int_binary(op, a, b, "int32"), "int32", "bool")  # whatever is not 0 is true
        x, y = a.value, b.value
        if x is not None and y is not None and not (y == 0 and op in ("//", "%", "truncdiv", "truncmod", "/")):
            folded = fold("truncdiv" if op == "/" else op, x, y)
            assert folded is not None, op
            return constant(_wrapped(folded, dtype) if op in ("+", "-", "*") else folded)
        lowest, highest = int_range(dtype)
        lo, hi = _bounds(op, a, b, lowest, highest)
        if op in ("+", "-"):
            total = linear([(a, 1), (b, 1 if op == "+" else -1)])
            if lowest <= total.lo and total.hi <= highest:
                return total
        if op == "*" and (x is not None or y is not None):
            product = linear([(a, y)] if y is not None else [(b, x or 0)])
            if lowest <= product.lo and product.hi <= highest:
                return product
        if op in ("//", "%") and y is not None and y > 0:
            exact = self.divide(op, a, y)
            if exact is not None:
                return exact
        if op in ("<", "<=", "==", "!=") and lo == hi:
            return constant(lo)
        if op == "min" and (a.hi <= b.lo or b.hi <= a.lo):
            return a if a.hi <= b.lo else b
        if op == "max" and (a.lo >= b.hi or b.lo >= a.hi):
            return a if a.lo >= b.hi else b
        w = wrap_code(dtype) if op in ("+", "-", "*", "//", "truncdiv", "/") and (lo < lowest or hi > highest) else 0
        if w:
            lo, hi = lowest, highest
        if op in ("//", "%", "truncdiv", "truncmod", "/") and not (y is not None and y != 0):
            return self.divide_checked(op, a, b, lo, hi, w)
        return self.em.pure(_BINOPS[op], a, b, w=w, lo=max(lo, -FAR), hi=min(hi, FAR))

    def divide(self, op: str, a: Val, by: int) -> Val | None:
        """``a // by`` or ``a % by`` without a division, where terms not divisible by ``by`` sum to 0 .. ``by`` - 1."""
        if a.lo >= 0 and a.hi < by:
            return constant(0) if op == "//" else a
        whole = [(atom, coef) for atom, coef in a.terms.values() if coef % by == 0]
        if not whole:
            return None
        rest = linear([(atom, coef) for atom, coef in a.terms.values() if coef % by], a.const % by)
        if not (rest.lo >= 0 and rest.hi < by):
            return None
        return rest if op == "%" else linear([(atom, coef // by) for atom, coef in whole], a.const // by)

    def divide_checked(self, op: str, a: Val, b: Val, lo: int, hi: int, w: int) -> Val:
        """A division by something that may be zero: it stays where it is written."""
        text = f"{self.where}: division by zero"
        if b.value == 0:
            self.em.emit(m.FAIL, e=self.em.site(text))
            return constant(0)
        x, y = self.em.reg(a), self.em.reg(b)
        val = self.em.atom(max(lo, -FAR), min(hi, FAR))
        self.em.emit(_BINOPS[op], val.reg, x, y, e=self.em.site(text), w=w)
        return val

    def uint64_binary(self, op: str, a: Val, b: Val) -> Val:
        """Order and division of 64-bit unsigned integers, whose registers hold them modulo 2**64."""
        lowest, highest = int_range("uint64")
        if op in ("<", "<="):
            return self.em.pure(m.ULT if op == "<" else m.ULE, a, b, lo=0, hi=1)
        if op in ("min", "max"):
            less = self.em.pure(m.ULT, a, b, lo=0, hi=1)
            return self.em.pure(m.SEL, less, *((a, b) if op == "min" else (b, a)), lo=lowest, hi=highest)
        x, y = self.em.reg(a), self.em.reg(b)
        val = self.em.atom(lowest, highest)
        code = m.UDIV if op in ("//", "/", "truncdiv") else m.UMOD
        self.em.emit(code, val.reg, x, y, e=self.em.site(f"{self.where}: division by zero"))
        return val

    def float_binary(self, op: str, a: Val, b: Val, dtype: str) -> Val:
        """A binary operation on floats, rounded to ``dtype``."""
        if op in ("//", "%", "truncdiv", "truncmod"):
            ratio = self.em.pure(m.FDIVIDE, a, b, w=round_code(dtype), floating=True)
            kind = "floor" if op in ("//", "%") else "trunc"
            whole = self.em.pure(m.FUNC, ratio, extra=m.UNARY.index(kind), floating=True)
            if op in ("//", "truncdiv"):
                return whole
            scaled = self.em.pure(m.FMUL, whole, b, w=round_code(dtype), floating=True)
            return self.em.pure(m.FSUB, a, scaled, w=round_code(dtype), floating=True)
        if op in ("==", "!=", "<", "<="):
            return self.em.pure(_FLOAT_BINOPS[op], a, b, lo=0, hi=1)
        return self.em.pure(_FLOAT_BINOPS[op], a, b, w=round_code(dtype), floating=True)

    def logical(self, e: BinOp) -> Val:
        """``and`` / ``or``; the right side is skipped, as in C, where evaluating it could go wrong."""
        a = self.expr(e.a)
        if a.value is not None:
            if bool(a.value) == (e.op == "or"):
                return constant(int(e.op == "or"))
            return self.expr(e.b)
        if speculative(e.b):
            b = self.expr(e.b)
            if b.value is not None:
                return a if bool(b.value) == (e.op == "and") else constant(int(e.op == "or"))
            return self.em.pure(m.AND if e.op == "and" else m.OR, a, b, lo=0, hi=1)
        if e.op == "and":
            return self.lazily(a, e.b, IntImm(0, "bool"), "bool")
        return self.lazily(a, IntImm(1, "bool"), e.b, "bool")

    def choose(self, condition: Expr, yes: Expr, no: Expr, dtype: str) -> Val:
        """One of two values; the other is not evaluated where that could go wrong (nor is that of ``Select``)."""
        c = self.expr(condition)
        if c.value is not None:
            return self.expr(yes if c.value else no)
        if speculative(yes) and speculative(no):
            a, b = self.expr(yes), self.expr(no)
            if a.floating:
                return self.em.pure(m.FSEL, c, a, b, floating=True)
            return self.em.pure(m.SEL, c, a, b, lo=min(a.lo, b.lo), hi=max(a.hi, b.hi))
        return self.lazily(c, yes, no, dtype)

    def lazily(self, condition: Val, yes: Expr, no: Expr, dtype: str) -> Val:
        """One of two values by a jump."""
        floating = is_float(dtype)
        test = self.em.reg(condition)
        out = self.em.atom(0, 0, floating=floating)
        sides = []
        for side in (yes, no):
            self.em.push(False)
            val = self.expr(side)
            self.em.emit(m.FMOV if floating else m.MOV, out.reg, self.em.reg(val))
            sides.append((self.em.pop(), val))
        (first, a), (second, b) = sides
        self.em.emit(m.JZ, test, len(first) + 2)
        self.em.extend(first)
        self.em.emit(m.JUMP, 0, len(second) + 1)
        self.em.extend(second)
        out.lo, out.hi = min(a.lo, b.lo), max(a.hi, b.hi)
        return out

    def cast(self, val: Val, source: str, dtype: str) -> Val:
        """A value converted: narrowing keeps the low bits, floats truncate toward zero."""
        if source == dtype or dtype == "handle":
            return val
        if is_float(dtype):
            if dtype not in ITEMSIZE:
                raise NotSupportedError(f"type {dtype} cannot be interpreted ({self.where})")
            if val.floating:
                exact = round_code(dtype) == 0 or (round_code(dtype) == 32 and round_code(source) == 16)
                return val if exact else self.em.pure(m.FMOV, val, w=round_code(dtype), floating=True)
            op = m.UTOF if source == "uint64" else m.ITOF
            return self.em.pure(op, val, w=round_code(dtype), floating=True)
        if val.floating:
            if dtype == "bool":
                return self.em.pure(m.FNE, val, self.em.float_const(0.0), lo=0, hi=1)
            lo, hi = int_range(dtype)
            return self.em.pure(m.FTOI, val, w=wrap_code(dtype), lo=lo, hi=hi)
        if dtype == "bool":
            return self.int_binary("!=", val, constant(0), source)
        lo, hi = int_range(dtype)
        if bits(dtype) == 64 or (lo <= val.lo and val.hi <= hi):
            return val
        if val.value is not None:
            return constant(_wrapped(val.value, dtype))
        return self.em.pure(m.WRAP, val, w=wrap_code(dtype), lo=lo, hi=hi)

    # -- calls -------------------------------------------------------------------------------------------------------

    def call(self, e: Call) -> Val:
        """An intrinsic."""
        op = e.op.rsplit(".", 1)[-1]
        if op in ("if_then_else", "Select", "select"):
            return self.choose(e.args[0], e.args[1], e.args[2], e.dtype)
        if op in _TRANSPARENT:
            return self.expr(e.args[0])
        if op in _BITWISE:
            return self.bitwise(op, e)
        if op in ("min_value", "max_value") and not is_float(e.dtype):
            return constant(int_range(e.dtype)[op == "max_value"])
        if op in ("infinity", "min_value", "max_value"):
            top = {"float16": 65504.0, "float32": 3.4028234663852886e38}.get(e.dtype, 1.7976931348623157e308)
            return self.em.float_const(float("inf") if op == "infinity" else top if op == "max_value" else -top)
        args = [self.expr(a) for a in e.args]
        name = _ALIASES.get(op, op)
        if args and not args[0].floating:
            val = self.int_call(op, args, e)
            if val is not None:
                return val
        if name in m.UNARY and len(args) == 1:
            val = (
                args[0]
                if args[0].floating
                else self.cast(args[0], e.args[0].dtype, e.dtype if is_float(e.dtype) else "float64")
            )
            out = self.em.pure(m.FUNC, val, w=round_code(e.dtype), extra=m.UNARY.index(name), floating=True)
            return out if is_float(e.dtype) else self.cast(out, "float64", e.dtype)
        if name in m.BINARY and len(args) == 2:
            x, y = (v if v.floating else self.cast(v, a.dtype, e.dtype) for v, a in zip(args, e.args))
            return self.em.pure(m.FUNC2, x, y, w=round_code(e.dtype), extra=m.BINARY.index(name), floating=True)
        if name == "fma" and len(args) == 3:
            return self.float_binary("+", self.float_binary("*", args[0], args[1], e.dtype), args[2], e.dtype)
        raise NotSupportedError(f"intrinsic {e.op} of {e.dtype} has no meaning in the interpreter ({self.where})")

    def int_call(self, op: str, args: list[Val], e: Call) -> Val | None:
        """An intrinsic on integers, or None where the floating one applies."""
        lo, hi = int_range(e.args[0].dtype)
        if op in ("abs", "fabs"):
            return self.em.pure(m.ABS, args[0], w=wrap_code(e.dtype), lo=lo, hi=hi)
        if op == "bitwise_not":
            return self.em.pure(m.BNOT, args[0], w=wrap_code(e.dtype), lo=lo, hi=hi)
        if op == "popcount":
            return self.em.pure(m.POPCOUNT, args[0], w=wrap_code(e.args[0].dtype), lo=0, hi=64)
        if op in ("floor", "ceil", "round", "trunc") and not is_float(e.dtype):
            return args[0]
        if op in ("floordiv", "floormod", "truncdiv", "truncmod") and len(args) == 2:
            name = {"floordiv": "//", "floormod": "%"}.get(op, op)
            return self.int_binary(name, args[0], args[1], e.dtype)
        if op == "ceildiv":
            up = self.int_binary("-", self.int_binary("+", args[0], args[1], e.dtype), constant(1), e.dtype)
            return self.int_binary("//", up, args[1], e.dtype)
        return None

    def bitwise(self, op: str, e: Call) -> Val:
        """Shifts and bitwise operations; a shift by less than 0 or more than the width is an error."""
        a, b = self.expr(e.args[0]), self.expr(e.args[1])
        dtype = e.args[0].dtype
        lo, hi = int_range(dtype)
        x, y = a.value, b.value
        if op in ("shift_right", "shift_left"):
            self.em.check(b, 0, bits(dtype), f"{self.where}: shift by {{}} of a {dtype}")
            if y is not None and y >= 0:
                if op == "shift_right" and dtype != "uint64":
                    lo, hi = a.lo >> y, a.hi >> y
                elif op == "shift_left" and lo <= a.lo << y and a.hi << y <= hi:
                    return linear([(a, 1 << y)])
            if op == "shift_right" and dtype == "uint64":
                return self.em.pure(m.USHR, a, b, lo=lo, hi=hi)
        elif op == "bitwise_and" and ((x or -1) >= 0 or (y or -1) >= 0):
            lo, hi = 0, min([v for v in (x, y) if v is not None and v >= 0])
        if x is not None and y is not None and 0 <= y < 64:
            out = {
                "shift_right": x >> y,
                "shift_left": x << y,
                "bitwise_and": x & y,
                "bitwise_or": x | y,
                "bitwise_xor": x ^ y,
            }[op]
            return constant(_wrapped(out, dtype))
        return self.em.pure(_BITWISE[op], a, b, w=wrap_code(dtype) if op == "shift_left" else 0, lo=lo, hi=hi)


def speculative(e: Expr) -> bool:
    """Whether an expression can be evaluated where its value is not wanted: no load, no division by zero, no check."""
    for node in walk_expr(e):
        if isinstance(node, BufferLoad | Let):
            return False
        if isinstance(node, BinOp) and node.op in ("//", "%", "truncdiv", "truncmod", "/") and not is_float(node.dtype):
            if not (isinstance(node.b, IntImm) and node.b.value != 0):
                return False
        if isinstance(node, Call) and node.op in ("shift_right", "shift_left", "if_then_else"):
            if node.op == "if_then_else" or not isinstance(node.args[1], IntImm):
                return False
        if isinstance(node, Call) and node.op in ("floordiv", "floormod", "truncdiv", "truncmod", "ceildiv"):
            return False
    return True


def vector_lanes(exprs: tuple[Expr, ...]) -> int | None:
    """The number of lanes of a vector statement, or None for a scalar one."""
    for e in exprs:
        for node in walk_expr(e):
            if isinstance(node, Ramp):
                return node.lanes
    return None


def _bounds(op: str, a: Val, b: Val, lowest: int, highest: int) -> tuple[int, int]:
    if op == "+":
        return a.lo + b.lo, a.hi + b.hi
    if op == "-":
        return a.lo - b.hi, a.hi - b.lo
    if op == "*":
        corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        return min(corners), max(corners)
    if op == "min":
        return min(a.lo, b.lo), min(a.hi, b.hi)
    if op == "max":
        return max(a.lo, b.lo), max(a.hi, b.hi)
    if op == "//" and b.lo > 0:
        corners = [x // y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        return min(corners), max(corners)
    if op == "%" and b.lo > 0:
        return 0, b.hi - 1
    if op == "<":
        return int(a.hi < b.lo), int(a.lo < b.hi)
    if op == "<=":
        return int(a.hi <= b.lo), int(a.lo <= b.hi)
    if op == "==":
        return int(a.lo == a.hi == b.lo == b.hi), int(a.lo <= b.hi and b.lo <= a.hi)
    if op == "!=":
        return int(a.hi < b.lo or b.hi < a.lo), int(not (a.lo == a.hi == b.lo == b.hi))
    # The quotient of the lowest value by -1 is one more than the highest.
    return (lowest, highest + 1) if op in ("//", "truncdiv", "/") else (lowest, highest)


def _wrapped(value: int, dtype: str) -> int:
    """``wrap`` as registers have it: 64 bits are signed there."""
    return wrap(value, "int64" if dtype == "uint64" else dtype)


def _rounded(value: float, dtype: str) -> float:
    return float(np.dtype(dtype).type(value))
