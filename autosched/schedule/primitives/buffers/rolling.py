"""Buffers that keep only a window, which moves with a loop: rolling_buffer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, as_expr, int_value, logical_and
from autosched.ir.functor import Substitute, free_vars, substitute, uses
from autosched.ir.print_expr import expr_text
from autosched.ir.region import block_access, region_bounds
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferRegion, BufferStore, For, IterVar, Range, Stmt
from autosched.schedule.analysis.bindings import facts
from autosched.schedule.analysis.boxes import bindings, loop_ranges
from autosched.schedule.analysis.dependence import is_output, scope_of
from autosched.schedule.analysis.ways import for_complete
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State


class Rolling(ScheduleBase):
    """The primitive that reuses the overlap of neighbouring tiles."""

    @primitive
    def rolling_buffer(self, block: BlockRV | str, write_buffer_index: int | str | Buffer) -> None:
        """Keeps only a window of a buffer, and computes only what enters the window from one tile to the next.

        Args:
            block: handle or name of a block under a loop of its consumers (``compute_at``), with tiles that overlap.
            write_buffer_index: position or name among the buffers written.

        Raises:
            ScheduleError: an output block, other dependences than consumers that read it, no common loop with its
                consumers, tiles that do not overlap along a serial loop or leave out a part of their window.

        The outermost loop along which tiles overlap chooses the dimension; indices there are taken modulo the tile. Along
        each overlapping dimension the block skips what the tile before has left, and the iterators of that dimension
        become opaque: its iterations depend on each other from now on.

        Before::

            B = T.sblock_alloc_buffer((10,), "int32")
            for i_0 in range(2):
                for ax0 in range(6):
                    with T.sblock("B"):
                        vi = T.axis.spatial(10, i_0 * 4 + ax0)
                        B[vi] = A[vi] * 2
                for i_1, k in T.grid(4, 3):
                    with T.sblock("C"):
                        vi = T.axis.spatial(8, i_0 * 4 + i_1)
                        vk = T.axis.reduce(3, k)
                        with T.init():
                            C[vi] = 0
                        C[vi] = C[vi] + B[vi + vk]

        After ``sch.rolling_buffer("B", 0)``::

            B = T.sblock_alloc_buffer((6,), "int32")
            for i_0 in range(2):
                for ax0 in range(6):
                    with T.sblock("B"):
                        vi = T.axis.opaque(10, i_0 * 4 + ax0)
                        T.where(i_0 < 1 or 2 <= ax0)
                        B[vi % 6] = A[vi] * 2
                for i_1, k in T.grid(4, 3):
                    with T.sblock("C"):
                        vi = T.axis.opaque(8, i_0 * 4 + i_1)
                        vk = T.axis.reduce(3, k)
                        with T.init():
                            C[vi] = 0
                        C[vi] = C[vi] + B[(vi + vk) % 6]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        index = self.block_region_buffer(realize.block, write_buffer_index, "write")
        try:
            body = _roll(state, realize, realize.block.writes[index])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)


@dataclass(frozen=True)
class _Axis:
    """A dimension along which neighbouring tiles overlap.

    Args:
        dim: position.
        var: the loop variable that moves the tile.
        overlap: elements shared with the tile before.
        size: elements of a tile.
    """

    dim: int
    var: Var
    overlap: int
    size: Expr


