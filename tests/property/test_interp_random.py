"""The interpreter against a plain scalar evaluator, on random programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosched.errors import ProgramError
from autosched.ir import interp
from autosched.ir.expr import (
    BinOp,
    BufferLoad,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Let,
    Not,
    Select,
    Var,
    cast,
    const,
)
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBuffer,
    PrimFunc,
    Range,
    While,
    make_root,
    seq,
)

INTS = ("int8", "uint8", "int16", "int32", "uint32", "int64")
RELAXED = settings(max_examples=110, suppress_health_check=list(HealthCheck))


class Builder:
    """Draws statements; keeps what is in scope."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.vars: list[Var] = []
        self.buffers: list[Buffer] = []
        self.writable: list[Buffer] = []
        self.count = 0

    def pick(self, *options):
        return self.draw(st.sampled_from(options))

    def flag(self, one_in: int = 2) -> bool:
        return self.draw(st.integers(0, one_in - 1)) == 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    # -- expressions

    def index(self, extent: int):
        """An index expression, usually inside ``0 .. extent - 1``."""
        e = IntImm(self.draw(st.integers(0, 3)))
        for v in self.draw(st.lists(st.sampled_from(self.vars), max_size=3)) if self.vars else ():
            term = cast("int32", v)
            kind = self.draw(st.integers(0, 5))
            if kind == 1:
                term = term * self.draw(st.integers(-3, 4))
            elif kind == 2:
                term = term // self.draw(st.integers(1, 4))
            elif kind == 3:
                term = term % self.draw(st.integers(1, 4))
            e = e + term
        if self.flag(3):
            e = e // self.draw(st.integers(1, 5))
        return e if self.flag(12) else e % extent

    def load(self, buffer: Buffer):
        return BufferLoad(buffer, tuple(self.index(s.value) for s in buffer.shape), buffer.dtype)

    def value(self, dtype: str, depth: int = 3):
        sources = [b for b in self.buffers if b.dtype == dtype]
        if dtype == "bool":
            return self.condition(depth)
        if depth == 0 or self.flag(4):
            if sources and self.flag():
                return self.load(self.pick(*sources))
            if dtype.startswith("float"):
                return FloatImm(float(np.float32(self.pick(0.0, 1.5, -2.25, 3e38, 1e-40, 0.1))), dtype)
            near = [v for v in self.vars if v.dtype == dtype]
            if near and self.flag():
                return self.pick(*near)
            info = np.iinfo(dtype)
            edge = self.pick(0, 1, 2, 3, 7, int(info.max), int(info.min), int(info.max) // 2)
            return IntImm(edge, dtype)
        kind = self.draw(st.integers(0, 9))
        if kind <= 3:
            a, b = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
            if dtype.startswith("float"):
                return BinOp(self.pick("+", "-", "*", "/", "min", "max"), a, b, dtype)
            return BinOp(self.pick("+", "-", "*", "min", "max"), a, b, dtype)
        if kind == 4:
            other = (
                self.pick("float32", *INTS, "bool")
                if not dtype.startswith("float")
                else self.pick("int32", "int8", "bool")
            )
            return Cast(dtype, self.value(other, depth - 1))
        if kind == 5:
            return Call(
                "if_then_else",
                (self.condition(depth - 1), self.value(dtype, depth - 1), self.value(dtype, depth - 1)),
                dtype,
            )
        if kind == 6:
            return Select(self.condition(depth - 1), self.value(dtype, depth - 1), self.value(dtype, depth - 1), dtype)
        if kind == 7:
            v = Var(self.name("l"), dtype)
            value = self.value(dtype, depth - 1)
            self.vars.append(v)
            body = BinOp("+", v, self.value(dtype, depth - 1), dtype)
            self.vars.remove(v)
            return Let(v, value, body, dtype)
        if dtype.startswith("float"):
            return Call(self.pick("fabs", "floor"), (self.value(dtype, depth - 1),), dtype)
        if kind == 8:
            divisor = IntImm(self.pick(1, 2, 3, 5), dtype)
            if self.flag(3):
                divisor = self.value(dtype, depth - 1)
            return BinOp(self.pick("//", "%", "truncdiv", "truncmod"), self.value(dtype, depth - 1), divisor, dtype)
        if self.flag():
            return Call(
                self.pick("shift_left", "shift_right"),
                (self.value(dtype, depth - 1), IntImm(self.pick(0, 1, 3, 7), dtype)),
                dtype,
            )
        op = self.pick("bitwise_and", "bitwise_or", "bitwise_xor")
        return Call(op, (self.value(dtype, depth - 1), self.value(dtype, depth - 1)), dtype)

    def condition(self, depth: int):
        if depth <= 0 or self.flag():
            dtype = self.pick("int32", "float32", "int8")
            if self.vars and self.flag():
                a, b = self.index(100), IntImm(self.draw(st.integers(0, 6)))
            else:
                a, b = self.value(dtype, max(depth - 1, 0)), self.value(dtype, 0)
            return BinOp(self.pick("<", "<=", ">", ">=", "==", "!="), a, b, "bool")
        if self.flag(4):
            return Not(self.condition(depth - 1))
        return BinOp(self.pick("and", "or"), self.condition(depth - 1), self.condition(depth - 1), "bool")

    # -- statements

    def store(self):
        target = self.pick(*self.writable)
        at = tuple(self.index(s.value) for s in target.shape)
        value = self.value(target.dtype)
        if self.flag(3):
            value = BinOp(self.pick("+", "max"), BufferLoad(target, at, target.dtype), value, target.dtype)
        return BufferStore(target, at, value)

    def reduction(self):
        """A multiply-accumulate nest over a block with reduction iterators, perhaps split with a predicate."""
        acc = [b for b in self.writable if b.dtype in ("int32", "float32", "int64", "int16")]
        if not acc:
            return self.store()
        target = self.pick(*acc)
        outer = list(self.vars)
        loops, iters, values, predicate = [], [], [], TRUE
        for s in target.shape:
            v, bv = Var(self.name("i")), Var(self.name("vi"))
            loops.append((v, s.value))
            iters.append(IterVar(bv, Range(IntImm(0), s)))
            values.append(v)
        for _ in range(self.draw(st.integers(1, 2))):
            extent = self.draw(st.integers(1, 6))
            bv = Var(self.name("vk"))
            iters.append(IterVar(bv, Range(IntImm(0), IntImm(extent)), "reduce"))
            kind = self.draw(st.integers(0, 5))
            if kind == 0:
                # Backwards, or late: the first instance is not in the first iteration.
                k, late = Var(self.name("k")), self.draw(st.integers(0, 2))
                loops.append((k, extent + late))
                values.append(k - late if late else IntImm(extent - 1) - k)
                predicate = BinOp("and", predicate, BinOp(">=", k, IntImm(late), "bool"), "bool")
            elif kind <= 2:
                factor = self.draw(st.integers(1, 4))
                k0, k1 = Var(self.name("k")), Var(self.name("k"))
                loops += [(k0, -(-extent // factor)), (k1, factor)]
                values.append(k0 * factor + k1)
                if extent % factor and self.draw(st.integers(0, 9)):
                    predicate = BinOp("and", predicate, BinOp("<", k0 * factor + k1, IntImm(extent), "bool"), "bool")
            else:
                k = Var(self.name("k"))
                loops.append((k, extent))
                values.append(k)
        self.vars = outer + [iv.var for iv in iters]
        at = tuple(iv.var for iv in iters[: len(target.shape)])
        narrow = {"int32": "int8", "int64": "int32", "int16": "int16", "float32": "float32"}[target.dtype]
        if self.flag(4):
            narrow = target.dtype
        sources = [b for b in self.buffers if b.dtype == narrow]
        if sources and self.draw(st.integers(0, 4)):
            x, y = (cast(target.dtype, self.load(self.pick(*sources))) for _ in range(2))
            term = BinOp("*", x, y, target.dtype)
        else:
            term = self.value(target.dtype, 2)
        sides = [BufferLoad(target, at, target.dtype), term]
        if self.flag():
            sides.reverse()
        body = BufferStore(target, at, BinOp("+", *sides, target.dtype))
        init = BufferStore(target, at, const(0, target.dtype)) if self.draw(st.integers(0, 3)) else None
        self.vars = outer
        stmt = BlockRealize(tuple(values), predicate, Block(self.name("red"), tuple(iters), (), (), body, init))
        for v, extent in reversed(self.draw(st.permutations(loops))):
            stmt = For(
                v, IntImm(0), IntImm(extent), self.pick("serial", "unrolled", "thread_binding"), stmt, thread=None
            )
        return stmt

    def view(self, depth: int):
        """A block with a match buffer of a part of a buffer."""
        source = self.pick(*self.writable)
        region, shape = [], []
        for s in source.shape:
            extent = self.draw(st.integers(1, s.value))
            low = self.index(s.value - extent + 1)
            region.append(Range(low, IntImm(extent)))
            if extent > 1 or self.flag():
                shape.append(IntImm(extent))
        match = Buffer(self.name("view"), tuple(shape) or (IntImm(1),), source.dtype)
        self.buffers.append(match)
        self.writable.append(match)
        body = self.stmt(depth - 1)
        self.buffers.remove(match)
        self.writable.remove(match)
        block = Block(
            self.name("opaque"),
            (),
            (),
            (),
            body,
            match_buffers=(MatchBuffer(match, BufferRegion(source, tuple(region))),),
        )
        return BlockRealize((), TRUE, block)

    def stmt(self, depth: int):
        if depth == 0:
            return self.store()
        kind = self.draw(st.integers(0, 9))
        if kind <= 2:
            v = Var(self.name("i"))
            low = IntImm(0) if self.draw(st.integers(0, 4)) else IntImm(self.draw(st.integers(-2, 3)))
            extent = IntImm(self.draw(st.integers(0, 5))) if not self.flag(6) or not self.vars else self.index(4)
            self.vars.append(v)
            body = self.stmt(depth - 1)
            self.vars.remove(v)
            return For(v, low, extent, self.pick("serial", "unrolled", "vectorized", "parallel"), body)
        if kind == 3:
            return seq(self.stmt(depth - 1), self.stmt(depth - 1))
        if kind == 4:
            other = self.stmt(depth - 1) if self.flag() else None
            return IfThenElse(self.condition(2), self.stmt(depth - 1), other)
        if kind == 5:
            v = Var(self.name("let"), self.pick("int32", "int8"))
            value = self.value(v.dtype, 2)
            self.vars.append(v)
            body = self.stmt(depth - 1)
            self.vars.remove(v)
            return LetStmt(v, value, body)
        if kind == 6:
            return self.view(depth)
        if kind == 7:
            counter = Buffer(self.name("c"), (IntImm(1),), "int32")
            zero = BufferStore(counter, (IntImm(0),), IntImm(0))
            step = BufferStore(counter, (IntImm(0),), counter[0] + 1)
            loop = While(
                BinOp("<", counter[0], IntImm(self.draw(st.integers(0, 4))), "bool"), seq(step, self.stmt(depth - 1))
            )
            return BlockRealize((), TRUE, Block(self.name("w"), (), (), (), seq(zero, loop), alloc_buffers=(counter,)))
        return self.reduction()


@st.composite
def programs(draw: st.DrawFn):
    b = Builder(draw)
    params, allocs = [], []
    for k in range(draw(st.integers(2, 5))):
        shape = tuple(IntImm(draw(st.integers(1, 5))) for _ in range(draw(st.integers(1, 3))))
        dtype = b.pick("int8", "int8", "int32", "int32", "float32", *INTS, "bool")
        (params if k < 2 or b.flag() else allocs).append(Buffer(f"B{k}", shape, dtype))
    b.buffers = [*params, *allocs]
    b.writable = b.buffers[1:]
    body = seq(*[b.stmt(draw(st.integers(1, 3))) for _ in range(draw(st.integers(1, 3)))])
    return PrimFunc(tuple(params), make_root(body, tuple(allocs))), draw(st.integers(0, 1 << 30))


@RELAXED
@given(case=programs())
def test_random_programs_equal_the_scalar_oracle(case, plain_interp) -> None:
    func, seed = case
    rng = np.random.default_rng(seed)
    arrays = [
        interp.random_array(
            rng, [s.value for s in p.shape], p.dtype, (-9, 9) if p.dtype == "int32" and seed % 2 else None
        )
        for p in func.params
    ]
    mine = [a.copy() for a in arrays]
    try:
        expected = plain_interp.run(func, arrays)
    except plain_interp.Fault:
        with pytest.raises(ProgramError):
            interp.run(func, *mine)
        return
    interp.run(func, *mine)
    for p, got, want in zip(func.params, mine, expected):
        np.testing.assert_array_equal(got, want, err_msg=p.name)
