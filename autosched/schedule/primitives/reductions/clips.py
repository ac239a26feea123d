"""Clips that later ones make up for, constants and shifts behind clips: drop_clip, advance_constant, advance_shift."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.ir.expr import BinOp, BufferData, BufferLoad, Call, Cast, Expr, Var, bits, const, int_value
from autosched.ir.functor import expr_children, stmt_exprs, walk, walk_expr
from autosched.ir.patterns import choice_of, operands
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, Buffer, BufferStore, Range, Stmt
from autosched.ir.value_bounds import Interval, ValueBounds, dtype_bounds
from autosched.schedule.analysis.dependence import names, scope_of
from autosched.schedule.analysis.outside import require_blocks
from autosched.schedule.analysis.pipeline import uncovered
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.fold import is_sum
from autosched.schedule.primitives.reductions.minus import known_values
from autosched.schedule.primitives.reductions.plain import plain_store, plain_stores
from autosched.schedule.primitives.reductions.zero_terms import Replaced

NUMBER = "int32"
_Ranges = Callable[[Expr], Interval]  # what an expression is between
_Places = Callable[[Expr, _Ranges], list["_Place"]]  # where a value adds or shifts what may go further in front


class Clips(ScheduleBase):
    """The primitives that change what stages clip."""

    @primitive
    def drop_clip(self, block: BlockRV | str) -> None:
        """Leaves out clips of a block whose results are the same without them, because of what comes after.

        Beyond the clip's bound a later one has to have the last word, whatever else comes in: ``min(min(x, 127) + y, 127)`` is
        ``min(x + y, 127)`` where ``y`` is never negative. What comes after may be in the block itself, or in the stages that
        alone read what it stores. Declared value ranges count.

        Args:
            block: handle or name of a block that stores one value, without init.

        Raises:
            ScheduleError: no minimum or maximum with a constant that may go.

        Before::

            R = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("R"):
                    vi = T.axis.spatial(16, i)
                    R[vi] = T.min(T.max(A[vi], 0), 127)
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.min(R[vi] + D[vi], 127)

        After ``sch.drop_clip("R")``::

            R = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("R"):
                    vi = T.axis.spatial(16, i)
                    R[vi] = T.max(A[vi], 0)
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.min(R[vi] + D[vi], 127)
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _without_clips(state, realize.block)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})

    @primitive
    def advance_constant(self, block: BlockRV | str) -> BlockRV:
        """Moves a constant that a block adds to a shifted or clipped value in front of the shifts and clips.

        ``min(max(x >> s, low), high) + c`` equals ``min(max((x + (c << s)) >> s, low + c), high + c)`` as long as nothing
        overflows. There it may be part of what a sum starts with, and costs nothing (``fold_epilogue``). The value may be
        multiplied before the constant, a multiple, is added. It may be what another block stores for this one alone: then it is
        that block that adds the constant.

        Args:
            block: handle or name of the block that adds the constant; of a reduction it is the initial value that is looked at.

        Returns:
            the block that adds it now.

        Raises:
            ScheduleError: no int32 constant is added to a value that is shifted or clipped by constants; others read what the
                other block stores, or it is an output; the ranges of values do not prove that nothing overflows.

        Before::

            R = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("R"):
                    vi = T.axis.spatial(16, i)
                    R[vi] = T.min(T.max(T.shift_right(T.Cast("int32", A[vi]) * 64 + b[vi], 8), 0), 127)
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.shift_right(R[vi] + T.Cast("int32", D[vi]) + 1, 1)

        After ``sch.advance_constant("C")``::

            R = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("R"):
                    vi = T.axis.spatial(16, i)
                    R[vi] = T.min(T.max(T.shift_right(T.Cast("int32", A[vi]) * 64 + (b[vi] + 256), 8), 1), 128)
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.shift_right(R[vi] + T.Cast("int32", D[vi]), 1)
        """
        assert isinstance(block, BlockRV)
        return self._advance(block, _constants)

    @primitive
    def advance_shift(self, block: BlockRV | str) -> BlockRV:
        """Moves a right shift of a sum to the one term that is no multiple of it, in front of that term's clips.

        ``(min(max(x >> t, low), high) + 2 * y + c) >> 1`` equals ``min(max((x + (c << t)) >> (t + 1), (low + c) >> 1),
        (high + c) >> 1) + y`` as long as nothing overflows: two shifts become one. The term may be what another block stores for
        this one alone: then it is that block that shifts further.

        Args:
            block: handle or name of the block that shifts the sum; of a reduction it is the initial value that is looked at.

        Returns:
            the block that shifts now.

        Raises:
            ScheduleError: no int32 sum is shifted of which all terms but one, which is shifted or clipped by constants, are
                multiples; others read what the other block stores, or it is an output; the ranges of values do not prove that
                nothing overflows.

        Before::

            R = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("R"):
                    vi = T.axis.spatial(16, i)
                    R[vi] = T.min(T.max(T.shift_right(A[vi], 8), 0), 127)
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.shift_right(R[vi] + T.Cast("int32", D[vi]) * 2 + 1, 1)

        After ``sch.advance_shift("C")``::

            R = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("R"):
                    vi = T.axis.spatial(16, i)
                    R[vi] = T.min(T.max(T.shift_right(A[vi] + 256, 9), 0), 64)
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = R[vi] + T.Cast("int32", D[vi])
        """
        assert isinstance(block, BlockRV)
        return self._advance(block, _shifts)

    def _advance(self, block: BlockRV, places: _Places) -> BlockRV:
        state, realize = self.block_at(block)
        try:
            table, made = _advanced(state, realize.block, places)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, table)
        return self.block_rv(made)


