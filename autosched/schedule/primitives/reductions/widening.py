"""Computing in int32 what a program computes in int8: widen_block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Select, binary, cast, const
from autosched.ir.functor import Mutator
from autosched.ir.patterns import is_shifted, update_of
from autosched.ir.region import block_access
from autosched.ir.stmt import Block, Buffer, BufferStore, Ident, Stmt
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.schedule.analysis.bindings import facts
from autosched.schedule.analysis.dependence import names, scope_of
from autosched.schedule.analysis.outside import require_blocks
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State

WRAPPING = ("+", "-", "*")  # of which the low bits of a result are those of the operands' low bits
ORDERED = ("min", "max")  # which need the operands themselves


class Widening(ScheduleBase):
    """The primitive for machines that compute on one width only."""

    @primitive
    def widen_block(self, block: BlockRV | str) -> None:
        """Computes in int32 what a block computes in int8, and narrows the result.

        A reduction keeps its running value in int32: its buffer becomes int32, and readers narrow what they read. The low 8 bits
        of sums, differences, products and shifts to the left are those of their operands, so only minima, maxima and shifts to
        the right need operands that have not wrapped around.

        Args:
            block: handle or name of a block that stores an int8 value made of loads, constants, ``+ - *``, ``min``, ``max``,
                shifts by constants and choices.

        Raises:
            ScheduleError: another type or operation; a minimum or maximum of a value that may have wrapped around; a reduction
                into a parameter, or one that others write too.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(A[vi], T.int8(0))

        After ``sch.widen_block("C")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.Cast("int8", T.max(T.Cast("int32", A[vi]), 0))
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body = _wide_reduction(state, realize.block) if realize.block.init is not None else _wide_value(state, realize.block)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)


def _store(block: Block) -> BufferStore:
    store = block.body
    if not isinstance(store, BufferStore) or store.buffer.dtype != "int8":
        raise Refusal(f"block {block.name} is not one store of an int8 value", [block.ident], code="form")
    return store


def _wide_value(state: State, block: Block) -> Stmt:
    store = _store(block)
    moves = isinstance(store.value, BufferLoad) or (isinstance(store.value, Call) and store.value.op == "if_then_else")
    shifts = is_shifted(store.value) or is_shifted(store.value, "shift_left")
    if not moves and not isinstance(store.value, BinOp | Select) and not shifts:
        raise Refusal(f"block {block.name} computes nothing in int8", [block.ident], code="form")
    value, _ = _wide(_values(state, block), block, store.value)
    new = _with_access(replace(block, body=BufferStore(store.buffer, store.indices, cast("int8", value))))
    return state.rewrite({id(block): new})


def _values(state: State, block: Block) -> ValueBounds:
    """What buffers can hold: of the largest and smallest of int8 elements an int8, however wide the running value is."""
    values, scope = ValueBounds(state.func), scope_of(state, block)
    for buffer in {r.buffer: None for r in block.reads}:
        makers = state.writers(scope, buffer)
        store, init = (makers[0].body, makers[0].init) if len(makers) == 1 else (None, None)
        update = update_of(store) if isinstance(store, BufferStore) else None
        if update is None or update[0] not in ORDERED or not isinstance(init, BufferStore) or buffer not in scope.alloc_buffers:
            continue
        if all(_fits(values, makers[0], e) for e in (init.value, update[1])):
            values.know(buffer, dtype_bounds("int8"))
    return values


def _wide_reduction(state: State, block: Block) -> Stmt:
    store = _store(block)
    scope = scope_of(state, block)
    old = store.buffer
    if all(b is not old for b in scope.alloc_buffers):
        raise Refusal(f"{old.name} is not allocated in {scope.name}, and its readers outside want int8", [block.ident],
                      "cache_write first", code="output")
    others = [w for w in state.writers(scope, old) if w.ident is not block.ident]
    if others:
        raise Refusal(f"{old.name} is also written by {names(others)}", [block.ident, *[w.ident for w in others]], code="writer")
    init = block.init
    assert isinstance(init, BufferStore)
    wide = replace(old, dtype="int32", ident=Ident())
    values = ValueBounds(state.func)
    kept = _steps(values, block, store)
    own = BufferLoad(wide, store.indices, "int32")
    start, _ = _wide(values, block, init.value)
    assert isinstance(store.value, BinOp)
    body = BufferStore(wide, store.indices, binary(store.value.op, own, kept))
    new = replace(block, init=BufferStore(wide, init.indices, start), body=body)
    table: dict[int, Stmt | None] = {id(block): _with_access(new)}
    table |= converted(state, scope, [b for b in state.readers(scope, old) if b is not block], old, wide, _with_access)
    allocs = {id(scope): tuple([wide if b is old else b for b in scope.alloc_buffers])}
    return state.rewrite(table, allocs)


