"""Programs run one scalar at a time in plain Python: the oracle of the interpreter.

Integers are Python integers, wrapped after every operation; float32 values are NumPy scalars; views are NumPy slices.
Nothing is hoisted, folded or fused, and nothing is shared with the interpreter except the classes of nodes.
"""

from __future__ import annotations

import math

import numpy as np

from autosched.ir.expr import (
    BinOp,
    BufferData,
    BufferLoad,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Let,
    Not,
    Select,
    StringImm,
    Var,
)
from autosched.ir.stmt import (
    AttrStmt,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    While,
)


class Fault(Exception):
    """An index or iterator out of range, or a division by zero."""


def wrap(value, dtype):
    if dtype == "bool":
        return int(bool(value))
    n = int(dtype.lstrip("uint"))
    value %= 1 << n
    return value - (1 << n) if dtype[0] == "i" and value >= 1 << (n - 1) else value


def convert(value, source, dtype):
    if dtype.startswith("float"):
        return np.dtype(dtype).type(value)
    if source.startswith("float"):
        if dtype == "bool":
            return int(value != 0)
        value = float(value)
        whole = math.trunc(value) if math.isfinite(value) and abs(value) < 2.0**63 else -(1 << 63)
        return wrap(whole, dtype)
    return int(value != 0) if dtype == "bool" else wrap(value, dtype)