@dataclass(frozen=True)
class _Place:
    """Where a constant is added to a value, or a sum of both and others shifted.

    Args:
        whole: all of it.
        terms: what is left to be added up; the first of them is the value, or a multiple of it.
        value: what is shifted or clipped, or where it is loaded from.
        constant: what is to be added to the value itself.
        shift: by how many positions it is to be shifted then, to the right.
    """

    whole: Expr
    terms: Sequence[Expr]
    value: Expr
    constant: int
    shift: int = 0


def _advanced(state: State, block: Block, places: _Places) -> tuple[dict[int, Stmt | None], Block]:
    """The blocks in place of others, by identity, and the one of them that adds the constant, or shifts.

    Args:
        state: of the program.
        block: that adds or shifts.
        places: where it does, given what values are between.
    """
    body, init = plain_stores(block)
    store = body if init is None else init
    values = known_values(state.func)
    own = {iv.var: iv.dom for iv in block.iter_vars}
    why: Refusal | None = None
    for place in places(store.value, lambda e: values.of(e, own)):
        read = place.value if isinstance(place.value, BufferLoad) else None
        try:
            source, value = (block, place.value) if read is None else _source(state, block, read)
            mover = _Mover(state, source, values, {iv.var: iv.dom for iv in source.iter_vars})
            moved = mover.moved(value, place.constant, place.shift)
        except Refusal as r:
            why = why or r
            continue
        first, *rest = place.terms
        kept = _sum([first if read is not None else Replaced(value, moved).visit_expr(first), *rest])
        new = BufferStore(store.buffer, store.indices, Replaced(place.whole, kept).visit_expr(store.value))
        fresh = with_access(replace(block, body=new) if init is None else replace(block, init=new))
        if read is None:
            return {id(block): fresh}, fresh
        behind = source.body
        assert isinstance(behind, BufferStore)
        made = with_access(replace(source, body=BufferStore(behind.buffer, behind.indices, moved)))
        return {id(block): fresh, id(source): made}, made
    does = "adds no constant to" if places is _constants else "shifts no sum of multiples and"
    raise why or Refusal(f"block {block.name} {does} an {NUMBER} value that is shifted or clipped", [block.ident], code="form")