def _steps(values: ValueBounds, block: Block, store: BufferStore) -> Expr:
    """What a reduction takes in at each step, in int32."""
    update = update_of(store)
    if update is not None:
        op, term = update
        wide, exact = _wide(values, block, term)
        if op in ORDERED and not exact:
            raise _wrapped(block, op)
        return wide
    raise Refusal(f"block {block.name} is no reduction with +, min or max", [block.ident], code="reduction")


def _wide(values: ValueBounds, block: Block, value: Expr) -> tuple[Expr, bool]:
    """A value in int32 with the same low 8 bits, and whether it is the value itself."""
    wide, exact = _widened(values, block, value)
    return wide, exact or _fits(values, block, wide)


def _fits(values: ValueBounds, block: Block, wide: Expr) -> bool:
    """Whether value ranges prove that an int32 value is one of int8."""
    low, high = values.of(wide, {iv.var: iv.dom for iv in block.iter_vars})
    return low >= -128 and high <= 127


def _widened(values: ValueBounds, block: Block, value: Expr) -> tuple[Expr, bool]:
    if isinstance(value, IntImm):
        return const(value.value, "int32"), True
    if isinstance(value, BufferLoad) and value.dtype == "int8":
        return cast("int32", value), True
    if isinstance(value, Cast) and value.dtype == "int8" and value.value.dtype == "int32":
        return value.value, False
    if isinstance(value, BinOp) and value.dtype == "int8" and value.op in (*WRAPPING, *ORDERED):
        (a, a_exact), (b, b_exact) = _wide(values, block, value.a), _wide(values, block, value.b)
        exact = a_exact and b_exact
        if value.op in ORDERED and not exact:
            raise _wrapped(block, value.op)
        return binary(value.op, a, b), exact and value.op in ORDERED
    if isinstance(value, Call) and value.dtype == "int8" and is_shifted(value):
        a, exact = _wide(values, block, value.args[0])
        if not exact:
            raise _wrapped(block, "shift")
        return Call(value.op, (a, cast("int32", value.args[1])), "int32"), True
    if isinstance(value, Call) and value.dtype == "int8" and is_shifted(value, "shift_left"):
        return Call(value.op, (_wide(values, block, value.args[0])[0], cast("int32", value.args[1])), "int32"), False
    if isinstance(value, Select) and value.dtype == "int8":
        (a, a_exact), (b, b_exact) = _wide(values, block, value.true_value), _wide(values, block, value.false_value)
        return Select(value.condition, a, b, "int32"), a_exact and b_exact
    if isinstance(value, Call) and value.op == "if_then_else" and value.dtype == "int8":
        (a, a_exact), (b, b_exact) = _wide(values, block, value.args[1]), _wide(values, block, value.args[2])
        return Call(value.op, (value.args[0], a, b), "int32"), a_exact and b_exact
    raise Refusal(f"block {block.name} does not compute an int8 value with + - * << >> min and max alone", [block.ident],
                  "compute in int32, and cast the result", code="form")


def _wrapped(block: Block, op: str) -> Refusal:
    return Refusal(f"block {block.name} takes the {op} of an int8 value that may have wrapped around", [block.ident],
                   "convert its operands to int32 in the program", code="range")


def converted(
    state: State, scope: Block, readers: Sequence[Block], old: Buffer, new: Buffer, access: Callable[[Block], Block]
) -> dict[int, Stmt | None]:
    """The readers of a buffer, of which they then convert the elements of another one that takes its place.

    Args:
        state: the program.
        scope: the block that allocates the buffer.
        readers: all blocks below it that read the buffer.
        old: the buffer.
        new: of another type.
        access: works out what a block reads and writes.

    Raises:
        Refusal: it is read outside of blocks, or by its address.
    """
    require_blocks(state, scope, (), (old,))
    for reader in readers:
        if old in facts(reader).fixed:
            raise Refusal(f"block {reader.name} uses {old.name} by its address, or a part of it that is matched", [reader.ident],
                          code="address")
    conversion = _Converted(old, new, access)
    return {id(reader): conversion.visit_block(reader) for reader in readers}


class _Converted(Mutator):
    """Loads of a buffer as the converted ones of another."""

    def __init__(self, old: Buffer, new: Buffer, access: Callable[[Block], Block]) -> None:
        self.old, self.new, self.access = old, new, access

    def visit_load(self, load: BufferLoad) -> Expr:
        if load.buffer is not self.old:
            return super().visit_load(load)
        return cast(self.old.dtype, BufferLoad(self.new, self.visit_exprs(load.indices), self.new.dtype))

    def visit_block(self, block: Block) -> Block:
        if self.old not in facts(block).buffers:
            return block
        changed = super().visit_block(block)
        # What declares nothing (``loop_partition`` makes such) goes on doing so.
        return self.access(changed) if block.reads or block.writes else changed


def _with_access(block: Block) -> Block:
    reads, writes = block_access(block)
    order = {r.buffer.name: k for k, r in enumerate(block.reads)}
    return replace(block, reads=tuple(sorted(reads, key=lambda r: order.get(r.buffer.name, len(order)))), writes=writes)
