"""Tensors and sums in parts: partition_buffer, partition_reduction. So a concatenation needs no tensor at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, binary, int_value, is_int
from autosched.ir.functor import Mutator, free_vars, replace_buffers
from autosched.ir.patterns import update_of
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Ident, IterVar, Range, Stmt, seq
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.analysis.outside import require_blocks
from autosched.schedule.kit.base import BlockRV, ExprRV, LoopRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import Normalising, plain_stores, require_once, top_of

Span = tuple[int, int]  # from, up to


class Parts(ScheduleBase):
    """The primitives that give parts of a tensor, or of a sum, tensors of their own."""

    @primitive
    def partition_buffer(self, block: BlockRV | str, dim: int, factors: Sequence[int | ExprRV | None]) -> list[BlockRV]:
        """Makes several tensors of one, consecutive parts along a dimension, and of a block that writes several a block for each.

        Args:
            block: handle or name of a block that writes the tensor, which its scope allocates; others may write it, too.
            dim: the dimension.
            factors: lengths of the parts in order; one may be None and takes the rest.

        Returns:
            The blocks that write the parts, part by part.

        Raises:
            ScheduleError: a block reads more than one part, or writes more than one at other places than an iterator of its
                own; the lengths are not those of the dimension.

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * 2
            for i in range(8):
                with T.sblock("C"):
                    vi = T.axis.spatial(8, i)
                    C[vi] = B[vi] + B[vi + 8]

        After ``sch.partition_buffer("B", 0, [8, None])``::

            B_part0 = T.sblock_alloc_buffer((8,), "int32")
            B_part1 = T.sblock_alloc_buffer((8,), "int32")
            for i in range(8):
                with T.sblock("B_part0"):
                    vi = T.axis.spatial(8, i)
                    B_part0[vi] = A[vi] * 2
            for i in range(8):
                with T.sblock("B_part1"):
                    vi = T.axis.spatial(8, i)
                    B_part1[vi] = A[vi + 8] * 2
            for i in range(8):
                with T.sblock("C"):
                    vi = T.axis.spatial(8, i)
                    C[vi] = B_part0[vi] + B_part1[vi]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _partitioned(state, realize.block, dim, [None if f is None else self.int_of(f) for f in factors])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return [self.block_rv(b) for b in made]

    @primitive
    def partition_reduction(self, loop: LoopRV | str, factors: Sequence[int | ExprRV | None]) -> list[BlockRV]:
        """Cuts a reduction into several, one after the other, of which each goes on from what the one before has come to.

        Args:
            loop: handle or name of a loop that is an iterator of a reduction alone in its loops, one for each iterator.
            factors: iterations of the parts in order; one may be None and takes the rest.

        Returns:
            The parts; the last one is the block itself.

        Raises:
            ScheduleError: no reduction of integers with +, min or max; a loop of another kind; lengths that are not those of
                the loop.

        Before::

            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A[vi, vk]

        After ``sch.partition_reduction("k", [10, None])``::

            C_part0 = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 10):
                with T.sblock("C_part0"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C_part0[vi] = 0
                    C_part0[vi] = C_part0[vi] + A[vi, vk]
            for i, k in T.grid(16, 6):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = C_part0[vi]
                    C[vi] = C[vi] + A[vi, vk + 10]
        """
        assert isinstance(loop, LoopRV)
        state, node = self.loop_at(loop)
        try:
            blocks = state.children_of(node)
            if len(blocks) != 1:
                raise Refusal(f"{len(blocks)} blocks stand under loop {node.var.name}", [node.var], code="place")
            body, made = _summed_apart(state, state.realizes[blocks[0].ident], node.var,
                                       [None if f is None else self.int_of(f) for f in factors])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return [self.block_rv(b) for b in made]


def _spans(what: str, extent: int | None, lengths: list[int | None]) -> list[Span]:
    """From where to where consecutive parts go."""
    known = sum(n for n in lengths if n is not None)
    rest = lengths.count(None)
    if extent is None or len(lengths) < 2 or rest > 1 or any(n is not None and n < 1 for n in lengths) or (
            known >= extent if rest else known != extent):
        raise Refusal(f"{lengths} are not lengths of parts of {what}, which has {extent}", code="argument")
    ends = [0]
    for n in lengths:
        ends.append(ends[-1] + (extent - known if n is None else n))
    return list(pairwise(ends))