def _shifts(value: Expr, between: _Ranges) -> list[_Place]:
    """Every sum that is shifted, from the outside in, of which all terms but one are multiples of what it is divided by."""
    found: list[_Place] = []
    by = int_value(value.args[1]) if isinstance(value, Call) and value.op == "shift_right" else None
    if isinstance(value, Call) and by is not None and 0 < by < bits(NUMBER) and value.dtype == NUMBER:
        terms = _terms(value.args[0])
        constants = [int_value(t) for t in terms]
        others = [t for t, c in zip(terms, constants) if c is None]
        odd = [t for t in others if _unscaled(t)[1] % (1 << by)]
        least, most = dtype_bounds(NUMBER)
        ends = [between(t) for t in terms]
        if len(odd) == 1 and (isinstance(odd[0], BufferLoad) or _passes(odd[0])) and (
            least <= sum(low for low, _ in ends) and sum(high for _, high in ends) <= most
        ):
            rest = [_scaled(*_unscaled(t), by) for t in others if t is not odd[0]]
            found.append(_Place(value, [odd[0], *rest], odd[0], sum(c for c in constants if c is not None), by))
    for child in expr_children(value) if not isinstance(value, BufferLoad) else ():
        found += _shifts(child, between)
    return found


def _scaled(value: Expr, by: int, shift: int) -> Expr:
    """A multiple of a value, divided by a power of two that divides it."""
    factor = by >> shift
    return value if factor == 1 else BinOp("*", value, const(factor, NUMBER), NUMBER)


