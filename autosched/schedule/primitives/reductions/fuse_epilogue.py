"""Which epilogues may act on every partial result of a reduction, and the reduction that does so: fuse_reduction_epilogue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from autosched.ir.expr import BinOp, BufferLoad, Expr, FloatImm, IntImm, Var, binary, int_value, is_int
from autosched.ir.functor import Substitute, walk_expr
from autosched.ir.stmt import TRUE, Block, BlockRealize, BufferStore, Stmt
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.schedule.analysis.boxes import is_unit
from autosched.schedule.analysis.dependence import incomplete, is_output, names, not_reduction, reduce_iters, scope_of
from autosched.schedule.analysis.pipeline import require_pipeline
from autosched.schedule.analysis.ways import before_nesting, for_complete, for_reduction
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.placement.inline import can_inline
from autosched.schedule.primitives.reductions.zero_terms import Replaced


@dataclass(frozen=True)
class _Epilogue:
    """``clip(load + addend)``.

    Args:
        load: what is reduced, read once.
        inner: the load with its addend, the load itself where there is none.
        addend: what is added, or None.
        clips: ``min`` and ``max`` around it, outermost first, each with its other operand.
    """

    load: BufferLoad
    inner: Expr
    addend: Expr | None
    clips: tuple[tuple[str, Expr], ...]


def fuse_epilogue(state: State, reduction: BlockRealize, epilogue: BlockRealize) -> dict[int, Stmt | None]:
    """What to replace to make a reduction do its epilogue's work.

    Args:
        state: the program.
        reduction: the reduction.
        epilogue: the block that reads its result.

    Raises:
        Refusal: see ``fuse_reduction_epilogue``.
    """
    first, last = reduction.block, epilogue.block
    _check_blocks(state, first, last)
    update, init, store = first.body, first.init, last.body
    marks = [first.ident, last.ident]
    if not (isinstance(update, BufferStore) and isinstance(init, BufferStore) and isinstance(store, BufferStore)):
        raise Refusal("the blocks must each be a single store", marks,
                      hint=before_nesting(state, first if state.children_of(first) else last, "fuse_reduction_epilogue"),
                      code="form")
    own = BufferLoad(update.buffer, update.indices, update.buffer.dtype)
    if any(e != own for e in walk_expr(update.value) if isinstance(e, BufferLoad) and e.buffer is update.buffer):
        raise Refusal(f"{first.name} reads {update.buffer.name} at other elements than it updates", [first.ident], code="index")
    found = _epilogue(store, update)
    if found is None or store.buffer.dtype != update.buffer.dtype:
        raise _refusal(first, last, "is neither a copy nor an addition to it, clipped or not")
    _check_function(state, first, last, found, own)
    if epilogue.predicate != TRUE:
        raise Refusal(f"block {last.name} runs under a predicate", [last.ident],
                      hint="fuse_reduction_epilogue before the epilogue is split, or split by factors that divide the extents",
                      code="domain")
    vmap = _same_elements(first, last, update, found.load)
    sub = Substitute(vmap)
    target = sub.visit_exprs(store.indices)
    result = BufferLoad(store.buffer, target, store.buffer.dtype)
    begin = init.value
    if found.addend is not None:
        added = sub.visit_expr(found.addend)
        begin = added if isinstance(begin, IntImm | FloatImm) and begin.value == 0 else binary("+", added, begin)
    # Same operand order as before: the accumulator stays on the side where it was.
    step = Replaced(own, result).visit_expr(update.value)
    reads = [sub.visit_region(r) for r in last.reads if r.buffer is not update.buffer]
    listed = {r.buffer for r in reads}
    fused = replace(
        first, init=BufferStore(store.buffer, target, _around(store.value, found, begin, sub)),
        body=BufferStore(store.buffer, target, _around(store.value, found, step, sub)),
        reads=(*reads, *(r for r in first.reads if r.buffer not in listed and r.buffer is not update.buffer)),
        writes=tuple(sub.visit_region(w) for w in last.writes),
    )
    table: dict[int, Stmt | None] = {id(first): fused, id(epilogue): None}
    after = state.with_body(state.rewrite(table))
    require_pipeline(after, scope_of(after, after.block(first.ident)))  # what it adds must be there by then
    return table


def _check_blocks(state: State, first: Block, last: Block) -> None:
    scope = scope_of(state, last)
    if scope_of(state, first) is not scope:
        raise Refusal(f"{first.name} and {last.name} are not in the same block scope", [first.ident, last.ident],
                      hint="fuse_reduction_epilogue before blockize and tensorize", code="place")
    require_pipeline(state, scope)
    for block, reason in ((first, not_reduction(state, first, scope)), (last, incomplete(state, last, scope))):
        if reason is not None:
            kind = "reduction" if block is first else "complete"
            way = for_reduction if block is first else for_complete
            raise Refusal(f"block {block.name} is not a {kind} block: {reason}", [block.ident],
                          way(state, block, "fuse_reduction_epilogue"), code="form")
    if is_output(first, scope):
        raise Refusal(f"block {first.name} is an output block", [first.ident],
                      hint="the first block is the reduction, the second one reads its result", code="output")
    readers = [b for b in state.consumers(first) if b is not last]
    if readers or not any(b is last for b in state.consumers(first)):
        raise Refusal(
            f"{last.name} is not the only reader of {first.name}: {names(readers) if readers else 'it does not read it'}",
            [first.ident, last.ident],
            f"{first.body.buffer.name} would not be written any more"
            if readers and isinstance(first.body, BufferStore) else "", code="reader",
        )
    order = [b.ident for b in state.children_of(scope)]
    late = [b for b in state.producers(last) if order.index(b.ident) > order.index(first.ident)]
    if late:
        raise Refusal(f"{names(late)}, which {last.name} adds, comes after {first.name}", [b.ident for b in late],
                      "; ".join(f'sch.compute_inline("{b.name}")' for b in late)
                      if all(can_inline(state, state.realizes[b.ident]) for b in late) else "", code="order")


def _refusal(first: Block, last: Block, what: str) -> Refusal:
    return Refusal(
        f"{first.name} must be a reduction that {last.name} may act on in every step, but {last.name} {what}",
        [first.ident, last.ident],
        f'keep it beside the reduction: sch.reverse_compute_at("{last.name}", the innermost loop of what it writes); '
        f'sch.fold_epilogue("{last.name}") moves an integer addend alone', code="reduction",
    )


def _epilogue(store: BufferStore, update: BufferStore) -> _Epilogue | None:
    """The parts of the epilogue's value, if it has that form."""
    loads = [e for e in walk_expr(store.value) if isinstance(e, BufferLoad) and e.buffer is update.buffer]
    if len(loads) != 1:
        return None
    load = loads[0]
    clips: list[tuple[str, Expr]] = []
    value = store.value
    while isinstance(value, BinOp) and value.op in ("min", "max"):
        inside, other = (value.a, value.b) if any(e is load for e in walk_expr(value.a)) else (value.b, value.a)
        clips.append((value.op, other))
        value = inside
    if value == load:
        return _Epilogue(load, value, None, tuple(clips))
    if isinstance(value, BinOp) and value.op == "+" and load in (value.a, value.b):
        return _Epilogue(load, value, value.b if value.a == load else value.a, tuple(clips))
    return None


