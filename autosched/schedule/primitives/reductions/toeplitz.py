"""Sums over windows as sums over spans that several neighbouring results share: banded operands, made once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.ir.expr import (
    BinOp,
    BufferLoad,
    Cast,
    Expr,
    IntImm,
    Var,
    all_of,
    binary,
    const,
    eq,
    if_then_else,
    int_value,
    is_int,
)
from autosched.ir.functor import free_vars
from autosched.ir.patterns import has_loads
from autosched.ir.region import with_access
from autosched.ir.simplify import Analyzer, linear_form
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, IterVar, Range, Stmt, seq
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import filling, own_nest, runs_whole
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import top_of
from autosched.schedule.primitives.reductions.zero_terms import Replaced, sum_term


class Bands(ScheduleBase):
    """The primitive that makes a filter a banded matrix."""

    @primitive
    def toeplitz(self, block: BlockRV | str, axis: int, reduction: int, rows: int) -> BlockRV:
        """Sums over all that some neighbouring results read instead of over the window of each, with a banded operand.

        A filter slides: of ``rows`` results side by side, each is a product of one and the same span of the data with a row of
        a Toeplitz matrix, which holds the filter where the result's window is and zeros elsewhere. The matrix is the same for
        all spans, so that the results of one are the columns of a matrix product, though the filter is one only.

        Args:
            block: handle or name of a block that sums products of two integer operands, alone in loops that are its iterators.
            axis: position of a spatial iterator among the block's iterators; one operand's index of one dimension is a
                positive multiple of it, a positive multiple of the reduction, and a constant, and the other does not use it.
            reduction: position of the reduction iterator; it is the plain index of one dimension of the other operand.
            rows: results that share a span, one or more.

        Returns:
            The block that makes the banded operand: its rows and what they are summed over stand in place of the dimension.

        Raises:
            ScheduleError: another body or other indices; the last span ends behind what there is of the data.

        Before::

            for i, k in T.grid(14, 3):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.Cast("int32", A[vi + vk]) * T.Cast("int32", W[vk])

        After ``sch.toeplitz("C", 0, 1, 7)``::

            W_band = T.sblock_alloc_buffer((7, 9), "int8")
            for i0, i1 in T.grid(7, 9):
                with T.sblock("W_band"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    W_band[v0, v1] = T.if_then_else(0 <= v1 - v0 and v1 - v0 < 3, W[v1 - v0], T.int8(0))
            for i, k in T.grid(14, 9):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.Cast("int32", A[vi // 7 * 7 + vk]) * T.Cast("int32", W_band[vi % 7, vk])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _banded(state, realize, int(axis), int(reduction), int(rows))
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


@dataclass(frozen=True)
class Window:
    """How an operand is read along a window.

    Args:
        dim: the dimension.
        step: from a result to the next one.
        stride: from a tap to the next one.
        start: of the first tap of the first result.
    """

    dim: int
    step: int
    stride: int
    start: int

    def span(self, rows: int, taps: int) -> int:
        """How much of the data some neighbouring results read, from the first element up to the last one."""
        return (rows - 1) * self.step + (taps - 1) * self.stride + 1


def window_of(load: BufferLoad, var: Var, tap: Var) -> Window | None:
    """The one dimension in which a load slides with an iterator along a window; None where it does otherwise, or not at all.

    Args:
        load: of the data.
        var: the iterator.
        tap: moves along the window.
    """
    moved = [d for d, i in enumerate(load.indices) if {var, tap} & set(free_vars(i))]
    form = linear_form(load.indices[moved[0]]) if len(moved) == 1 else None
    if form is None or set(form[0]) != {var, tap} or (start := int_value(form[1])) is None:
        return None
    step, stride = int_value(form[0][var]), int_value(form[0][tap])
    return Window(moved[0], step, stride, start) if step and stride and step > 0 and stride > 0 else None


def _banded(state: State, realize: BlockRealize, axis: int, reduction: int, rows: int) -> tuple[Stmt, Block]:
    block = realize.block
    var, tap = _iterator(block, axis, "spatial"), _iterator(block, reduction, "reduce")
    extent, taps = int_value(var.dom.extent), int_value(tap.dom.extent)
    assert extent is not None and taps is not None
    if rows < 1:
        raise Refusal(f"rows is a positive number, not {rows}", [block.ident], code="argument")
    store, term = sum_term(block)
    top = top_of(state, realize)
    if not runs_whole(realize, state.loops_above(realize)):
        raise Refusal(f"the iterators of block {block.name} are not the loops around it, one each, over whole domains from 0",
                      [block.ident], "renest before", code="domain")
    data, weight = _operands(block, term, var.var)
    window = window_of(data, var.var, tap.var)
    if window is None:
        raise Refusal(f"{data.buffer.name} is not read in one dimension at a multiple of {var.var.name}, a multiple of "
                      f"{tap.var.name} and a constant, and nowhere else at these", [block.ident], code="index")
    at = [d for d, i in enumerate(weight.indices) if {var.var, tap.var} & set(free_vars(i))]
    if len(at) != 1 or weight.indices[at[0]] is not tap.var or int_value(weight.buffer.shape[at[0]]) != taps:
        raise Refusal(f"{tap.var.name} is not the plain index of one whole dimension of {weight.buffer.name}, which does not use "
                      f"{var.var.name}", [block.ident], code="index")
    span = window.span(rows, taps)
    first, last = window.start, window.start + (extent - 1) // rows * rows * window.step + span - 1
    size = int_value(data.buffer.shape[window.dim])
    if first < 0 or size is None or last >= size:
        raise Refusal(f"dimension {window.dim} of {data.buffer.name} ends at {'?' if size is None else size - 1}, the last span "
                      f"of {rows} results at {last}", [block.ident], "pad_block enlarges it, with zeros", code="domain")
    scope = scope_of(state, block)
    name = fresh_name(f"{weight.buffer.name}_band", {*state.block_names(), *state.buffer_names(scope)})
    sizes = [IntImm(n, weight.buffer.shape[at[0]].dtype) for n in (rows, span)]
    band = Buffer(name, (*weight.buffer.shape[: at[0]], *sizes, *weight.buffer.shape[at[0] + 1 :]), weight.dtype)
    made = _band(band, weight.buffer, at[0], window, taps)
    over = Var(tap.var.name, tap.var.dtype)
    iters = tuple([IterVar(over, Range(IntImm(0, over.dtype), IntImm(span, over.dtype)), "reduce") if iv is tap else iv
                   for iv in block.iter_vars])
    known = Analyzer({iv.var: iv.dom for iv in iters})
    whole = known.simplify(binary("//", var.var, rows)) * (rows * window.step) + over + window.start
    row = known.simplify(binary("%", var.var, rows))
    spread = BufferLoad(data.buffer, (*data.indices[: window.dim], known.simplify(whole), *data.indices[window.dim + 1 :]),
                        data.dtype)
    rest = (*weight.indices[: at[0]], row, over, *weight.indices[at[0] + 1 :])
    changed = Replaced(data, spread).visit_expr(Replaced(weight, BufferLoad(band, rest, weight.dtype)).visit_expr(term))
    value = Replaced(term, changed).visit_expr(store.value)
    new = with_access(replace(block, iter_vars=iters, body=BufferStore(store.buffer, store.indices, value)))
    body = state.rewrite({id(top): seq(own_nest(made, "i"), own_nest(new))}, {id(scope): (*scope.alloc_buffers, band)})
    return body, made


def _iterator(block: Block, at: int, kind: str) -> IterVar:
    if not 0 <= at < len(block.iter_vars) or block.iter_vars[at].kind != kind:
        raise Refusal(f"block {block.name} has no {kind} iterator at {at}", [block.ident], code="argument")
    found = block.iter_vars[at]
    if int_value(found.dom.extent) is None or int_value(found.dom.min) != 0:
        raise Refusal(f"iterator {found.var.name} of block {block.name} has no constant extent from 0", [block.ident],
                      code="symbolic")
    return found


def _operands(block: Block, term: Expr, var: Var) -> tuple[BufferLoad, BufferLoad]:
    """The data, which moves with an iterator, and the operand that does not."""
    sides = (term.a, term.b) if isinstance(term, BinOp) and term.op == "*" else ()
    loads = [f.value if isinstance(f, Cast) and is_int(f.dtype) else f for f in sides]
    plain = [x for x in loads if isinstance(x, BufferLoad) and is_int(x.dtype) and not has_loads(*x.indices)]
    if len(plain) != 2:
        raise Refusal(f"block {block.name} sums no products of two integer operands", [block.ident], code="form")
    moved = [x for x in plain if any(var in free_vars(i) for i in x.indices)]
    if len(moved) != 1:
        raise Refusal(f"{len(moved)} of the two operands of block {block.name} move with {var.name}; one of them has to",
                      [block.ident], code="index")
    return moved[0], plain[1] if moved[0] is plain[0] else plain[0]


def _band(buffer: Buffer, source: Buffer, dim: int, window: Window, taps: int) -> Block:
    """The block that makes a banded operand.

    Args:
        buffer: the operand, of which a dimension of the source has become two: its rows, and what they are summed over.
        source: what is read.
        dim: its dimension.
        window: how the data is read.
        taps: extent of the dimension.
    """
    def value(at: tuple[Var, ...]) -> Expr:
        row, over = at[dim], at[dim + 1]
        away = over - row * window.step if window.step > 1 else over - row
        inside = [binary("<=", 0, away), binary("<", away, (taps - 1) * window.stride + 1)]
        if window.stride > 1:
            inside.append(eq(away % window.stride, 0))
        tap = away // window.stride if window.stride > 1 else away
        read = BufferLoad(source, (*at[:dim], tap, *at[dim + 2 :]), source.dtype)
        return if_then_else(all_of(inside), read, const(0, source.dtype))

    return filling(buffer.name, buffer, value)
