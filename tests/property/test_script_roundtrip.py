"""What is printed reads back equal: random programs, scheduled or not, in both dialects."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from autosched.errors import ProgramError
from autosched.ir import BinOp, Buffer, Call, Cast, FloatImm, IntImm, Not, Select, Var, seq
from autosched.ir.excerpt import excerpt
from autosched.ir.expr import BufferData, Expr, Let, Ramp, StringImm
from autosched.ir.printer import expr_text, script, stmt_text
from autosched.ir.stmt import (
    TRUE,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBuffer,
    PrimFunc,
    Range,
    Stmt,
    While,
    make_root,
)
from autosched.ir.structural import structural_equal
from autosched.script import parse

# Few names, some of them awkward: the printer has to tell variables of one name apart.
NAMES = st.sampled_from(["i", "j", "i_1", "A", "T", "I", "range", "lambda", "x.y", "", "1st"])
NOTES = st.dictionaries(
    st.sampled_from(["k", "pragma_x", "a.b"]),
    st.recursive(st.integers(-3, 300) | st.booleans() | st.text("ab\"'\\\n{é", max_size=3) | st.floats(allow_nan=False),
                 lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=1),
                 max_leaves=3),
    max_size=2)


class Programs:
    """Draws one program; keeps what is in scope."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.vars: list[Var] = []
        self.buffers: list[Buffer] = []
        self.budget = draw(st.integers(1, 14))

    def pick(self, n: int) -> int:
        return self.draw(st.integers(0, n - 1))

    def expr(self, dtype: str = "int32", depth: int = 2) -> Expr:
        known = [v for v in self.vars if v.dtype == dtype]
        loads = [b for b in self.buffers if b.dtype == dtype]
        kind = self.pick(9 if depth else 3)
        if kind == 0 and known:
            return known[self.pick(len(known))]
        if kind == 1 and loads:
            b = loads[self.pick(len(loads))]
            return b[self.indices(b, 0 if not depth else depth - 1)]
        if kind <= 2:
            return self.constant(dtype)
        a, b = self.expr(dtype, depth - 1), self.expr(dtype, depth - 1)
        if dtype == "bool":
            op = ["and", "or", "<", "<=", "==", "!=", ">", ">="][self.pick(8)]
            if kind == 3:
                return Not(a)
            if kind == 4:
                return Call("likely", (a,), "bool")
            if op in ("and", "or"):
                return BinOp(op, a, b, "bool")
            return BinOp(op, self.expr("int32", depth - 1), self.expr("int32", depth - 1), "bool")
        if kind == 3:
            other = ["int8", "float32", "int64", dtype][self.pick(4)]
            return Cast(dtype, self.expr(other, depth - 1))
        if kind == 4:
            return Select(self.expr("bool", depth - 1), a, b, dtype)
        if kind == 5:
            return self.call(dtype, a, b, depth)
        ops = ["+", "-", "*", "min", "max"] + (["/"] if dtype == "float32" else ["//", "%", "truncdiv", "truncmod"])
        # Unfolded on purpose: the text must keep ``x + 0`` and ``3 // 0``.
        return BinOp(ops[self.pick(len(ops))], a, b, dtype)

    def call(self, dtype: str, a: Expr, b: Expr, depth: int) -> Expr:
        kind = self.pick(6)
        if kind == 0:
            return Call("if_then_else", (self.expr("bool", depth - 1), a, b), dtype)
        if kind == 1:
            return Call("shift_right" if dtype != "float32" else "pow", (a, b), dtype)
        if kind == 2:
            return Call("exp", (a,), ["float32", dtype][self.pick(2)]) if dtype == "float32" else Call("abs", (a,), dtype)
        if kind == 3:
            return Call("strange.op", (a, StringImm('q"')), dtype)
        if kind == 4 and self.vars:
            var = Var(self.draw(NAMES), "int32")
            value = self.expr("int32", 0)
            self.vars.append(var)
            body = self.expr(dtype, depth - 1)
            self.vars.pop()
            return Let(var, value, body, dtype)
        args: tuple[Expr, ...] = (StringImm("go"), a)
        if self.buffers:
            args += (BufferData(self.buffers[self.pick(len(self.buffers))]),)
        return Call("call_extern", args, dtype)

    def indices(self, buffer: Buffer, depth: int) -> tuple[Expr, ...]:
        """Any indices; constant ones lie inside, for the parser refuses others."""
        given = [self.expr("int32", depth) for _ in buffer.shape]
        return tuple(
            IntImm(i.value % n.value) if isinstance(i, IntImm) and isinstance(n, IntImm) else i
            for i, n in zip(given, buffer.shape)
        )

    def constant(self, dtype: str) -> Expr:
        if dtype == "bool":
            return IntImm(self.pick(2), "bool")
        if dtype == "float32":
            return FloatImm(self.draw(st.sampled_from([0.0, 1.0, -2.5, 1e-30, math.inf, -math.inf])), dtype)
        return IntImm(self.draw(st.integers(-4, 40)), dtype)

    def buffer(self, view: bool = False) -> Buffer:
        shape = tuple(IntImm(self.draw(st.integers(1, 8))) for _ in range(self.pick(3) + (1 if view else 0)))
        extra = {}
        if len(shape) > 1 and not view and self.pick(3) == 0:
            extra["axis_separators"] = (1,)
        if view and self.pick(2):
            extra["strides"] = tuple(Var(f"s{i}") for i in range(len(shape)))
            extra["elem_offset"] = Var("offset")
            extra["offset_factor"] = 1
        dtype = ["int8", "int32", "float32"][self.pick(3)]
        scope = ["global", "local.acc_buffer"][self.pick(2)]
        return Buffer(self.draw(NAMES), shape, dtype, scope, **extra)

    def region(self) -> BufferRegion:
        b = self.buffers[self.pick(len(self.buffers))]
        return BufferRegion(b, tuple(
            Range(self.expr("int32", 1), IntImm(self.draw(st.integers(1, 8))) if self.pick(3) else self.expr("int32", 1))
            for _ in b.shape))

    def stmt(self, depth: int) -> Stmt:
        self.budget -= 1
        kind = self.pick(11) if depth and self.budget > 0 else 0
        if kind <= 1:
            if not self.buffers:
                return Evaluate(self.expr())
            b = self.buffers[self.pick(len(self.buffers))]
            return BufferStore(b, self.indices(b, 1), self.expr(b.dtype))
        if kind == 2:
            return seq(*[self.stmt(depth - 1) for _ in range(self.draw(st.integers(2, 3)))])
        if kind in (3, 4):
            return self.loop(depth)
        if kind in (5, 6):
            return self.block(depth)
        if kind == 7:
            other = self.stmt(depth - 1) if self.pick(2) else None
            return IfThenElse(self.expr("bool"), self.stmt(depth - 1), other)
        if kind == 8:
            value, var = self.expr(["int32", "float32"][self.pick(2)]), None
            var = Var(self.draw(NAMES), value.dtype)
            self.vars.append(var)
            body = self.stmt(depth - 1)
            self.vars.pop()
            return LetStmt(var, value, body)
        if kind == 9:
            return AttrStmt(self.draw(st.sampled_from(["x", None, 3])), "key", self.expr(), self.stmt(depth - 1))
        if self.pick(2):
            return While(self.expr("bool"), self.stmt(depth - 1))
        return AssertStmt(self.expr("bool"), self.draw(st.text("ab\"\\", max_size=3)), self.stmt(depth - 1))

    def loop(self, depth: int) -> Stmt:
        kind = ["serial", "serial", "serial", "unrolled", "vectorized", "parallel", "thread_binding"][self.pick(7)]
        dtype = "int64" if self.pick(5) == 0 else "int32"
        lo = IntImm(self.draw(st.sampled_from([0, 0, 0, 2])), dtype)
        extent = self.constant(dtype) if self.pick(4) else self.expr(dtype, 1)
        var = Var(self.draw(NAMES), dtype)
        self.vars.append(var)
        body = self.stmt(depth - 1)
        self.vars.pop()
        notes = self.draw(NOTES) if self.pick(3) == 0 else {}
        return For(var, lo, extent, kind, body, "vthread" if kind == "thread_binding" else None, notes)

    def block(self, depth: int) -> Stmt:
        iters, values = [], []
        loops = [v for v in self.vars if v.dtype == "int32"]
        for _ in range(self.pick(3)):
            dom = Range(IntImm(self.draw(st.sampled_from([0, 0, 3]))), IntImm(self.draw(st.integers(1, 8))))
            kind = ["spatial", "reduce", "scan", "opaque"][self.pick(4)]
            iters.append(IterVar(Var(self.draw(NAMES)), dom, kind))
            values.append(loops[self.pick(len(loops))] if loops and self.pick(2) else self.expr("int32", 1))
        predicate = self.expr("bool", 1) if self.pick(3) == 0 else TRUE
        outer_vars, outer_buffers = list(self.vars), list(self.buffers)
        self.vars = self.vars + [iv.var for iv in iters]
        reads = tuple(self.region() for _ in range(self.pick(3) if self.buffers else 0))
        writes = tuple(self.region() for _ in range(self.pick(2) if self.buffers else 0))
        allocs = tuple(self.buffer() for _ in range(self.pick(2)))
        matches = ()
        if self.buffers and self.pick(3) == 0:
            matches = (MatchBuffer(self.buffer(view=True), self.region()),)
        self.buffers = self.buffers + list(allocs) + [m.buffer for m in matches]
        self.vars = self.vars + [s for m in matches for s in m.buffer.strides if isinstance(s, Var)]
        init = self.stmt(0) if self.pick(3) == 0 else None
        body = self.stmt(depth - 1)
        self.vars, self.buffers = outer_vars, outer_buffers
        notes = self.draw(NOTES) if self.pick(3) == 0 else {}
        name = self.draw(st.sampled_from(["C", "C_update", "A_local.inp_buffer", "", 'q"']))
        block = Block(name, tuple(iters), reads, writes, body, init, allocs, matches, notes)
        return BlockRealize(tuple(values), predicate, block)

    def func(self) -> PrimFunc:
        symbols = [Var("n", ["int32", "int64"][self.pick(2)]) for _ in range(self.pick(2))]
        scalars = [Var("m", "int32") for _ in range(self.pick(2))]
        params: list[Buffer | Var] = []
        for _ in range(self.draw(st.integers(1, 3))):
            b = self.buffer()
            if symbols and self.pick(2):
                size = symbols + scalars
                b = Buffer(b.name, (*b.shape, size[self.pick(len(size))]), b.dtype, b.scope)
            params.append(b)
        params.extend(scalars)
        used = {s for p in params if isinstance(p, Buffer) for s in p.shape if isinstance(s, Var)}
        self.vars = scalars + [s for s in symbols if s in used]
        allocs = tuple(self.buffer() for _ in range(self.pick(2)))
        self.buffers = [p for p in params if isinstance(p, Buffer)] + list(allocs)
        ranges = tuple((-5, 7) if isinstance(p, Buffer) and self.pick(4) == 0 else None for p in params)
        return PrimFunc(tuple(params), make_root(self.stmt(4), allocs), "main", {"tir.noalias": True}, ranges)