def _around(value: Expr, found: _Epilogue, new: Expr, sub: Substitute) -> Expr:
    """The clips of the epilogue around something else, in the reduction's iterators."""
    if value is found.inner:
        return new
    assert isinstance(value, BinOp)
    if any(e is found.load for e in walk_expr(value.a)):
        return binary(value.op, _around(value.a, found, new, sub), sub.visit_expr(value.b))
    return binary(value.op, sub.visit_expr(value.a), _around(value.b, found, new, sub))


def _check_function(state: State, first: Block, last: Block, found: _Epilogue, own: BufferLoad) -> None:
    """Refuses an epilogue that gives something else when it acts on partial results too."""
    if found.addend is None and not found.clips:
        return
    update = first.body
    assert isinstance(update, BufferStore)
    op, term = _operation(update.value, own)
    if op == "+" and not found.clips:
        return
    if op in ("min", "max") and found.addend is None:
        return  # a clip is monotone, and clipping twice is clipping once
    if op != "+":
        raise _refusal(first, last, "clips what is no sum, min or max" if found.addend is None else "adds to what is no sum")
    if not is_int(own.dtype) or not _saturates(state, first, last, found, term):
        raise _refusal(first, last, "clips it: partial sums would be clipped too, which changes the result")


def _operation(value: Expr, own: BufferLoad) -> tuple[str, Expr]:
    """How a step combines the partial result, and with what; an empty name where it does more."""
    if isinstance(value, BinOp):
        for one, other in ((value.a, value.b), (value.b, value.a)):
            if one == own and all(e != own for e in walk_expr(other)):
                return value.op if value.op in ("+", "min", "max") else "", other
    return "", value


