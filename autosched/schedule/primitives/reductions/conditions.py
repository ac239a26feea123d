"""Conditions inside values: single_store, guard_factors. What a block does only now and then is what it always does, chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Var, cast, const, int_value
from autosched.ir.functor import free_vars, substitute, walk_expr
from autosched.ir.patterns import UPDATES, choice_of, has_loads, loads_from, loads_in, operands, update_of
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, Block, BlockRealize, BufferStore, For, IfThenElse, IterVar, SeqStmt, Stmt, seq
from autosched.ir.value_bounds import neutral
from autosched.schedule.analysis.boxes import loop_ranges
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.limits import bounds
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import plain_store
from autosched.schedule.primitives.reductions.stages import part_at
from autosched.schedule.primitives.reductions.values import negated
from autosched.schedule.primitives.reductions.zero_terms import Replaced


class Conditions(ScheduleBase):
    """The primitives that write conditions into values."""

    @primitive
    def single_store(self, block: BlockRV | str) -> None:
        """Writes the statements of a block, under conditions or one after the other, as one store.

        What is stored at the first step of a reduction only becomes its init. A sum that is updated under a condition always is,
        with a term that is 0 elsewhere, a minimum or maximum with one that changes nothing. The condition of a block that
        updates (``T.where``) is one as well, where it is said of loops that are its iterators.

        Args:
            block: handle or name of a block whose statements all store the same element.

        Raises:
            ScheduleError: one store without condition; several elements; an element that is left as it was; a value for the
                first step that is not known to come first.

        Before::

            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    if vk == 0:
                        C[vi] = 0
                    if vk <= vi:
                        C[vi] = C[vi] + A[vi, vk]

        After ``sch.single_store("C")``::

            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.if_then_else(vk <= vi, A[vi, vk], 0)
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _single(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize): new})

    @primitive
    def guard_factors(self, block: BlockRV | str, path: Sequence[int] = ()) -> None:
        """Writes a product that is chosen, with 0 elsewhere, as a product of which a factor is.

        The factor is the one that reads by all that the condition is about; others are guarded, too, where they would read
        outside of their tensors otherwise. One element that is chosen by more than it is read by is multiplied by 1 or by 0.

        Args:
            block: handle or name of a block that stores one value.
            path: the operand to take at each step from the stored value down to the choice.

        Raises:
            ScheduleError: no choice between a product, or such an element, and 0 by iterators alone.

        Before::

            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.if_then_else(vi >= vk, A[vi - vk] * B[vk], 0)

        After ``sch.guard_factors("C", [1])``::

            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.if_then_else(vi >= vk, A[vi - vk], 0) * B[vk]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _guarded(realize.block, [int(p) for p in path])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})


# -- single_store -----------------------------------------------------------------------------------------------------------


def _single(state: State, realize: BlockRealize) -> BlockRealize:
    block, loops = realize.block, state.loops_above(realize)
    stmt = block.body
    if realize.predicate != TRUE:
        stmt = IfThenElse(_where(realize, loops), stmt)
    elif isinstance(stmt, BufferStore):
        raise Refusal(f"block {block.name} is one store already", [block.ident], code="form")
    stores = list(_stores(block, stmt))
    if not stores or any(s.buffer is not stores[0].buffer or s.indices != stores[0].indices for s in stores):
        raise Refusal(f"block {block.name} stores more than one element", [block.ident], code="form")
    own = BufferLoad(stores[0].buffer, stores[0].indices, stores[0].buffer.dtype)
    init = block.init
    if init is None:
        init, stmt = _begun(realize, loops, stmt)
    value = _after(block, own, own, stmt)
    if init is None and value != own and loads_from(value, own.buffer) and not any(loads_from(s.value, s.buffer) for s in stores):
        raise Refusal(f"block {block.name} does not always store an element of {own.buffer.name}, nor has it one before",
                      [block.ident], "say what it is elsewhere", code="form")
    body = BufferStore(own.buffer, own.indices, value)
    return replace(realize, predicate=TRUE, block=with_access(replace(block, body=body, init=init)))


def _stores(block: Block, stmt: Stmt) -> Iterator[BufferStore]:
    """The stores of a block; refuses all but these, conditions around them, and one after the other."""
    if isinstance(stmt, BufferStore):
        yield stmt
    elif isinstance(stmt, SeqStmt):
        for s in stmt.stmts:
            yield from _stores(block, s)
    elif isinstance(stmt, IfThenElse):
        for side in (stmt.then_case, stmt.else_case):
            yield from [] if side is None else _stores(block, side)
    else:
        raise Refusal(f"block {block.name} holds more than stores under conditions", [block.ident], code="form")


def _where(realize: BlockRealize, loops: Sequence[For]) -> Expr:
    """The condition under which a block runs, as one of its iterators."""
    block, ranges = realize.block, loop_ranges(loops)
    mine = {v: iv.var for v, iv in zip(realize.iter_values, block.iter_vars) if isinstance(v, Var)}
    if block.init is not None:
        raise Refusal(f"block {block.name} has an init that runs under a condition, too", [block.ident], code="form")
    if any(v not in mine for v in free_vars(realize.predicate)):
        raise Refusal(f"block {block.name} runs under a condition on loops that are none of its iterators", [block.ident],
                      code="form")
    for iv, value in zip(block.iter_vars, realize.iter_values):
        low, extent, taken = int_value(iv.dom.min), int_value(iv.dom.extent), bounds(value, ranges)
        if low is None or extent is None or taken is None or taken[0] < low or taken[1] >= low + extent:
            # Without the condition the block would run outside of its domain.
            raise Refusal(f"the condition of block {block.name} keeps {iv.var.name} in its domain", [block.ident], "renest",
                          code="domain")
    return substitute(realize.predicate, mine)


def _after(block: Block, own: BufferLoad, before: Expr, stmt: Stmt) -> Expr:
    """What an element holds after a statement, with what it held before."""
    if isinstance(stmt, SeqStmt):
        for s in stmt.stmts:
            before = _after(block, own, before, s)
        return before
    if isinstance(stmt, IfThenElse):
        yes = _after(block, own, before, stmt.then_case)
        no = before if stmt.else_case is None else _after(block, own, before, stmt.else_case)
        if loads_from(stmt.condition, own.buffer):
            known = Replaced(own, before).visit_expr(stmt.condition)
            if loads_from(known, own.buffer):
                raise Refusal(f"a condition in block {block.name} reads {own.buffer.name}, which it stores", [block.ident],
                              code="form")
            return _choice(known, yes, no)
        if no is before and isinstance(yes, BinOp) and yes.op in UPDATES and yes.a is before:
            return BinOp(yes.op, before, _choice(stmt.condition, yes.b, _neutral(yes.op, yes.dtype)), yes.dtype)
        return _choice(stmt.condition, yes, no)
    assert isinstance(stmt, BufferStore)
    update = update_of(stmt)
    if update is not None:
        return BinOp(update[0], before, update[1], own.dtype)
    if any(e.indices != own.indices for e in walk_expr(stmt.value) if isinstance(e, BufferLoad) and e.buffer is own.buffer):
        raise Refusal(f"block {block.name} reads other elements of {own.buffer.name} than it stores", [block.ident], code="form")
    return Replaced(own, before).visit_expr(stmt.value)


def _neutral(op: str, dtype: str) -> Expr:
    return const(neutral(op, dtype), dtype)


def _choice(condition: Expr, yes: Expr, no: Expr) -> Expr:
    return Call("if_then_else", (condition, yes, no), yes.dtype)


def _begun(realize: BlockRealize, loops: Sequence[For], stmt: Stmt) -> tuple[BufferStore | None, Stmt]:
    """What a block stores at the first step of a reduction only, as its init, and what it does at every step."""
    first, *rest = stmt.stmts if isinstance(stmt, SeqStmt) else (stmt,)
    if not isinstance(first, IfThenElse) or not isinstance(first.then_case, BufferStore):
        return None, stmt
    store, other = first.then_case, first.else_case
    if not _at_first(realize, loops, first.condition) or loads_from(store.value, store.buffer):
        return None, stmt
    update = update_of(other) if isinstance(other, BufferStore) else None
    if other is not None and update is not None and update[1] == store.value:
        # What later steps take in, the first one begins with.
        return BufferStore(store.buffer, store.indices, _neutral(update[0], store.buffer.dtype)), seq(other, *rest)
    if other is not None or not rest or set(free_vars(store.value)) & {iv.var for iv in _reduced(realize.block)}:
        return None, stmt
    return store, seq(*rest)


def _reduced(block: Block) -> list[IterVar]:
    return [iv for iv in block.iter_vars if iv.kind == "reduce" and int_value(iv.dom.extent) != 1]


def _at_first(realize: BlockRealize, loops: Sequence[For], condition: Expr) -> bool:
    """Whether a condition holds at the first step of a reduction, and only then."""
    block = realize.block
    over = _reduced(block)
    one = {iv.var for iv in block.iter_vars if iv in over or int_value(iv.dom.extent) == 1}
    named = [_zero_of(c) for c in operands(condition, "and")]
    if not over or {iv.var for iv in over} - set(named) or any(v not in one for v in named):
        return False
    values = {iv.var: value for iv, value in zip(block.iter_vars, realize.iter_values)}
    moved = {v for iv in over for v in free_vars(values[iv.var])}
    others = {v for iv in block.iter_vars if iv not in over for v in free_vars(values[iv.var])}
    begin: dict[Var, Expr] = {loop.var: loop.min for loop in loops if loop.kind == "serial"}
    known = Analyzer()
    # Loops run upwards: what no loop of the others moves begins where all of its own loops begin.
    return not moved & others and moved <= set(begin) and all(
        int_value(known.simplify(substitute(values[iv.var], begin))) == 0 == int_value(iv.dom.min) for iv in over)


def _zero_of(condition: Expr) -> Var | None:
    """v of ``v == 0``."""
    if isinstance(condition, BinOp) and condition.op == "==":
        for a, b in ((condition.a, condition.b), (condition.b, condition.a)):
            if isinstance(a, Var) and int_value(b) == 0:
                return a
    return None


# -- guard_factors ----------------------------------------------------------------------------------------------------------


def _guarded(block: Block, path: list[int]) -> Block:
    store = plain_store(block)
    value = part_at(block, store.value, path)
    new = guarded_factors(block, value)
    new = counted_element(block, value) if new is None else new
    if new is None:
        raise Refusal(f"{expr_text(value)} in block {block.name} is no choice between a product and 0 by iterators alone",
                      [block.ident], code="form")
    whole = Replaced(value, new).visit_expr(store.value)
    return with_access(replace(block, body=BufferStore(store.buffer, store.indices, whole)))


def guarded_factors(block: Block, value: Expr) -> Expr | None:
    """A choice between a product and 0 as the product of factors that are chosen; None for any other value.

    Args:
        block: any.
        value: any part of what it stores.
    """
    parts = choice_of(value)
    if parts is None or has_loads(parts[0]):
        return None
    condition, yes, no = _zero_last(*parts)
    if not (isinstance(yes, BinOp) and yes.op == "*" and int_value(no) == 0 and has_loads(yes.a) and has_loads(yes.b)):
        return None
    factors = (yes.a, yes.b)
    about = set(free_vars(condition))
    outside = [not _inside(block, f) for f in factors]
    if not any(outside):
        reads = [about <= {v for x in loads_in(f) for i in x.indices for v in free_vars(i)} for f in factors]
        outside = [reads[0] or not reads[1], not reads[0] and reads[1]]
    a, b = [_under(condition, f) if out else f for f, out in zip(factors, outside)]
    return BinOp("*", a, b, value.dtype)


def counted_element(block: Block, value: Expr) -> Expr | None:
    """A choice between one element of int8 and 0 as that element times 1 or 0; None for any other value.

    Args:
        block: any.
        value: any part of what it stores; what chooses is about more than the element is read by, which is there anyway.
    """
    parts = choice_of(value.value if isinstance(value, Cast) else value)
    if parts is None or value.dtype != "int32" or has_loads(parts[0]):
        return None
    condition, yes, no = _zero_last(*parts)
    element = yes.value if isinstance(yes, Cast) else yes
    if int_value(no) != 0 or not isinstance(element, BufferLoad) or element.dtype != "int8" or not _inside(block, element):
        return None
    if set(free_vars(condition)) <= {v for i in element.indices for v in free_vars(i)}:
        return None
    counts = Call("if_then_else", (condition, const(1, "int32"), const(0, "int32")), "int32")
    return BinOp("*", cast("int32", yes), counts, "int32")


def _zero_last(condition: Expr, yes: Expr, no: Expr) -> tuple[Expr, Expr, Expr]:
    """A choice with the other condition, where it is 0 under this one."""
    return (negated(condition), no, yes) if int_value(yes) == 0 else (condition, yes, no)


def _under(condition: Expr, factor: Expr) -> Expr:
    """A factor under a condition, 0 elsewhere; what it converts is chosen before."""
    if isinstance(factor, Cast):
        inner = factor.value
        return Cast(factor.dtype, Call("if_then_else", (condition, inner, const(0, inner.dtype)), inner.dtype))
    return Call("if_then_else", (condition, factor, const(0, factor.dtype)), factor.dtype)


def _inside(block: Block, value: Expr) -> bool:
    """Whether all that a value reads is known to be in its tensors, whatever the iterators are."""
    known = Analyzer({iv.var: iv.dom for iv in block.iter_vars})
    return all(known.can_prove(i >= IntImm(0, i.dtype)) and known.can_prove(i < e)
               for x in loads_in(value) for i, e in zip(x.indices, x.buffer.shape))


__all__ = ["Conditions", "counted_element", "guarded_factors"]
