"""Giving a part of a value a stage of its own, and its addends another order: decompose_value, reorder_addends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.ir.expr import LOGICAL, BinOp, BufferLoad, Call, Expr, IntImm, Select, Var, binary, int_value, is_int, logical_not
from autosched.ir.functor import Mutator, expr_children, free_vars, replace_buffers, rewrite, substitute, walk_expr
from autosched.ir.patterns import choice_of, has_loads, loads_from, operands
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, IterVar, Range, Stmt, seq
from autosched.schedule.analysis.boxes import runs_everywhere
from autosched.schedule.analysis.dependence import is_output, scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.operand import operand_stage, place_stage, reads_within
from autosched.schedule.primitives.reductions.plain import plain_store, require_once, top_of
from autosched.schedule.primitives.reductions.zero_terms import Replaced


class Stages(ScheduleBase):
    """The primitives that change how a value is made up."""

    @primitive
    def reorder_addends(self, block: BlockRV | str, order: Sequence[int], path: Sequence[int] = ()) -> None:
        """Adds up in another order: the sum of integers at a path as a chain, from the left; so with a minimum or maximum.

        Args:
            block: handle or name of a block that stores one value.
            order: positions of the addends, or of what is compared, in the order in which the value names them, each once.
            path: the operand to take at each step from the stored value down to the sum.

        Raises:
            ScheduleError: no such operand, no sum or extremum of integers, or positions that are not those of its operands.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] + (B[vi] + 1)

        After ``sch.reorder_addends("C", [1, 0, 2])``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + A[vi] + 1
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _reordered(realize.block, [int(n) for n in order], [int(p) for p in path])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})

    @primitive
    def decompose_value(
        self, block: BlockRV | str, path: Sequence[int], by_read: bool | None = None, alone: bool | None = None
    ) -> BlockRV:
        """Computes a part of what a block stores in a stage of its own, before it.

        Args:
            block: handle or name of a block alone in its loops. Without init it stores one element of each iteration; of a
                sum the part reads one element of another tensor at affine indices, and depends on the iterators only through
                these.
            path: the operand to take at each step from the stored value down to the part, e.g. ``[0]`` for what
                ``cast(int8, x)`` converts, ``[0, 1]`` for the second operand of the sum that it converts.
            by_read: whether the stage of a block without init is made as that of a sum is, the part being such as a sum's; and
                whether a part that loads nothing is one, made for each combination of the iterators that it depends on. Said not
                to be, a part of a sum is made for each of these, too, and may read several elements.
            alone: whether only the part at the path is read from the stage; else whatever in the value is the same.

        Returns:
            The block of the new stage; its buffer has the shape of the block's own and is named after it. Of a sum, it has an
            element for every one that the part reads, and a conversion of the part stays in the sum.

        Raises:
            ScheduleError: no such operand, or one that loads nothing; a block that shares its loops; a part of a sum that
                depends on more than what it reads; one under a condition that is not known to stay inside what it reads where
                the condition does not hold.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(A[vi] + 1, 0)

        After ``sch.decompose_value("C", [0])``::

            C_part = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("C_part"):
                    vi = T.axis.spatial(16, i)
                    C_part[vi] = A[vi] + 1
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(C_part[vi], 0)
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _split(state, realize, [int(p) for p in path], by_read, bool(alone))
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


    @primitive
    def reuse_block(self, block: BlockRV | str, other: BlockRV | str) -> None:
        """Reads what another block makes where a block makes the same again, and removes that block.

        Args:
            block: handle or name of a block without init, alone in its loops, that stores one value in between.
            other: handle or name of one before it that stores the same value at the same places, of a tensor of the same shape.

        Raises:
            ScheduleError: another value, shape or domain; a result; somebody writes what the value reads in between.

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            E = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("E"):
                    vi = T.axis.spatial(16, i)
                    E[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + 1
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = E[vi] + 2

        After ``sch.reuse_block("E", "B")``::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + 1
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = B[vi] + 2
        """
        assert isinstance(block, BlockRV) and isinstance(other, BlockRV)
        state, realize = self.block_at(block)
        also, first = self.block_at(other)
        try:
            if also is not state:
                raise Refusal("the blocks belong to different functions", code="handle")
            table, allocs = _reused(state, realize, first)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, state.rewrite(table, allocs))


def _reused(
    state: State, realize: BlockRealize, first: BlockRealize
) -> tuple[dict[int, Stmt | None], dict[int, tuple[Buffer, ...]]]:
    again, block = realize.block, first.block
    marks = [block.ident, again.ident]
    scope = scope_of(state, again)
    store, made = again.body, block.body
    if not (isinstance(store, BufferStore) and isinstance(made, BufferStore)) or again.init is not None or block.init is not None:
        raise Refusal(f"blocks {block.name} and {again.name} are not each one plain store", marks, code="form")
    if is_output(again, scope) or is_output(block, scope) or scope_of(state, block) is not scope:
        raise Refusal(f"blocks {block.name} and {again.name} do not make tensors in between, side by side", marks, code="output")
    order = list(state.realizes)
    if order.index(block.ident) >= order.index(again.ident):
        raise Refusal(f"block {block.name} does not come before block {again.name}", marks, code="order")
    for r in (first, realize):
        require_once(state, r)
    if not _same_value(again, store, block, made):
        raise Refusal(f"block {again.name} does not make what block {block.name} makes", marks, code="form")
    for buffer in (made.buffer, store.buffer):
        if len(state.writers(scope, buffer)) != 1:
            raise Refusal(f"{buffer.name} is written by others as well", marks, code="writer")
    require_kept(state, block, made.value)
    top = top_of(state, realize)
    table: dict[int, Stmt | None] = {id(top): None}
    for reader in state.readers(scope, store.buffer):
        table[id(state.realizes[reader.ident])] = replace_buffers(state.realizes[reader.ident], {store.buffer: made.buffer})
    return table, {id(scope): tuple([b for b in scope.alloc_buffers if b is not store.buffer])}


def _same_value(again: Block, store: BufferStore, block: Block, made: BufferStore) -> bool:
    """Whether two stores make the same tensor, but for the names of iterators."""
    mine = same_places(again, store, block, made)
    return mine is not None and substitute(store.value, mine) == made.value


def require_kept(state: State, block: Block, value: Expr) -> None:
    """Refuses a value of which others write what it reads after a block.

    Args:
        state: the program.
        block: directly in its scope.
        value: it reads tensors of the same scope.
    """
    scope, order = scope_of(state, block), list(state.realizes)
    for load in (e for e in walk_expr(value) if isinstance(e, BufferLoad)):
        late = [w for w in state.writers(scope, load.buffer) if order.index(w.ident) > order.index(block.ident)]
        if late:
            raise Refusal(f"block {late[0].name} writes {load.buffer.name} afterwards", [block.ident, late[0].ident],
                          code="writer")


def same_places(block: Block, store: BufferStore, other: Block, made: BufferStore) -> dict[Var, Var] | None:
    """A block's iterators in terms of another one's that stores at the same places of a tensor of the same shape; or None.

    Args:
        block: that stores.
        store: its store.
        other: another block.
        made: that one's store.
    """
    mine = {i: j for i, j in zip(store.indices, made.indices) if isinstance(i, Var) and isinstance(j, Var)}
    dom = {iv.var: (int_value(iv.dom.min), int_value(iv.dom.extent)) for iv in (*block.iter_vars, *other.iter_vars)}
    alike = store.buffer.shape == made.buffer.shape and len(set(mine.values())) == len(mine)
    alike = alike and all(i in mine or i == j for i, j in zip(store.indices, made.indices))
    return mine if alike and all(dom.get(i) == dom.get(j) for i, j in mine.items()) else None


def part_at(block: Block, value: Expr, path: list[int]) -> Expr:
    """What stands at a path of a value: which operand of which, from the outside."""
    for step in path:
        children = expr_children(value) if not isinstance(value, BufferLoad) else ()
        if not 0 <= step < len(children):
            raise Refusal(f"{expr_text(value)} in block {block.name} has {len(children)} operands; there is none at {step}",
                          [block.ident], code="argument")
        value = children[step]
    return value


def _reordered(block: Block, order: list[int], path: list[int]) -> Block:
    store = plain_store(block)
    total = part_at(block, store.value, path)
    if not (isinstance(total, BinOp) and total.op in ("+", "min", "max") and is_int(total.dtype)):
        raise Refusal(f"{expr_text(total)} in block {block.name} is no sum of integers, nor a minimum or maximum", [block.ident],
                      code="form")
    parts = operands(total, total.op)
    if sorted(order) != list(range(len(parts))):
        what = "addends" if total.op == "+" else "operands"
        raise Refusal(f"order {order} does not name the {len(parts)} {what} of block {block.name}, 0 to {len(parts) - 1}, once "
                      "each", [block.ident], code="argument")
    made = parts[order[0]]
    for n in order[1:]:
        made = binary(total.op, made, parts[n])
    value = Replaced(total, made).visit_expr(store.value)
    return with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))


def _split(state: State, realize: BlockRealize, path: list[int], by_read: bool | None, alone: bool) -> tuple[Stmt, Block]:
    block = realize.block
    store = plain_store(block)
    part = part_at(block, store.value, path)
    own = [iv.var for iv in block.iter_vars]
    if by_read and not has_loads(part) and any(v in own for v in free_vars(part)):
        tensor = fresh_name(f"{store.buffer.name}_part", state.buffer_names(scope_of(state, block)))
        made, load = place_stage(block, part, fresh_name(f"{block.name}_part", set(state.block_names())), tensor)
        value = _Computed(part, load).visit_expr(store.value)
        return _with_stage(state, realize, made, own_nest(made), load.buffer, value)
    if not has_loads(part) or ((block.init is not None or by_read) and not any(v in own for v in free_vars(part))):
        raise Refusal(f"{expr_text(part)} in block {block.name} loads nothing", [block.ident], code="form")
    scope = scope_of(state, block)
    if block.init is not None and by_read is False:
        if loads_from(part, store.buffer) or not reads_within(block, part):
            raise Refusal(f"{expr_text(part)} in block {block.name} reads what the block writes, or what is not there for all of "
                          "its iterators", [block.ident], code="form")
        tensor = fresh_name(f"{store.buffer.name}_part", state.buffer_names(scope))
        made, load = place_stage(block, part, fresh_name(f"{block.name}_part", set(state.block_names())), tensor)
        return _with_stage(state, realize, made, own_nest(made), load.buffer, _replaced(store.value, part, load, path, alone))
    if block.init is not None or by_read:
        taken = set(state.block_names()), state.buffer_names(scope)
        made, nest, buffer, stands = operand_stage(block, part, *taken)
        require_inside(state, realize, path, made)
        return _with_stage(state, realize, made, nest, buffer, _replaced(store.value, part, stands, path, alone))
    if not stores_plainly(block):
        raise Refusal(f"block {block.name} does not store at its plain iterators, each once", [block.ident],
                      "decompose_value before transform_layout", code="index")
    name = fresh_name(f"{block.name}_part", set(state.block_names()))
    buffer = Buffer(fresh_name(f"{store.buffer.name}_part", state.buffer_names(scope)), part_shape(store), part.dtype)
    made, nest = stage_of(block, name, buffer, part)
    require_inside(state, realize, path, made)
    value = _replaced(store.value, part, BufferLoad(buffer, store.indices, part.dtype), path, alone)
    return _with_stage(state, realize, made, nest, buffer, value)


def _replaced(value: Expr, part: Expr, stands: Expr, path: list[int], alone: bool) -> Expr:
    """A value in which something else stands for a part: at one path, or wherever the part is."""
    return _At(path, stands).visit_expr(value) if alone else Replaced(part, stands).visit_expr(value)


class _At(Mutator):
    """Replaces what stands at a path of an expression. Equal operands may be one object: only their order tells them apart."""

    def __init__(self, path: Sequence[int], new: Expr) -> None:
        self.path, self.new = path, new
        self.seen = -1  # operands, once the expression itself has been

    def visit_expr(self, expr: Expr) -> Expr:
        if self.seen < 0:
            self.seen = 0
            return super().visit_expr(expr) if self.path else self.new
        self.seen += 1
        return _At(self.path[1:], self.new).visit_expr(expr) if self.seen == self.path[0] + 1 else expr


class _Computed(Replaced):
    """Replaces an expression where a value is computed with it, not where elements are read or chosen by it."""

    def visit_load(self, load: BufferLoad) -> Expr:
        return load

    def visit_expr(self, expr: Expr) -> Expr:
        choice = choice_of(expr)
        if expr != self.old and not has_loads(expr):
            return expr  # what depends on places alone as well, and is made with it for nothing
        if choice is None or expr == self.old:
            return super().visit_expr(expr)
        sides = [self.visit_expr(e) for e in choice[1:]]
        if isinstance(expr, Select):
            return Select(choice[0], sides[0], sides[1], expr.dtype)
        return Call("if_then_else", (choice[0], *sides), expr.dtype)


def require_inside(state: State, realize: BlockRealize, path: list[int], made: Block) -> None:
    """Refuses a stage that is made without a condition around its part, unless what it touches is known to need none.

    Args:
        state: the program.
        realize: the block that the part is taken from.
        path: of the part.
        made: the stage, which runs over its whole domain.
    """
    value = plain_store(realize.block).value
    partial = guarded = not runs_everywhere(realize, state.loops_above(realize))
    for step in path:
        guarded = guarded or (choice_of(value) is not None and step > 0)
        guarded = guarded or (isinstance(value, BinOp) and value.op in LOGICAL and step > 0)
        value = expr_children(value)[step]
    store, known = plain_store(made), Analyzer({iv.var: iv.dom for iv in made.iter_vars})
    load = _outside(store.value, known) if guarded else None
    if load is None and partial:
        load = _outside(BufferLoad(store.buffer, store.indices, store.buffer.dtype), known)
    if load is not None:
        raise Refusal(f"{expr_text(value)} in block {realize.block.name} stands under a condition, without which it is not known "
                      f"to stay inside {load.buffer.name}", [realize.block.ident],
                      "" if partial else "name the whole choice as the part", code="domain")


def _outside(expr: Expr, known: Analyzer) -> BufferLoad | None:
    """The first load of an expression that may leave its buffer, for all that is known of its iterators."""
    choice = choice_of(expr)
    if choice is not None:
        condition, yes, no = choice
        found = _outside(condition, known)
        for holds, side in ((condition, yes), (logical_not(condition), no)):
            with known.with_constraint(holds):
                found = _outside(side, known) if found is None else found
        return found
    if isinstance(expr, BufferLoad):
        for index, size in zip(expr.indices, expr.buffer.shape):
            if not (known.can_prove(binary("<=", 0, index)) and known.can_prove(binary("<", index, size))):
                return expr
    return next((found for child in expr_children(expr) if (found := _outside(child, known)) is not None), None)


def stores_plainly(block: Block) -> bool:
    """Whether a block stores one value at its plain iterators, each once, so that stages can make parts of it.

    Args:
        block: any.
    """
    store = block.body
    if not isinstance(store, BufferStore) or block.init is not None:
        return False
    own = [iv.var for iv in block.iter_vars]
    used = [i for i in store.indices if int_value(i) != 0]
    needed = {iv.var for iv in block.iter_vars if int_value(iv.dom.extent) != 1}
    return all(i in own for i in used) and needed <= set(used) and len(set(used)) == len(used)


def part_shape(store: BufferStore) -> tuple[Expr, ...]:
    """Of a tensor that holds a part of every value that is stored.

    Args:
        store: of a block that ``stores_plainly``.
    """
    return tuple([IntImm(1) if int_value(i) == 0 else s for i, s in zip(store.indices, store.buffer.shape)])


def _with_stage(
    state: State, realize: BlockRealize, made: Block, nest: Stmt, buffer: Buffer, value: Expr
) -> tuple[Stmt, Block]:
    """The program with a stage before a block, which then stores ``value``."""
    block = realize.block
    store = block.body
    assert isinstance(store, BufferStore)
    top: Stmt = realize
    for loop in reversed(state.loops_above(realize)):
        if loop.body is not top:
            raise Refusal(f"loop {loop.var.name} holds more than block {block.name}", [loop.var, block.ident], code="place")
        top = loop
    rest = with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))
    changed = rewrite(top, realize, BlockRealize(realize.iter_values, realize.predicate, rest))
    scope = scope_of(state, block)
    allocs = {id(scope): (*scope.alloc_buffers, buffer)}
    return state.rewrite({id(top): seq(nest, changed)}, allocs), made


def stage_of(
    block: Block, name: str, buffer: Buffer, part: Expr, longer: Mapping[Var, Range] | None = None
) -> tuple[Block, Stmt]:
    """A block that stores a part of a value where another one stores the whole, in loops of its own.

    Args:
        block: one plain store.
        name: of the new block.
        buffer: where it stores.
        part: of the value that ``block`` stores.
        longer: domains of iterators that are not those of ``block``.
    """
    store = block.body
    assert isinstance(store, BufferStore)
    fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in block.iter_vars}
    at = tuple([substitute(i, fresh) for i in store.indices])
    iter_vars = tuple([IterVar(fresh[iv.var], (longer or {}).get(iv.var, iv.dom), iv.kind) for iv in block.iter_vars])
    made = with_access(Block(name, iter_vars, (), (), BufferStore(buffer, at, substitute(part, fresh))))
    return made, own_nest(made)