class _Moved(Mutator):
    """Puts the parts of a tensor in its place.

    Args:
        buffer: the tensor.
        dim: along which it is cut.
        parts: by part, where it lies and the tensor that it becomes.
        block: whose accesses these are.
        dom: of its iterators.
    """

    def __init__(
        self, buffer: Buffer, dim: int, parts: Sequence[tuple[Span, Buffer]], block: Block, dom: dict[Var, Range]
    ) -> None:
        self.buffer, self.dim, self.parts, self.block = buffer, dim, parts, block
        self.known, self.moving = Analyzer(dom), _moving(dom)
        self.used: set[Buffer] = set()

    def at(self, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        """What stands for an element of the tensor."""
        index = indices[self.dim]
        low, high = self.known.int_bounds(index)
        for (begin, end), part in self.parts:
            if low is not None and high is not None and begin <= low and high < end:
                self.used.add(part)
                moved = self.moving.simplify(index - IntImm(begin, index.dtype)) if begin else index
                return part, (*indices[: self.dim], moved, *indices[self.dim + 1 :])
        raise Refusal(f"block {self.block.name} accesses several parts of {self.buffer.name} at once: index {expr_text(index)} "
                      f"is from {low} to {high}", [self.block.ident], "partition the block first", code="index")

    def visit_load(self, load: BufferLoad) -> Expr:
        indices = self.visit_exprs(load.indices)
        if load.buffer is not self.buffer:
            return BufferLoad(load.buffer, indices, load.dtype)
        part, indices = self.at(indices)
        return BufferLoad(part, indices, load.dtype)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if not isinstance(stmt, BufferStore):
            return super().visit_stmt(stmt)
        indices, value = self.visit_exprs(stmt.indices), self.visit_expr(stmt.value)
        if stmt.buffer is not self.buffer:
            return BufferStore(stmt.buffer, indices, value)
        part, indices = self.at(indices)
        return BufferStore(part, indices, value)


def _partitioned(state: State, first: Block, dim: int, lengths: list[int | None]) -> tuple[Stmt, list[Block]]:
    buffer = plain_stores(first)[0].buffer
    scope = scope_of(state, first)
    if all(b is not buffer for b in scope.alloc_buffers):
        raise Refusal(f"{buffer.name} is no tensor that the program allocates", [first.ident], code="output")
    if not 0 <= dim < buffer.ndim:
        raise Refusal(f"{buffer.name} has {buffer.ndim} dimensions; there is none at {dim}", [first.ident], code="argument")
    taken = state.buffer_names(scope)
    parts: list[tuple[Span, Buffer]] = []
    for n, (begin, end) in enumerate(_spans(f"dimension {dim} of {buffer.name}", int_value(buffer.shape[dim]), lengths)):
        shape = (*buffer.shape[:dim], IntImm(end - begin, buffer.shape[dim].dtype), *buffer.shape[dim + 1 :])
        name = fresh_name(f"{buffer.name}_part{n}", taken)
        parts.append(((begin, end), Buffer(name, shape, buffer.dtype, buffer.scope)))
        taken = {*taken, name}
    names = set(state.block_names())
    table: dict[int, Stmt | None] = {}
    made: list[tuple[int, Block]] = []
    used: set[Buffer] = set()
    require_blocks(state, scope, (), (buffer,))
    for block in _users(state, scope, buffer):
        realize = state.realizes[block.ident]
        store = plain_stores(block)[0]
        if store.buffer is buffer and (cut := _cut_at(block, store, dim, [span for span, _ in parts])) is not None:
            top = top_of(state, realize)
            require_once(state, realize)
            pieces = [_piece(block, *cut, span) for span, _ in parts]
            new = [_moved(piece, buffer, dim, parts, used) for piece in pieces if piece is not None]
            whole = [replace(b, name=fresh_name(f"{block.name}_part{n}", names)) for n, b in enumerate(new)]
            names |= {b.name for b in whole}
            table[id(top)] = seq(*[own_nest(b) for b in whole])
            made += [(_number(b, parts), b) for b in whole]
            continue
        changed = _moved(block, buffer, dim, parts, used)
        table[id(realize)] = replace(realize, block=changed)
        made += [(_number(changed, parts), changed)] if store.buffer is buffer else []
    allocs = [b for b in scope.alloc_buffers if b is not buffer] + [part for _, part in parts if part in used]
    return state.rewrite(table, {id(scope): tuple(allocs)}), [b for _, b in sorted(made, key=lambda m: m[0])]


def _users(state: State, scope: Block, buffer: Buffer) -> Iterator[Block]:
    """The blocks that read or write a tensor; in place of those that declare nothing, those inside them."""
    for block in state.children_of(scope):
        if any(r.buffer is buffer for r in (*block.reads, *block.writes)):
            yield block
        elif not (block.reads or block.writes):
            yield from _users(state, block, buffer)


def _number(block: Block, parts: Sequence[tuple[Span, Buffer]]) -> int:
    """Which of the parts a block writes."""
    store = plain_stores(block)[0]
    return next(n for n, (_, part) in enumerate(parts) if part is store.buffer)


def _cut_at(block: Block, store: BufferStore, dim: int, spans: Sequence[Span]) -> tuple[IterVar, int] | None:
    """The iterator that a block has to be cut along, and what its index has more; None where it writes one part only."""
    dom = {iv.var: iv.dom for iv in block.iter_vars}
    index = store.indices[dim]
    low, high = Analyzer(dom).int_bounds(index)
    if low is not None and high is not None and any(begin <= low and high < end for begin, end in spans):
        return None
    for iv in block.iter_vars:
        first, n = int_value(iv.dom.min), int_value(iv.dom.extent)
        if iv.kind == "spatial" and first == 0 and n is not None and low is not None and set(free_vars(index)) == {iv.var} and (
                high == low + n - 1):
            return iv, low
    raise Refusal(f"block {block.name} writes several parts of {store.buffer.name}, and at no iterator of its own alone",
                  [block.ident], code="index")


def _piece(block: Block, iv: IterVar, further: int, span: Span) -> Block | None:
    """The part of a block that writes a part of its tensor; None where it writes nothing of that."""
    begin, end = max(span[0] - further, 0), min(span[1] - further, int_value(iv.dom.extent) or 0)
    return shorter(block, iv, begin, end) if begin < end else None


def shorter(block: Block, iv: IterVar, begin: int, end: int) -> Block:
    """A block that runs a part of an iterator, from 0, with iterators of its own.

    Args:
        block: one store, and perhaps its init.
        iv: an iterator of it.
        begin: the first value of the part.
        end: the one behind its last.
    """
    dtype = iv.var.dtype
    fresh = {x.var: Var(x.var.name, x.var.dtype) for x in block.iter_vars}
    at: dict[Var, Expr] = dict(fresh)
    at[iv.var] = binary("+", fresh[iv.var], IntImm(begin, dtype)) if begin else fresh[iv.var]
    iters = tuple([IterVar(fresh[x.var], Range(IntImm(0, dtype), IntImm(end - begin, dtype)) if x is iv else x.dom, x.kind)
                   for x in block.iter_vars])
    plain = Normalising(at, _moving({x.var: x.dom for x in iters}))
    init = None if block.init is None else plain.visit_stmt(block.init)
    return with_access(Block(block.name, iters, (), (), plain.visit_stmt(block.body), init, annotations=block.annotations))


def _moving(dom: dict[Var, Range]) -> Analyzer:
    """Knows the ranges of some iterators, but not of those that can be 0 only: these stay in indices."""
    return Analyzer({v: r for v, r in dom.items() if int_value(r.extent) != 1})


def _moved(block: Block, buffer: Buffer, dim: int, parts: Sequence[tuple[Span, Buffer]], used: set[Buffer]) -> Block:
    """A block that accesses the parts in place of the tensor."""
    mover = _Moved(buffer, dim, parts, block, {iv.var: iv.dom for iv in block.iter_vars})
    body = mover.visit_stmt(block.body)
    init = None if block.init is None else mover.visit_stmt(block.init)
    used |= mover.used
    return with_access(replace(block, body=body, init=init))


def _summed_apart(state: State, realize: BlockRealize, loop: Var, lengths: list[int | None]) -> tuple[Stmt, list[Block]]:
    block = realize.block
    store = plain_stores(block)[0]
    update = update_of(store)
    if block.init is None or update is None or not is_int(store.buffer.dtype):
        raise Refusal(f"block {block.name} is no reduction of integers with +, min or max", [block.ident], code="reduction")
    iv = next((iv for iv, value in zip(block.iter_vars, realize.iter_values) if value is loop), None)
    if iv is None or iv.kind != "reduce" or int_value(iv.dom.min) != 0:
        raise Refusal(f"loop {loop.name} is no iterator that block {block.name} reduces over, from 0", [loop, block.ident],
                      code="loop")
    top = top_of(state, realize)
    require_once(state, realize)
    spans = _spans(f"loop {loop.name}", int_value(iv.dom.extent), lengths)
    scope = scope_of(state, block)
    names, taken = set(state.block_names()), state.buffer_names(scope)
    made: list[Block] = []
    allocs: list[Buffer] = []
    for n, (begin, end) in enumerate(spans):
        piece = shorter(block, iv, begin, end)
        last = n == len(spans) - 1
        own = plain_stores(piece)[0]
        if made:
            before = plain_stores(made[-1])[0].buffer
            start = BufferLoad(before, own.indices, before.dtype)
            piece = replace(piece, init=BufferStore(own.buffer, own.indices, start))
        if not last:
            name = fresh_name(f"{store.buffer.name}_part{n}", taken)
            partial = replace(store.buffer, name=name, ident=Ident())
            taken = {*taken, name}
            allocs.append(partial)
            swapped = replace_buffers(piece, {store.buffer: partial})
            assert isinstance(swapped, Block)
            piece = replace(swapped, name=fresh_name(f"{block.name}_part{n}", names))
            names |= {piece.name}
        made.append(with_access(piece))
    made[-1] = replace(made[-1], ident=block.ident)
    table: dict[int, Stmt | None] = {id(top): seq(*[own_nest(b) for b in made])}
    return state.rewrite(table, {id(scope): (*scope.alloc_buffers, *allocs)}), made
