"""Well-formedness: a sound program passes, and each rule refuses the program that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autosched.errors import ProgramError
from autosched.ir.expr import BinOp, BufferData, BufferLoad, Call, Expr, IntImm, StringImm, Var, const
from autosched.ir.functor import rewrite
from autosched.ir.host import HOST_STAGE
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Constant,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    MatchBuffer,
    PrimFunc,
    Range,
    Stmt,
    make_root,
    point,
    seq,
)
from autosched.ir.verify import RULES, check, verify

ZERO = IntImm(0)


def rng(n: int) -> Range:
    return Range(ZERO, IntImm(n))


class Program:
    """B[i] = A[i] + 1 through an intermediate T, in two blocks."""

    def __init__(self) -> None:
        self.a, self.b, self.t = (Buffer(n, (IntImm(16),)) for n in "ABT")
        self.i, self.j, self.vi, self.vj = Var("i"), Var("j"), Var("vi"), Var("vj")
        self.first = self.copy(self.a, self.t, self.vi, "first")
        self.second = self.copy(self.t, self.b, self.vj, "second")
        self.loop = For(self.i, ZERO, IntImm(16), "serial", BlockRealize((self.i,), TRUE, self.first))
        self.other = For(self.j, ZERO, IntImm(16), "serial", BlockRealize((self.j,), TRUE, self.second))
        self.root = make_root(seq(self.loop, self.other), (self.t,))
        self.func = PrimFunc((self.a, self.b), self.root)

    def copy(self, src: Buffer, dst: Buffer, v: Var, name: str) -> Block:
        store = BufferStore(dst, (v,), src[v] + 1.0)
        return Block(name, (IterVar(v, rng(16)),), (point(src, (v,)),), (point(dst, (v,)),), store)

    def with_(self, target: Stmt, new: Stmt) -> PrimFunc:
        return replace(self.func, body=rewrite(self.root, target, new))

    def store(self, index: Expr | None = None, value: Expr | None = None, buffer: Buffer | None = None) -> PrimFunc:
        s = self.second.body
        assert isinstance(s, BufferStore)
        indices = s.indices if index is None else (index,)
        new = BufferStore(buffer or s.buffer, indices, s.value if value is None else value)
        return self.with_(s, new)

    def second_block(self, **changes: object) -> PrimFunc:
        return self.with_(self.second, replace(self.second, **changes))  # type: ignore[arg-type]


def test_a_sound_program_passes() -> None:
    p = Program()
    assert verify(p.func) == []
    check(p.func)
    # Shape variables of parameters are defined by them; opaque blocks may use loops around them.
    n = Var("n")
    a = Buffer("A", (n,))
    i = Var("i")
    inner = Block("opaque", (), (), (), BufferStore(a, (i,), const(0.0)))
    func = PrimFunc((a,), make_root(For(i, ZERO, n, "serial", BlockRealize((), TRUE, inner))))
    assert verify(func) == []


def bad_view(p: Program, view: Buffer, source: BufferRegion) -> PrimFunc:
    return p.second_block(match_buffers=(MatchBuffer(view, source),))


BROKEN: list[tuple[str, str, Callable[[Program], PrimFunc]]] = [
    ("root", "root block", lambda p: replace(p.func, body=p.loop)),
    ("root", "has iterators", lambda p: replace(p.func, body=BlockRealize((ZERO,), TRUE, p.first))),
    ("parameters", "listed twice", lambda p: replace(p.func, params=(p.a, p.b, p.a))),
    ("parameters", "1 value ranges for 2", lambda p: replace(p.func, value_ranges=((0, 1),))),
    ("parameters", "is empty", lambda p: replace(p.func, value_ranges=((1, 0), None))),
    ("constant", "constant 2147483648 does not fit int32", lambda p: p.store(index=IntImm(1 << 31))),
    ("defined", "'k' is used but not defined", lambda p: p.store(index=Var("k"))),
    ("defined", "'vi' is used but not defined", lambda p: p.store(index=p.vi)),
    ("defined", "loop variable 'j' is used inside block 'second'", lambda p: p.store(index=p.j)),
    ("defined", "'i' is used but not defined", lambda p: p.with_(
        p.other.body, BlockRealize((p.i,), TRUE, p.second))),
    ("once", "'i' is defined twice", lambda p: p.with_(p.loop, For(p.i, ZERO, IntImm(2), "serial", p.loop))),
    ("once", "'vi' is defined twice", lambda p: p.with_(p.second, p.copy(p.t, p.b, p.vi, "second"))),
    ("visible", "'X' is used outside", lambda p: p.store(buffer=Buffer("X", (IntImm(16),)))),
    ("visible", "'T' is used outside", lambda p: replace(p.func, body=make_root(p.root.block.body))),
    ("visible", "'Y' is used outside", lambda p: p.with_(p.second.body, seq(p.second.body, Evaluate(Call(
        "call_extern", (StringImm("f"), BufferData(Buffer("Y", (IntImm(1),)))), "int32"))))),
    ("rank", "has 1 dimensions, 2 indices", lambda p: p.with_(p.second.body, BufferStore(
        p.b, (p.vj, p.vj), const(0.0)))),
    ("rank", "has 1 dimensions, 2 indices", lambda p: p.second_block(reads=(BufferRegion(p.t, (rng(1), rng(1))),))),
    ("bounds", "index 16 is outside dimension 0", lambda p: p.store(index=IntImm(16))),
    ("bounds", "index -1 is outside", lambda p: p.store(value=BufferLoad(p.t, (IntImm(-1),), "float32"))),
    ("index type", "is float32, not an integer", lambda p: p.store(index=const(1.0))),
    ("stored type", "int32 value is stored into float32", lambda p: p.store(value=ZERO)),
    ("loaded type", "claims to be int8", lambda p: p.store(value=BufferLoad(p.t, (p.vj,), "int8"))),
    ("operands", "operands of '+' are float32 and int32", lambda p: p.store(
        value=BinOp("+", const(1.0), ZERO, "float32"))),
    ("operands", "not conditions", lambda p: p.with_(p.second.body, IfThenElse(
        BinOp("and", ZERO, TRUE, "bool"), p.second.body))),
    ("operands", "claims to be int32", lambda p: p.store(value=BinOp("<", const(1.0), const(2.0), "int32"))),
    ("condition", "condition is int32", lambda p: p.with_(p.second.body, IfThenElse(p.vj, p.second.body))),
    ("condition", "condition is int32", lambda p: p.with_(p.other.body, BlockRealize((p.j,), IntImm(1), p.second))),
    ("loop", "unknown kind", lambda p: p.with_(p.other, replace(p.other, kind="weird"))),
    ("loop", "has thread None", lambda p: p.with_(p.other, replace(p.other, kind="thread_binding"))),
    ("loop", "different types", lambda p: p.with_(p.other, replace(p.other, extent=IntImm(16, "int64")))),
    ("loop", "extent -1", lambda p: p.with_(p.other, replace(p.other, extent=IntImm(-1)))),
    ("binding", "has 1 iterators, 0 values", lambda p: p.with_(p.other.body, BlockRealize((), TRUE, p.second))),
    ("binding", "its value int64", lambda p: p.with_(p.other.body, BlockRealize(
        (IntImm(0, "int64"),), TRUE, p.second))),
    ("iterators", "unknown kind", lambda p: p.second_block(iter_vars=(IterVar(p.vj, rng(16), "data"),))),
    ("one place", "'first' occurs twice", lambda p: p.with_(p.second, replace(p.first, iter_vars=()))),
    ("allocation", "allocated twice", lambda p: p.second_block(alloc_buffers=(p.t,))),
    ("view", "more dimensions", lambda p: bad_view(p, Buffer("V", (IntImm(1),) * 2), point(p.t, (p.vj,)))),
    ("view", "is int8, its source float32", lambda p: bad_view(p, Buffer("V", (IntImm(1),), "int8"),
                                                               point(p.t, (p.vj,)))),
    ("view", "is 4, its source's 1", lambda p: bad_view(p, Buffer("V", (IntImm(4),)), point(p.t, (p.vj,)))),
    ("view", "drops a dimension of extent 16", lambda p: bad_view(p, Buffer("V", ()), BufferRegion(p.t, (rng(16),)))),
    ("signature", "reads buffer 'T'", lambda p: p.second_block(reads=())),
    ("signature", "writes buffer 'B'", lambda p: p.second_block(writes=())),
    ("constants", "listed twice, or is a parameter", lambda p: replace(p.func, constants=(Constant(p.a, bytes(64)),))),
    ("unwritten", "constant 'B' is written", lambda p: replace(
        p.func, params=(p.a,), constants=(Constant(p.b, bytes(64)),))),
    ("host stages", "", lambda p: p.second_block(annotations={HOST_STAGE: "pack"})),
    ("host place", "does not stand directly in the root block", lambda p: p.with_(p.other.body, BlockRealize((), TRUE, Block(
        "outer", (), (), (), BlockRealize((p.j,), TRUE, replace(p.second, annotations={HOST_STAGE: "pack"})))))),
]


@pytest.mark.parametrize(("rule", "message", "breaks"), BROKEN, ids=[f"{r} {n}" for n, (r, _, _) in enumerate(BROKEN)])
def test_each_rule_refuses(rule: str, message: str, breaks: Callable[[Program], PrimFunc]) -> None:
    func = breaks(Program())
    found = [v for v in verify(func) if v.rule == rule]
    assert found, verify(func)
    assert any(message in v.message for v in found), found
    with pytest.raises(ProgramError):
        check(func)


def test_every_rule_has_a_broken_twin() -> None:
    assert {r.name for r in RULES} == {rule for rule, _, _ in BROKEN}
