"""Reductions over windows in two steps, of which neighbouring windows share the first: share_reduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd

from autosched.ir.expr import BufferLoad, Expr, Var, binary, const, int_value
from autosched.ir.functor import free_vars, substitute, walk_expr
from autosched.ir.patterns import loads_from, loads_in
from autosched.ir.region import with_access
from autosched.ir.simplify import Analyzer, linear_form
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, IterVar, Range, Stmt, seq
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import plain_store, require_once, top_of
from autosched.schedule.primitives.reductions.windows import reduction_of


class Sharing(ScheduleBase):
    """The primitive that lets windows share parts of what they reduce."""

    @primitive
    def share_reduction(self, block: BlockRV | str, position: int, inner: int) -> BlockRV:
        """Reduces some terms in a row once for all places, in a stage of which every window reduces several elements.

        Repeated with ``inner`` of half the terms it doubles: a sum of 8 takes 3 additions. What else the block reduces over the
        stage does.

        Args:
            block: handle or name of a block with init, alone in its loops, that reduces integers with +, min or max and stores
                one element for each of its other iterators; an extremum starts with a constant.
            position: of its iterators, the one that moves along the window: all that the terms read by it, and by one of the
                others, is a sum of multiples of both.
            inner: terms of the stage, fewer than there are and a divisor of them; so many of them reach whole windows further.

        Returns:
            The block of the stage; its buffer is that of the block, longer by what the last window reads.

        Raises:
            ScheduleError: another body, no such iterator or number, windows that do not overlap.

        Before::

            for i, k in T.grid(16, 4):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A[vi + vk]

        After ``sch.share_reduction("C", 1, 2)``::

            C_part = T.sblock_alloc_buffer((18,), "int32")
            for i, k in T.grid(18, 2):
                with T.sblock("C_part"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C_part[vi] = 0
                    C_part[vi] = C_part[vi] + A[vi + vk]
            for i, k in T.grid(16, 2):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + C_part[vi + vk * 2]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            require_once(state, realize)
            body, made = _shared(state, realize, int(position), int(inner))
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


def _shared(state: State, realize: BlockRealize, position: int, inner: int) -> tuple[Stmt, Block]:
    block = realize.block
    top, scope = top_of(state, realize), scope_of(state, block)
    op, term = reduction_of(block)
    store, init = plain_store(block), block.init
    assert isinstance(init, BufferStore)
    start = int_value(init.value)
    if init.indices != store.indices or loads_from(init.value, store.buffer) or (op != "+" and start is None):
        raise Refusal(f"block {block.name} starts with something else than a value of its own element"
                      f"{'' if op == '+' else ' that is a constant'}", [block.ident], code="form")
    if any(iv.kind == "reduce" and iv.var in free_vars(init.value) for iv in block.iter_vars):
        raise Refusal(f"block {block.name} starts from what it reduces over", [block.ident], code="reduction")
    spatial = {iv.var: int_value(iv.dom.extent) for iv in block.iter_vars if iv.kind == "spatial"}
    plain = [i for i in store.indices if int_value(i) is None]
    if len(set(plain)) < len(plain) or any(i not in spatial for i in plain) or any(
            v not in plain and n != 1 for v, n in spatial.items()):
        raise Refusal(f"block {block.name} does not store one element for each of its spatial iterators", [block.ident],
                      code="index")
    if not 0 <= position < len(block.iter_vars) or block.iter_vars[position].kind != "reduce":
        raise Refusal(f"block {block.name} has no iterator at {position} that it reduces over", [block.ident], code="argument")
    if any(int_value(iv.dom.min) != 0 or int_value(iv.dom.extent) is None for iv in block.iter_vars):
        raise Refusal(f"an iterator of block {block.name} begins elsewhere than at 0, or at no constant", [block.ident],
                      code="symbolic")
    over = block.iter_vars[position]
    count = int_value(over.dom.extent) or 0
    if not 0 < inner < count or count % inner:
        raise Refusal(f"block {block.name} reduces {count} terms along {over.var.name}; {inner} of them are no part of several",
                      [block.ident], code="argument")
    found = along_of(block, term, over.var)
    if found is None:
        raise Refusal(f"what block {block.name} reads by {over.var.name} does not move along one other iterator, and be the same "
                      "there", [block.ident], code="index")
    along = next(iv for iv in block.iter_vars if iv.var is found.var)
    shift = inner // found.steps * found.windows
    if inner % found.steps or shift > (int_value(along.dom.extent) or 0):
        raise Refusal(f"{inner} terms of block {block.name} along {over.var.name} are no whole windows along {found.var.name}, "
                      "or more than there are", [block.ident], code="index")
    stage = _stage(state, scope, block, (op, term), over, inner, along, (count // inner - 1) * shift)
    into = plain_store(stage).buffer
    at = tuple([binary("+", i, binary("*", over.var, const(shift, over.var.dtype))) if i is along.var else i
                for i in store.indices])
    read = BufferLoad(into, at, into.dtype)
    own = BufferLoad(store.buffer, store.indices, store.buffer.dtype)
    outer = replace(over, dom=Range(over.dom.min, const(count // inner, over.var.dtype)))
    new = with_access(replace(
        block, body=BufferStore(store.buffer, store.indices, binary(op, own, read)),
        iter_vars=tuple([outer if iv is over else iv for iv in block.iter_vars if iv is over or iv.kind == "spatial"]),
    ))
    return state.rewrite({id(top): seq(own_nest(stage), own_nest(new))}, {id(scope): (*scope.alloc_buffers, into)}), stage


@dataclass(frozen=True)
class Along:
    """How windows move along what they reduce.

    Args:
        var: the iterator by which they do.
        steps: of the window, that reach as far as some windows further.
        windows: so many.
    """

    var: Var
    steps: int
    windows: int


def along_of(block: Block, term: Expr, over: Var) -> Along | None:
    """How windows move along one of the iterators that they are reduced over, the fewest steps; None where they do not.

    Args:
        block: a reduction.
        term: what it reduces; it is the same so many windows further on, and so many steps further along the window.
        over: the iterator.
    """
    own, known = [iv.var for iv in block.iter_vars], Analyzer({})
    found: set[tuple[Var, int, int]] = set()
    for index in (i for load in loads_in(term) for i in load.indices if any(e is over for e in walk_expr(i))):
        form = linear_form(index, own)
        others = [] if form is None else [v for v in form[0] if v is not over and form[0][v]]
        step, by = (0, 0) if form is None or len(others) != 1 else (form[0].get(over, 0), form[0][others[0]])
        if not (isinstance(step, int) and isinstance(by, int) and step > 0 and by > 0):
            return None
        found.add((others[0], by // gcd(step, by), step // gcd(step, by)))
    if len(found) != 1:
        return None
    (var, steps, windows), = found
    further = known.simplify(substitute(term, {over: binary("+", over, const(steps, over.dtype))}))
    moved = known.simplify(substitute(term, {var: binary("+", var, const(windows, var.dtype))}))
    spatial = any(iv.var is var and iv.kind == "spatial" for iv in block.iter_vars)
    return Along(var, steps, windows) if spatial and further == moved else None


def _stage(
    state: State, scope: Block, block: Block, update: tuple[str, Expr], over: IterVar, inner: int, along: IterVar, longer: int
) -> Block:
    """The block that reduces ``inner`` terms in a row, for every place and so many more along an iterator."""
    (op, term), store, init = update, plain_store(block), block.init
    assert isinstance(init, BufferStore)
    fresh: Mapping[Var, Expr] = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in block.iter_vars}
    size = (int_value(along.dom.extent) or 0) + longer
    shape = tuple([const(size, "int32") if i is along.var else n for i, n in zip(store.indices, store.buffer.shape)])
    buffer = Buffer(fresh_name(f"{store.buffer.name}_part", state.buffer_names(scope)), shape, store.buffer.dtype)
    lengths = {over.var: inner, along.var: size}
    iters = []
    for iv in block.iter_vars:
        var = fresh[iv.var]
        assert isinstance(var, Var)
        dom = Range(iv.dom.min, const(lengths[iv.var], var.dtype)) if iv.var in lengths else iv.dom
        iters.append(IterVar(var, dom, iv.kind))
    at = tuple([substitute(i, fresh) for i in store.indices])
    step = binary(op, BufferLoad(buffer, at, buffer.dtype), substitute(term, fresh))
    begin = const(0, buffer.dtype) if op == "+" else init.value
    name = fresh_name(f"{block.name}_part", set(state.block_names()))
    return with_access(Block(name, tuple(iters), (), (), BufferStore(buffer, at, step), BufferStore(buffer, at, begin)))


__all__ = ["Along", "Sharing", "along_of"]
