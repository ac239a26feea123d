"""Taking a computed value away: push_negation, negate_by_doubling. The ALU neither subtracts nor negates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, Var, binary, const, int_value, intrin, wrap
from autosched.ir.functor import Mutator, walk_expr
from autosched.ir.patterns import has_loads, is_widened
from autosched.ir.region import with_access
from autosched.ir.remembered import remembered
from autosched.ir.scopes import WORD
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, PrimFunc, Range, Stmt, seq
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.schedule.analysis.dependence import is_output, scope_of
from autosched.schedule.analysis.ways import readers
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import filling, own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.negation import only_taken_away, taken_away
from autosched.schedule.primitives.reductions.plain import plain_store, runs_once, top_of

LEAST, MOST = dtype_bounds("int32")
TURNED = {"min": "max", "max": "min"}
PROGRAMS = 8  # of which it is remembered what their values are

_KNOWN: dict[int, tuple[PrimFunc, ValueBounds]] = {}  # by address; what is known is kept with its address


class Minus(ScheduleBase):
    """Primitives that take away what the program computes."""

    @primitive
    def push_negation(self, block: BlockRV | str) -> None:
        """Takes away the parts of a value where a block takes the value away: the minus moves inwards.

        What is taken away then are tensors, whose negatives ``negate_sum`` and ``add_negative`` make without an operation. A
        right shift rounds down, so its operand's negative is raised by what is shifted out, less one.

        Args:
            block: handle or name of a block that stores a value of int32, made of sums, differences, minima, maxima and shifts.

        Raises:
            ScheduleError: it takes away no such value; a part of it may be so low that its negative is no int32.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] - T.max(T.shift_right(B[vi], 4), 0)

        After ``sch.push_negation("C")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] + T.min(T.shift_right(15 - B[vi], 4), 0)
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = pushed(state.func, realize.block)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})

    @primitive
    def negate_by_doubling(self, block: BlockRV | str) -> BlockRV:
        """Makes the negative of what a block stores by additions and shifts, for all readers that take it away.

        ``2**k - 1`` times a value of k bits is its negative in these bits, and 2**32 - 1 = 3 * 5 * 17 * 257 * 65537: each factor
        is a shift and an addition. Where declared ranges, or the number of terms of a sum, say that fewer bits hold the
        negative, there are fewer factors, and two shifts that extend the sign.

        Args:
            block: handle or name of a block, alone in its loops, that makes an int32 tensor in between.

        Returns:
            The last block of the negative.

        Raises:
            ScheduleError: a result, or another type; no reader does no more than to take it away (``x - T[..]``).

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = T.min(T.max(A[vi], -7), 7)
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] - B[vi]

        After ``sch.negate_by_doubling("B")``::

            B = T.sblock_alloc_buffer((16,), "int32")
            B_by_3 = T.sblock_alloc_buffer((16,), "int32")
            B_by_15 = T.sblock_alloc_buffer((16,), "int32")
            B_negative = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = T.min(T.max(A[vi], -7), 7)
            for i0 in range(16):
                with T.sblock("B_by_3"):
                    v0 = T.axis.spatial(16, i0)
                    B_by_3[v0] = B[v0] + T.shift_left(B[v0], 1)
            for i0 in range(16):
                with T.sblock("B_by_15"):
                    v0 = T.axis.spatial(16, i0)
                    B_by_15[v0] = B_by_3[v0] + T.shift_left(B_by_3[v0], 2)
            for i0 in range(16):
                with T.sblock("B_negative"):
                    v0 = T.axis.spatial(16, i0)
                    B_negative[v0] = T.shift_right(T.shift_left(B_by_15[v0], 28), 28)
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] + B_negative[vi]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _doubled(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


def known_values(func: PrimFunc) -> ValueBounds:
    """Between what values are, those of reductions included that are known to take as many steps as their iterators say.

    Args:
        func: a program. Rules ask one primitive after the other about the same.
    """
    return remembered(_KNOWN, func, _worked_out, PROGRAMS).copy()


def _worked_out(func: PrimFunc) -> ValueBounds:
    known, state = ValueBounds(func), State(func)
    for realize in state.realizes.values():
        if realize.block.init is not None and runs_once(realize, state.loops_above(realize))[0]:
            known.know_reduction(realize.block)
    return known


def pushed(func: PrimFunc, block: Block) -> Block:
    """A block that takes away tensors, and what nothing is known of, in place of values that are made of them.

    Args:
        func: the program.
        block: of it.

    Raises:
        Refusal: there is nothing to do.
    """
    store = plain_store(block)
    if not any(map(takes_away, walk_expr(store.value))):
        raise Refusal(f"block {block.name} takes no computed value of int32 away", [block.ident], code="form")
    value = _Inward(known_values(func), {iv.var: iv.dom for iv in block.iter_vars}).visit_expr(store.value)
    if value == store.value:
        raise Refusal(f"block {block.name} takes away what has no parts to take away instead, or parts that may be as low as "
                      f"{LEAST}, which has no negative", [block.ident], "negate_by_doubling after decompose_value", code="range")
    return with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))


def takes_away(e: Expr) -> bool:
    """Whether an expression takes a computed value of int32 away, and not an element or a product of int8.

    Args:
        e: any expression.
    """
    away = e.b if isinstance(e, BinOp) and e.op == "-" and e.dtype == "int32" else None
    return away is not None and not isinstance(away, BufferLoad) and has_loads(away) and not _is_int8(away)


@dataclass
class _Inward(Mutator):
    """Moves minus signs inwards.

    Args:
        known: between what values are.
        dom: of the block's iterators.
    """

    known: ValueBounds
    dom: Mapping[Var, Range]

    def visit_expr(self, expr: Expr) -> Expr:
        made = super().visit_expr(expr)
        if isinstance(made, BinOp) and takes_away(made):
            return self.less(None if int_value(made.a) == 0 else made.a, made.b)
        return made

    def less(self, x: Expr | None, e: Expr) -> Expr:
        """``x - e``, where nothing stands for 0."""
        constant = int_value(e)
        if constant is not None:
            return _plus(x, const(wrap(-constant, "int32")))
        found = None if _is_int8(e) or e.dtype != "int32" else self._parts(x, e)
        return found if found is not None else binary("-", const(0) if x is None else x, e)

    def _parts(self, x: Expr | None, e: Expr) -> Expr | None:
        if isinstance(e, BinOp) and e.op == "+":
            return self.less(self.less(x, e.a), e.b) if int_value(e.a) is None else self.less(self.less(x, e.b), e.a)
        if isinstance(e, BinOp) and e.op == "-":
            return self.less(_plus(x, e.b), e.a)
        if isinstance(e, BinOp) and e.op in TURNED and self._lowest(e.a) > LEAST and self._lowest(e.b) > LEAST:
            return _plus(x, binary(TURNED[e.op], self.less(None, e.a), self.less(None, e.b)))
        by = _shift(e)
        if by is None:
            return None
        operand = e.a if isinstance(e, BinOp) else e.args[0] if isinstance(e, Call) else e
        if by < 0:
            # A shift left wraps around as its operand's negative does.
            return _plus(x, intrin("shift_left", self.less(None, operand), -by))
        raised = (1 << by) - 1
        if self._lowest(operand) <= raised - MOST - 1:
            return None
        return _plus(x, intrin("shift_right", self.less(const(raised), operand), by))

    def _lowest(self, e: Expr) -> int:
        return self.known.of(e, self.dom)[0]


def _plus(x: Expr | None, y: Expr) -> Expr:
    return y if x is None else binary("+", x, y)


def _is_int8(e: Expr) -> bool:
    """Whether a value is an element of int8, times a constant or another one if anything: a product makes its negative."""
    if isinstance(e, BinOp) and e.op == "*":
        return all(is_widened(f) or int_value(f) is not None for f in (e.a, e.b))
    return is_widened(e) or (isinstance(e, Call) and e.op == "shift_left" and is_widened(e.args[0]))


def _shift(e: Expr) -> int | None:
    """By how much a value is its operand shifted right, left where negative; None for any other."""
    by = int_value(e.args[1]) if isinstance(e, Call) and e.op in ("shift_right", "shift_left") else None
    if isinstance(e, Call) and by is not None and 0 <= by < WORD:
        return by if e.op == "shift_right" else -by
    factor = int_value(e.b) if isinstance(e, BinOp) and e.op in ("//", "*") else None
    if isinstance(e, BinOp) and factor is not None and factor > 0 and factor & (factor - 1) == 0:
        return (factor.bit_length() - 1) * (1 if e.op == "//" else -1)
    return None


def _doubled(state: State, realize: BlockRealize) -> tuple[Stmt, Block]:
    block = realize.block
    scope = scope_of(state, block)
    writes = [w.buffer for w in block.writes]
    if len(writes) != 1 or writes[0].dtype != "int32" or is_output(block, scope) or len(state.writers(scope, writes[0])) != 1:
        raise Refusal(f"block {block.name} does not alone make an int32 tensor in between", [block.ident], code="output")
    source = writes[0]
    away = [b for b in state.consumers(block) if only_taken_away(b, source)]
    if not away:
        raise Refusal(f"no reader of {source.name} does no more than to take it away (x - {source.name}[..])", [block.ident],
                      readers(state, block), code="reader")
    top = top_of(state, realize)
    taken = {*state.block_names(), *state.buffer_names(scope)}
    low, high = known_values(state.func).of_buffer(source)
    bits = next(n for n in (2, 4, 8, 16, WORD) if n == WORD or (low > -(1 << n - 1) and high <= 1 << n - 1))
    chain: list[tuple[Block, Buffer]] = []

    def stage(suffix: str, value: Callable[[Expr], Expr]) -> None:
        of = chain[-1][1] if chain else source
        name = fresh_name(f"{source.name}_{suffix}", taken)
        buffer = Buffer(name, source.shape, "int32")
        chain.append((filling(name, buffer, lambda at: value(BufferLoad(of, at, "int32"))), buffer))

    by = 1
    while by < bits:
        suffix = "negative" if 2 * by == WORD else f"by_{(1 << 2 * by) - 1}"
        stage(suffix, lambda e, by=by: binary("+", e, intrin("shift_left", e, by)))  # type: ignore[misc]
        by *= 2
    if bits < WORD:
        up = WORD - bits
        stage("negative", lambda e: intrin("shift_right", intrin("shift_left", e, up), up))
    last = chain[-1][1]
    table: dict[int, Stmt | None] = {id(b): taken_away(b, source, last) for b in away}
    table[id(top)] = seq(top, *[own_nest(b, "i") for b, _ in chain])
    return state.rewrite(table, {id(scope): (*scope.alloc_buffers, *[b for _, b in chain])}), chain[-1][0]


__all__ = ["Minus", "known_values", "pushed", "takes_away"]