def _constants(value: Expr, between: _Ranges) -> list[_Place]:
    """Every sum with a constant, from the outside in, with each of its terms that the constant might go to."""
    found: list[_Place] = []
    if isinstance(value, BinOp) and value.op in ("+", "-") and value.dtype == NUMBER:
        terms = _terms(value)
        constants = [int_value(t) for t in terms]
        total = sum(c for c in constants if c is not None)
        others = [t for t, c in zip(terms, constants) if c is None]
        for n, term in enumerate(others) if total else ():
            own, by = _unscaled(term)
            if total % by == 0 and (isinstance(own, BufferLoad) or _passes(own)):
                found.append(_Place(value, [term, *others[:n], *others[n + 1 :]], own, total // by))
        inside = others if terms != [value] else [value.a, value.b]  # a difference is a term
        return [*found, *(place for term in inside for place in _constants(term, between))]
    for child in expr_children(value) if not isinstance(value, BufferLoad) else ():
        found += _constants(child, between)
    return found


def _terms(value: Expr) -> list[Expr]:
    """What a value is the sum of; what is taken away that is no constant is part of a term."""
    found: list[Expr] = []
    for part in operands(value, "+"):
        by = int_value(part.b) if isinstance(part, BinOp) and part.op == "-" else None
        found += [part] if by is None or not isinstance(part, BinOp) else [*_terms(part.a), const(-by, part.dtype)]
    return found


def _unscaled(value: Expr) -> tuple[Expr, int]:
    """What a value is a multiple of, and which: sums and multiples wrap around alike."""
    by = 1
    while isinstance(value, BinOp | Call) and value.dtype == NUMBER:
        if isinstance(value, Call):
            shift = int_value(value.args[1]) if value.op == "shift_left" else None
            if shift is None or not 0 <= shift < bits(NUMBER):
                break
            value, by = value.args[0], by << shift
        else:
            factor = int_value(value.b) if value.op == "*" else None
            if not factor:
                break
            value, by = value.a, by * factor
    return value, by


def _sum(terms: Sequence[Expr]) -> Expr:
    total = terms[0]
    for term in terms[1:]:
        total = BinOp("+", total, term, NUMBER)
    return total


def _passes(value: Expr) -> tuple[Expr, int] | None:
    """The operand and the constant of a minimum, a maximum or a right shift; None for anything else."""
    if isinstance(value, BinOp) and value.op in ("min", "max"):
        for inner, other in ((value.a, value.b), (value.b, value.a)):
            if (limit := int_value(other)) is not None and int_value(inner) is None:
                return inner, limit
    if isinstance(value, Call) and value.op == "shift_right":
        by = int_value(value.args[1])
        if by is not None and 0 <= by < bits(value.dtype):
            return value.args[0], by
    return None


@dataclass(frozen=True)
class _Mover:
    """Adds constants to a block's value, in front of what is done to it.

    Args:
        state: of the program.
        block: that stores the value.
        values: what values can be.
        dom: of its iterators.
    """

    state: State
    block: Block
    values: ValueBounds
    dom: Mapping[Var, Range]

    def moved(self, value: Expr, constant: int, shift: int = 0) -> Expr:
        """A shifted or clipped value, larger by a constant, and then shifted to the right."""
        parts = _passes(value)
        if parts is None or value.dtype != NUMBER:
            raise Refusal(f"what block {self.block.name} stores is not an {NUMBER} value that is shifted or clipped last",
                          [self.block.ident], code="form")
        inner, by = parts
        shifts = isinstance(value, Call)
        more = constant << by if shifts else constant
        low, high = self.values.of(inner, self.dom)
        self._require(low + more, high + more, f"what block {self.block.name} shifts or clips")
        if shifts:
            if by + shift >= bits(NUMBER):
                raise Refusal(f"block {self.block.name} would shift by {by + shift}", [self.block.ident], code="range")
            new = self.moved(inner, more) if _passes(inner) and more else self._plus(inner, more)
            return Call("shift_right", (new, const(by + shift, NUMBER)), NUMBER)
        if _passes(inner):
            new = self.moved(inner, more, shift)
        else:
            new = self._plus(inner, more)
            new = Call("shift_right", (new, const(shift, NUMBER)), NUMBER) if shift else new
        assert isinstance(value, BinOp)
        self._require(by + constant, by + constant, "a clip's bound")
        return BinOp(value.op, new, const((by + constant) >> shift, NUMBER), NUMBER)

    def _require(self, low: int, high: int, what: str) -> None:
        least, most = dtype_bounds(NUMBER)
        if low < least or high > most:
            raise Refusal(f"with the constant, {what} may be between {low} and {high}, which {NUMBER} does not hold",
                          [self.block.ident], "declare narrower ranges of the parameters", code="range")

    def _plus(self, value: Expr, constant: int) -> Expr:
        """A value and a constant, which joins what is added to a sum."""
        terms = _terms(value)
        constants = [int_value(t) for t in terms]
        total = constant + sum(c for c in constants if c is not None)
        least, most = dtype_bounds(NUMBER)
        total = (total - least) % (most - least + 1) + least  # sums wrap around, and so do their constants
        others = [t for t, c in zip(terms, constants) if c is None]
        if not others or not total:
            return _sum(others) if others else const(total, NUMBER)
        scope = scope_of(self.state, self.block)
        at = [n for n, t in enumerate(others) if not (isinstance(t, BufferLoad) and is_sum(self.state, scope, t.buffer))]
        if len(others) > 1 and at:
            others[at[-1]] = BinOp("+", others[at[-1]], const(total, NUMBER), NUMBER)
            return _sum(others)
        return _sum([*others, const(total, NUMBER)])


def _without_clips(state: State, block: Block) -> Block:
    """A block that clips no more than it has to."""
    store = plain_store(block, alone=True)
    values, dom = known_values(state.func), {iv.var: iv.dom for iv in block.iter_vars}
    value = store.value
    for clip in [e for e in _operands(value) if isinstance(e, BinOp) and e.op in ("min", "max")]:
        parts = _passes(clip)
        if parts is None or not _is_operand(clip, value):
            continue  # part of one that has gone, or it says elsewhere what is read
        inner, bound = parts
        low, high = values.of(inner, dom)
        beyond = (bound, max(high, bound)) if clip.op == "min" else (min(low, bound), bound)
        if _is_settled(state, values, block, value, clip, beyond):
            value = Replaced(clip, inner).visit_expr(value)
    if value == store.value:
        raise Refusal(f"block {block.name} has no clip that what comes after makes up for", [block.ident],
                      "declare ranges of what is added to it", code="form")
    return with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))