def _roll(state: State, realize: BlockRealize, region: BufferRegion) -> Stmt:
    block, buffer = realize.block, region.buffer
    scope = scope_of(state, block)
    if is_output(block, scope) or all(b is not buffer for b in scope.alloc_buffers):
        raise Refusal(f"block {block.name} is an output block: {buffer.name} is no intermediate", [block.ident],
                      hint="give a block whose result is an intermediate that a later block reads; cache_write makes one",
                      code="output")
    for d in state.dependences(scope):
        if d.kind != "RAW" and block.ident in (d.src, d.dst):
            raise Refusal(f"block {block.name} shares {d.buffer.name} with another writer ({d.kind})", [d.src, d.dst],
                          hint=for_complete(state, block, "rolling_buffer"), code="writer")
    consumers = state.consumers(block)
    common = state.lca([realize, *(state.realizes[b.ident] for b in consumers)])
    if not consumers or not isinstance(common, For):
        raise Refusal(f"block {block.name} shares no loop with its consumers", [block.ident, *(b.ident for b in consumers)],
                      "compute_at it under a tile of its consumer", code="place")
    loops = state.loops_above(realize)
    below = state.loops_below(common, realize)
    moved = Substitute(bindings(realize)).visit_region(region)
    ranges = region_bounds(moved, loop_ranges(below), Analyzer(), shape=buffer.shape)
    axes = _overlaps(block, region, ranges)
    order = [x.var for x in loops]
    axes = [a for a in axes if a.var in order]
    if not axes:
        raise Refusal(f"no tiles of {buffer.name} overlap along a loop around block {block.name}", [block.ident],
                      "split and compute_at so that its region is loop * stride + window", code="form")
    for axis in axes:
        beside = next((k for k, r in enumerate(ranges) if k != axis.dim and uses(r.min, {axis.var: 0})), None)
        if beside is not None:
            raise Refusal(
                f"loop {axis.var.name} moves the window along dimensions {min(axis.dim, beside)} and {max(axis.dim, beside)} of "
                f"{buffer.name} at once: what two tiles share is no slice of either", [axis.var, block.ident],
                "split and compute_at so that a loop moves one dimension", code="index")
    rolled = min(axes, key=lambda a: order.index(a.var))
    for axis in axes:
        loop = state.loops[axis.var]
        if loop.kind not in ("serial", "unrolled") or int_value(loop.min) != 0:
            raise Refusal(f"loop {loop.var.name} does not run from 0 in order", [loop.var], "a serial loop", code="loop")
        if not (isinstance(region.region[axis.dim].min, Var) and axis.dim < len(block.iter_vars)
                and block.iter_vars[axis.dim].var is region.region[axis.dim].min):
            raise Refusal(f"dimension {axis.dim} of {buffer.name} is not iterator {axis.dim} of block {block.name}",
                          [block.ident], code="index")
        if int_value(region.region[axis.dim].extent) != 1:
            raise Refusal(f"block {block.name} writes several elements of dimension {axis.dim} of {buffer.name} at once",
                          [block.ident], code="index")
        left_out = _left_out(realize, axis)
        if left_out is not None:
            raise Refusal(
                f"block {block.name} leaves elements of a tile out ({expr_text(left_out)}), and the next tile would take them "
                "for done",
                [block.ident], "a split whose factors divide the tile", code="domain",
            )
    shape = tuple(rolled.size if k == rolled.dim else s for k, s in enumerate(buffer.shape))
    new = replace(buffer, shape=shape, strides=())
    condition = logical_and(realize.predicate, *[_enters(realize, a) for a in axes])
    guarded = BlockRealize(realize.iter_values, condition, block)
    first = state.with_body(state.rewrite({id(realize): guarded}))
    owner = first.block(scope.ident)
    table: dict[int, Stmt | None] = {}
    rewriter = _Window(buffer, new, rolled)
    for child in first.children_of(owner):
        if buffer in facts(child).buffers:
            table[id(child)] = rewriter.visit_block(child)
    allocs = {id(owner): tuple(new if b is buffer else b for b in owner.alloc_buffers)}
    return first.rewrite(table, allocs)