@st.composite
def programs(draw: st.DrawFn) -> PrimFunc:
    return Programs(draw).func()


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(programs())
def test_printed_programs_read_back_equal(func: PrimFunc) -> None:
    for dialect in ("tvm", "block"):
        text = script(func, dialect)
        try:
            again = parse(text)
        except ProgramError as error:
            # An index that folds to a constant outside its buffer is well-formed as an expression, and no program to be written.
            assume("is outside dimension" not in str(error))
            raise
        assert structural_equal(func, again), text
        settled = script(again, dialect)
        assert script(parse(settled), dialect) == settled
        assert again.attrs == func.attrs
    assert parse(script(parse(script(func, "block")))) == func


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(programs(), st.data())
def test_every_statement_can_be_shown_and_marked(func: PrimFunc, data: st.DataObject) -> None:
    from autosched.ir.functor import walk

    nodes = [n for n in walk(func.body) if not isinstance(n, Block)]
    node = nodes[data.draw(st.integers(0, len(nodes) - 1))]
    assert stmt_text(node)
    marked = excerpt(func, [node], max_lines=6)
    lines = marked.splitlines()
    assert len(lines) <= 6
    if not isinstance(node, BlockRealize) or node is not func.body:
        assert any(line.startswith("> ") for line in lines) or type(node).__name__ == "SeqStmt"


def test_ramps_keep_their_lanes() -> None:
    r = Ramp(Var("i"), IntImm(1), 4, "int32x4")
    assert expr_text(r) == "T.Ramp(i, 1, 4)"
    func = parse("@T.prim_func\ndef f(A: T.Buffer((16,), 'int32'), B: T.Buffer((16,), 'int32')):\n"
                 "    for i in range(4):\n        B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(0, 1, 4)] + T.Broadcast(1, 4)\n")
    assert parse(func.script()) == func