def _is_settled(state: State, values: ValueBounds, block: Block, value: Expr, part: Expr, span: Interval) -> bool:
    """Whether a block's value, or what stages make of it, is one and the same wherever a part of it is within a span."""
    given = _Given(values.func, base=values, part=part, span=span)
    low, high = given.of(value, {iv.var: iv.dom for iv in block.iter_vars})
    if low == high:
        return True
    store = block.body
    assert isinstance(store, BufferStore)
    scope, buffer = scope_of(state, block), store.buffer
    readers = [b for b in state.readers(scope, buffer) if b.ident is not block.ident]
    if len(readers) != 1 or readers[0].init is not None or not isinstance(readers[0].body, BufferStore):
        return False
    after = readers[0].body.value
    loads = [e for e in walk_expr(after) if isinstance(e, BufferLoad) and e.buffer is buffer]
    try:
        if len(loads) != 1 or not _is_operand(loads[0], after):
            return False
        if _source(state, readers[0], loads[0])[0].ident is not block.ident:
            return False
    except Refusal:
        return False
    return _is_settled(state, values, readers[0], after, loads[0], (low, high))


def _operands(value: Expr) -> Iterator[Expr]:
    """A value and what it is worked out of; not what says which elements are read, or by what is divided or shifted."""
    yield value
    inner: Sequence[Expr] = ()
    if isinstance(value, BinOp) and value.op in ("+", "-", "*", "min", "max"):
        inner = value.a, value.b
    elif isinstance(value, Cast):
        inner = (value.value,)
    elif isinstance(value, Call) and value.op in ("shift_left", "shift_right"):
        inner = value.args[:1]
    elif (parts := choice_of(value)) is not None:
        inner = parts[1:]
    for operand in inner:
        yield from _operands(operand)


def _is_operand(part: Expr, value: Expr) -> bool:
    """Whether a part of a value is one of its operands wherever it stands."""
    among = [e for e in _operands(value) if e == part]
    return bool(among) and len(among) == sum(e == part for e in walk_expr(value))


@dataclass
class _Given(ValueBounds):
    """What values can be where one expression is within a span.

    Args:
        base: what buffers can hold: of their elements the span says nothing, whatever stored them.
        part: the expression.
        span: its lowest and highest value.
    """

    base: ValueBounds = field(kw_only=True)
    part: Expr = field(kw_only=True)
    span: Interval = field(kw_only=True)

    def of(self, expr: Expr, dom: Mapping[Var, Range]) -> Interval:
        """The lowest and highest value of an integer expression there."""
        return self.span if expr == self.part else super().of(expr, dom)

    def of_buffer(self, buffer: Buffer) -> Interval:
        """The lowest and highest value of a buffer's elements, there or elsewhere."""
        return self.base.of_buffer(buffer)


def _source(state: State, block: Block, load: BufferLoad) -> tuple[Block, Expr]:
    """The block that stores what a load reads, for it alone, and the value that it stores."""
    scope, buffer = scope_of(state, block), load.buffer
    if all(b is not buffer for b in scope.alloc_buffers):
        raise Refusal(f"{buffer.name} is not allocated in {scope.name}: others may read it", [block.ident], code="output")
    writers, reading = state.writers(scope, buffer), state.readers(scope, buffer)
    others = [b for b in reading if b.ident is not block.ident]
    if others:
        raise Refusal(f"{buffer.name} is also read by {names(others)}", [b.ident for b in others], code="reader")
    body = writers[0].body if len(writers) == 1 and writers[0].init is None else None
    if not isinstance(body, BufferStore):
        raise Refusal(f"{buffer.name} is not written by one block with one plain store", [w.ident for w in writers],
                      code="writer")
    source = writers[0]
    require_blocks(state, scope, (), (buffer,))
    read = [e for stmt in walk(state.realizes[block.ident]) for x in stmt_exprs(stmt) for e in walk_expr(x)
            if isinstance(e, BufferLoad | BufferData) and e.buffer is buffer]
    if len(read) != 1:
        raise Refusal(f"block {block.name} reads {buffer.name} {len(read)} times; the others would see the constant",
                      [block.ident], code="reader")
    hole = uncovered(state, scope, block.ident, [source.ident])
    if hole is not None:
        raise Refusal(hole, [source.ident, block.ident], code="order")
    return source, body.value


__all__ = ["Clips"]