def _overlaps(block: Block, region: BufferRegion, ranges: tuple[Range, ...]) -> list[_Axis]:
    found: list[_Axis] = []
    for k, r in enumerate(ranges):
        stride = _stride(r.min)
        if stride is None:
            raise Refusal(f"dimension {k} of {region.buffer.name} is no window that moves by steps of one loop",
                          [block.ident],
                hint=f"compute_at {block.name} under a tile of its consumer, so that its region is loop * stride + window",
                code="index")
        var, step = stride
        size = int_value(r.extent)
        if var is None:
            continue
        if size is None:
            raise Refusal(f"the window of {region.buffer.name} in dimension {k} has no constant size", [block.ident],
                          code="symbolic")
        if size - step > 0:
            found.append(_Axis(k, var, size - step, r.extent))
    return found


def _stride(low: Expr) -> tuple[Var | None, int] | None:
    """The loop variable and the step of a window's start; (None, 0) where it does not move, None where it is no such form."""
    if isinstance(low, Var):
        return low, 1
    if int_value(low) is not None:
        return None, 0
    if isinstance(low, BinOp) and low.op == "*" and isinstance(low.a, Var):
        step = int_value(low.b)
        return None if step is None or step < 1 else (low.a, step)
    if isinstance(low, BinOp) and low.op == "//":
        divisor, inner = int_value(low.b), _stride(low.a)
        if divisor is None or divisor < 1 or inner is None or inner[0] is None:
            return None
        return inner[0], -(-inner[1] // divisor)
    return None


def _enters(realize: BlockRealize, axis: _Axis) -> Expr:
    """Whether an element is new in the window: in the first tile, or past the overlap."""
    offset = Analyzer().simplify(substitute(realize.iter_values[axis.dim], {axis.var: as_expr(0, axis.var.dtype)}))
    return (axis.var < 1) | BinOp("<=", as_expr(axis.overlap, offset.dtype), offset, "bool")


def _left_out(realize: BlockRealize, axis: _Axis) -> Expr | None:
    """A condition under which the tile before may not have computed an element that both tiles share.

    A bound on the element itself holds in both tiles; one on its place in the tile does not.
    """
    analyzer, value = Analyzer(), realize.iter_values[axis.dim]
    moves = dict.fromkeys(free_vars(value))
    for part in conjuncts(realize.predicate):
        if not uses(part, moves):
            continue
        if isinstance(part, BinOp) and part.op in ("<", "<=", ">", ">="):
            difference = part.a - part.b
            if any(analyzer.const_value(difference + sign) is not None for sign in (value, -value)):
                continue
        return part
    return None


class _Window(Substitute):
    """Takes indices of one dimension modulo the window, and makes that dimension's iterators opaque."""

    def __init__(self, old: Buffer, new: Buffer, axis: _Axis) -> None:
        super().__init__()
        self.old, self.new, self.axis = old, new, axis

    def _indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        dim = self.axis.dim
        return tuple(i % self.axis.size if k == dim else i for k, i in enumerate(indices))

    def visit_load(self, load: BufferLoad) -> Expr:
        indices = self.visit_exprs(load.indices)
        if load.buffer is not self.old:
            return BufferLoad(load.buffer, indices, load.dtype)
        return BufferLoad(self.new, self._indices(indices), load.dtype)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        new = super().visit_stmt(stmt)
        if isinstance(new, BufferStore) and new.buffer is self.old:
            return BufferStore(self.new, self._indices(new.indices), new.value)
        return new

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        return region

    def visit_block(self, block: Block) -> Block:
        if self.old not in facts(block).buffers:
            return block
        new = super().visit_block(block)
        dim = self.axis.dim
        iters = tuple(
            IterVar(iv.var, iv.dom, "opaque") if k == dim and iv.kind == "spatial" else iv
            for k, iv in enumerate(new.iter_vars)
        )
        reads, writes = block_access(new, [self.new])

        def fixed(given: tuple[BufferRegion, ...], found: tuple[BufferRegion, ...]) -> tuple[BufferRegion, ...]:
            return tuple(found[0] if r.buffer is self.old and found else r for r in given)

        return replace(new, iter_vars=iters, reads=fixed(new.reads, reads), writes=fixed(new.writes, writes))