class Machine:
    def __init__(self, externs=None):
        self.env = {}
        self.memory = {}
        self.externs = externs or {}

    def run(self, func, arrays):
        for buffer, array in zip(func.buffers, arrays):
            self.memory[buffer] = array
        self.stmt(func.body)

    # -- expressions

    def expr(self, e):
        if isinstance(e, IntImm):
            return e.value
        if isinstance(e, FloatImm):
            return np.dtype(e.dtype).type(e.value)
        if isinstance(e, Var):
            return self.env[e]
        if isinstance(e, Cast):
            return convert(self.expr(e.value), e.value.dtype, e.dtype)
        if isinstance(e, Not):
            return int(not self.expr(e.a))
        if isinstance(e, Let):
            self.env[e.var] = self.expr(e.value)
            return self.expr(e.body)
        if isinstance(e, BufferLoad):
            value = self.memory[e.buffer][self.index(e.buffer, e.indices)]
            return value if e.buffer.dtype.startswith("float") else int(value)
        if isinstance(e, Select):
            return self.expr(e.true_value if self.expr(e.condition) else e.false_value)
        if isinstance(e, BinOp):
            return self.binary(e)
        assert isinstance(e, Call), e
        if e.op == "if_then_else":
            return self.expr(e.args[1] if self.expr(e.args[0]) else e.args[2])
        a, b = (self.expr(x) for x in e.args) if len(e.args) == 2 else (self.expr(e.args[0]), None)
        width = 8 if e.args[0].dtype == "bool" else int(e.args[0].dtype.lstrip("uintfloa"))
        if e.op in ("shift_left", "shift_right") and not 0 <= b < width:
            raise Fault("shift")
        table = {
            "shift_left": lambda: wrap(a << b, e.dtype),
            "shift_right": lambda: a >> b,
            "bitwise_and": lambda: a & b,
            "bitwise_or": lambda: a | b,
            "bitwise_xor": lambda: a ^ b,
            "bitwise_not": lambda: wrap(~a, e.dtype),
            "sqrt": lambda: np.sqrt(a),
            "fabs": lambda: np.abs(a),
            "floor": lambda: np.floor(a),
        }
        return table[e.op]()

    def binary(self, e):
        a = self.expr(e.a)
        if e.op == "and" and not a:
            return 0
        if e.op == "or" and a:
            return 1
        b = self.expr(e.b)
        if e.op in ("and", "or"):
            return b
        if e.op in ("min", "max"):
            return a if (a < b if e.op == "min" else a > b) else b
        compare = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}
        if e.op in compare:
            return int(compare[e.op])
        if e.a.dtype.startswith("float"):
            with np.errstate(all="ignore"):
                return {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[e.op](a, b)
        if e.op in ("//", "%", "truncdiv", "truncmod") and b == 0:
            raise Fault("division by zero")
        if e.op in ("truncdiv", "truncmod"):
            q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return wrap(q if e.op == "truncdiv" else a - q * b, e.dtype)
        if e.op in ("//", "%"):
            return wrap(a // b if e.op == "//" else a % b, e.dtype)
        return wrap({"+": a + b, "-": a - b, "*": a * b}[e.op], e.dtype)

    def index(self, buffer, indices):
        at = tuple(self.expr(i) for i in indices)
        if any(not 0 <= i < n for i, n in zip(at, self.memory[buffer].shape)):
            raise Fault(f"{buffer.name}{at}")
        return at

    # -- statements

    def stmt(self, s):
        if isinstance(s, SeqStmt):
            for x in s.stmts:
                self.stmt(x)
        elif isinstance(s, For):
            low = self.expr(s.min)
            for i in range(low, low + self.expr(s.extent)):
                self.env[s.var] = i
                self.stmt(s.body)
        elif isinstance(s, BufferStore):
            value = self.expr(s.value)
            self.memory[s.buffer][self.index(s.buffer, s.indices)] = value
        elif isinstance(s, IfThenElse):
            if self.expr(s.condition):
                self.stmt(s.then_case)
            elif s.else_case is not None:
                self.stmt(s.else_case)
        elif isinstance(s, LetStmt):
            self.env[s.var] = self.expr(s.value)
            self.stmt(s.body)
        elif isinstance(s, AttrStmt):
            self.stmt(s.body)
        elif isinstance(s, While):
            while self.expr(s.condition):
                self.stmt(s.body)
        elif isinstance(s, BlockRealize):
            self.block(s)
        elif isinstance(s, Evaluate):
            self.extern(s.value)
        else:
            raise TypeError(type(s))

    def block(self, s):
        if not self.expr(s.predicate):
            return
        values = [self.expr(v) for v in s.iter_values]
        first = True
        for iv, value in zip(s.block.iter_vars, values):
            low = self.expr(iv.dom.min)
            if not low <= value < low + self.expr(iv.dom.extent):
                raise Fault(f"iterator {iv.var.name} = {value}")
            first = first and (iv.kind != "reduce" or value == low)
            self.env[iv.var] = value
        for buffer in s.block.alloc_buffers:
            if buffer not in self.memory:
                shape = [self.expr(e) for e in buffer.shape]
                self.memory[buffer] = poisoned(shape, buffer.dtype)
        for match in s.block.match_buffers:
            region = [(self.expr(r.min), self.expr(r.extent)) for r in match.source.region]
            source = self.memory[match.source.buffer]
            if any(lo < 0 or lo + n > size for (lo, n), size in zip(region, source.shape)):
                raise Fault("region")
            part = source[tuple(slice(lo, lo + n) for lo, n in region)]
            view = part.reshape([self.expr(e) for e in match.buffer.shape])
            assert np.shares_memory(view, source) or view.size == 0
            self.memory[match.buffer] = view
        if s.block.init is not None and first:
            self.stmt(s.block.init)
        self.stmt(s.block.body)

    def extern(self, e):
        if not isinstance(e, Call):
            return
        assert e.op == "call_extern"
        assert isinstance(e.args[0], StringImm)
        desc, order = self.externs[e.args[0].value]
        pointers = [a.buffer for a in e.args[1:] if isinstance(a, BufferData)]
        for position, buffer in zip(order, pointers):
            self.memory[desc.buffers[position]] = self.memory[buffer]
        self.stmt(desc.body)


def poisoned(shape, dtype):
    if dtype.startswith("float"):
        return np.full(shape, np.nan, dtype)
    return np.frombuffer(bytes([0xA5]) * (int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(shape).copy()


def run(func, arrays, externs=None):
    """Runs ``func`` on copies of ``arrays`` (one per tensor parameter); returns the copies."""
    copies = [a.copy() for a in arrays]
    Machine(externs).run(func, copies)
    return copies


__all__ = ["Buffer", "Fault", "run"]