def _saturates(state: State, first: Block, last: Block, found: _Epilogue, term: Expr) -> bool:
    """Whether clipping every partial sum is the same as clipping the sum.

    It is where no partial sum leaves the bounds, or where the terms have one sign and only the bound ahead of them is
    ever left: what has left it would not come back.
    """
    init = first.init
    assert isinstance(init, BufferStore)
    bounds = ValueBounds(state.func)
    mine = {iv.var: iv.dom for iv in first.iter_vars}
    theirs = {iv.var: iv.dom for iv in last.iter_vars}
    extents = [int_value(iv.dom.extent) for iv in reduce_iters(first)]
    if any(e is None for e in extents):
        return False
    count = prod(e for e in extents if e is not None)
    low, high = bounds.of(term, mine)
    least, most = bounds.of(init.value, mine)
    if found.addend is not None:
        more = bounds.of(found.addend, theirs)
        least, most = least + more[0], most + more[1]
    least, most = least + min(count * low, 0), most + max(count * high, 0)
    whole = dtype_bounds(found.load.dtype)
    if least < whole[0] or most > whole[1]:
        return False
    floors = [bounds.of(e, theirs) for op, e in found.clips if op == "max"]
    ceilings = [bounds.of(e, theirs) for op, e in found.clips if op == "min"]
    if any(f[1] > c[0] for f in floors for c in ceilings):
        return False
    below, above = any(f[1] > least for f in floors), any(c[0] < most for c in ceilings)
    return not (below and above) and (not above or low >= 0) and (not below or high <= 0)


def _same_elements(first: Block, last: Block, update: BufferStore, load: BufferLoad) -> dict[Var, Expr]:
    """The epilogue's iterators in terms of the reduction's, element by element."""
    domain = {iv.var: iv.dom for iv in first.iter_vars}
    mine = {iv.var: iv.dom for iv in last.iter_vars}
    vmap: dict[Var, Expr] = {}
    for there, here in zip(load.indices, update.indices):
        if there == here and isinstance(there, IntImm):
            continue
        fits = isinstance(there, Var) and isinstance(here, Var) and there in mine and here in domain
        if not fits or there in vmap or mine[there] != domain[here]:  # type: ignore[index]
            raise Refusal(f"{last.name} does not run over the same elements as {first.name}", [first.ident, last.ident],
                          code="domain")
        assert isinstance(there, Var)
        vmap[there] = here
    for iv in last.iter_vars:
        if iv.var not in vmap:
            if not is_unit(iv.dom.extent):
                raise Refusal(f"{last.name} repeats elements over {iv.var.name}", [last.ident], code="index")
            vmap[iv.var] = iv.dom.min
    return vmap
