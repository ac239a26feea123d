"""Operands that are padded with a constant, as quantization with zero points has them: split_padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, Var, binary, cast, const, int_value
from autosched.ir.functor import free_vars, rewrite, substitute
from autosched.ir.patterns import choice_of, has_loads, loads_from, update_of
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, IterVar, Stmt, seq
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.analysis.one_to_one import injective
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import require_once, top_of

WIDE = ("int32", "int64")  # in which constants may be taken apart


class Paddings(ScheduleBase):
    """The primitive that takes what operands are padded with out of sums of products."""

    @primitive
    def split_padding(self, block: BlockRV | str) -> list[BlockRV]:
        """Sums up apart what a factor that is a constant in some places contributes there to a sum of products.

        That depends on the other factor only. The sum starts with it, and what it multiplies is padded with zeros. Constants
        added to the factor inside or outside of its padding go as well. What no place chooses is summed up first.

        Args:
            block: handle or name of a block alone in its loops that adds up products of int32 or wider values, of which a factor
                is a choice by iterators between values and constants, plus or minus constants; of two it is the first.

        Returns:
            the blocks of the new sums: over what no place chooses, where there is such, then over the rest, with an element for
            each place.

        Raises:
            ScheduleError: another body, or no such factor.

        Before::

            for i, k in T.grid(16, 3):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.Cast("int32", T.if_then_else(vi + vk < 16, A[vi + vk], T.int8(7))) * T.Cast("int32", W[vk])

        After ``sch.split_padding("C")``::

            C_padding = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 3):
                with T.sblock("C_padding"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C_padding[vi] = 0
                    C_padding[vi] = C_padding[vi] + T.Cast("int32", W[vk]) * T.if_then_else(vi + vk < 16, 0, 7)
            for i, k in T.grid(16, 3):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = C_padding[vi]
                    C[vi] = C[vi] + T.Cast("int32", T.if_then_else(vi + vk < 16, A[vi + vk], T.int8(0))) * T.Cast("int32", W[vk])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _split(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return [self.block_rv(b) for b in made]


@dataclass(frozen=True)
class Padded:
    """A sum of products of which a factor is a constant in some places.

    Args:
        operand: the factor, with zeros there.
        offset: what it is more than that, by place.
        other: the other factor.
    """

    operand: Expr
    offset: Expr
    other: Expr


def padded_of(block: Block) -> Padded | None:
    """A block as a sum of products with a padded factor, or None.

    Args:
        block: any.
    """
    store = block.body
    update = update_of(store) if isinstance(store, BufferStore) else None
    if block.init is None or update is None or update[0] != "+" or update[1].dtype not in WIDE:
        return None
    term = update[1]
    if not (isinstance(term, BinOp) and term.op == "*"):
        return None
    for factor, other in ((term.a, term.b), (term.b, term.a)):
        operand, offset = _apart(factor)
        if int_value(offset) is None and has_loads(operand):
            return Padded(operand, offset, other)
    return None


def padding_of(value: Expr) -> Expr | None:
    """The constant other than 0 that a value is by place, where it is a choice between something else and that; else None.

    Args:
        value: what a block stores.
    """
    choice = choice_of(value)
    if choice is None or has_loads(choice[0]):
        return None
    return next((x for x in choice[1:] if int_value(x) not in (None, 0)), None)


def _apart(value: Expr) -> tuple[Expr, Expr]:
    """(what of a value is read, constants by place) of which the sum is the value."""
    zero = const(0, value.dtype)
    if int_value(value) is not None:
        return zero, value
    if isinstance(value, Cast):
        if value.value.dtype in WIDE and value.dtype not in WIDE:
            return value, zero  # what is stored narrowly wraps around: constants before that are none behind it
        operand, offset = _apart(value.value)
        return cast(value.dtype, operand), _each(offset, lambda e: cast(value.dtype, e))
    if isinstance(value, BinOp) and value.op in ("+", "-") and value.dtype in WIDE and int_value(value.b) is not None:
        operand, offset = _apart(value.a)
        return operand, _each(offset, lambda e: binary(value.op, e, value.b))
    choice = choice_of(value)
    if choice is None or has_loads(choice[0]):
        return value, zero
    condition, *sides = choice
    (yes, more), (no, less) = map(_apart, sides)
    return _choice(condition, yes, no), _choice(condition, more, less)


def _each(offset: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Another constant in every place."""
    choice = choice_of(offset)
    return change(offset) if choice is None else _choice(choice[0], _each(choice[1], change), _each(choice[2], change))


def _choice(condition: Expr, yes: Expr, no: Expr) -> Expr:
    """A choice; between narrow values where these are converted, and none where both are the same."""
    if yes == no:
        return yes
    if isinstance(yes, Cast) and int_value(no) == 0:
        inner = yes.value
        return cast(yes.dtype, _choice(condition, inner, const(0, inner.dtype)))
    return Call("if_then_else", (condition, yes, no), yes.dtype)


def _split(state: State, realize: BlockRealize) -> tuple[Stmt, list[Block]]:
    block = realize.block
    found = padded_of(block)
    store, init = block.body, block.init
    if found is None or not isinstance(store, BufferStore) or not isinstance(init, BufferStore):
        raise Refusal(f"block {block.name} adds up no products of which a factor is padded with a constant", [block.ident],
                      code="form")
    if init.indices != store.indices or loads_from(init.value, store.buffer):
        raise Refusal(f"block {block.name} starts with something else than a value of its own element", [block.ident],
                      code="form")
    if any(int_value(iv.dom.min) != 0 or int_value(iv.dom.extent) is None for iv in block.iter_vars):
        raise Refusal(f"an iterator of block {block.name} begins elsewhere than at 0", [block.ident], code="index")
    spatial = {iv.var: iv.dom for iv in block.iter_vars if iv.kind == "spatial"}
    if not injective(store.indices, spatial):
        raise Refusal(f"several iterations of block {block.name} write one element of {store.buffer.name}: each would start it "
                      "with a sum of its own", [block.ident], code="index")
    require_once(state, realize)
    top, scope = top_of(state, realize), scope_of(state, block)
    names = _Names(state, block, scope, store.buffer.name)
    chosen, read = free_vars(found.offset), free_vars(found.other)
    first = [iv for iv in block.iter_vars if iv.kind == "reduce" and iv.var not in chosen]
    last = [iv for iv in block.iter_vars if iv.kind == "reduce" and iv.var in chosen]
    places = [iv for iv in block.iter_vars if iv.kind == "spatial" and (iv.var in read or iv.var in chosen)]
    made: list[Block] = []
    other = found.other
    if first and last:
        kept = [iv for iv in (*places, *last) if iv.var in read]
        made.append(_summed(names("taps", kept), kept, first, other))
        other = BufferLoad(_stored(made[-1]), _at([iv.var for iv in kept]), other.dtype)
        first = []
    made.append(_summed(names("padding", places), places, [*first, *last], binary("*", other, found.offset)))
    begins = binary("+", init.value, BufferLoad(_stored(made[-1]), _at([iv.var for iv in places]), store.buffer.dtype))
    plain = binary("+", BufferLoad(store.buffer, store.indices, store.buffer.dtype), binary("*", found.operand, found.other))
    new = with_access(replace(block, init=BufferStore(store.buffer, store.indices, begins),
                              body=BufferStore(store.buffer, store.indices, plain)))
    changed = rewrite(top, realize, replace(realize, block=new))
    body = seq(*[own_nest(b) for b in made], changed)
    return state.rewrite({id(top): body}, {id(scope): (*scope.alloc_buffers, *[_stored(b) for b in made])}), made


@dataclass(frozen=True)
class _Names:
    """Names for what is made: blocks and tensors."""

    state: State
    block: Block
    scope: Block
    stem: str

    def __call__(self, what: str, places: Sequence[IterVar]) -> tuple[str, Buffer]:
        """A name of a block, and a tensor of int32 with an element for each place."""
        name = fresh_name(f"{self.block.name}_{what}", set(self.state.block_names()))
        tensor = fresh_name(f"{self.stem}_{what}", self.state.buffer_names(self.scope))
        assert isinstance(self.block.body, BufferStore)
        return name, Buffer(tensor, tuple([iv.dom.extent for iv in places]) or (const(1, "int32"),), self.block.body.buffer.dtype)


def _summed(named: tuple[str, Buffer], places: Sequence[IterVar], sums: Sequence[IterVar], term: Expr) -> Block:
    """A block that sums a term up for each place."""
    name, buffer = named
    fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in (*places, *sums)}
    at = _at([fresh[iv.var] for iv in places])
    step = binary("+", BufferLoad(buffer, at, buffer.dtype), substitute(term, fresh))
    iters = tuple([IterVar(fresh[iv.var], iv.dom, kind) for kind, of in (("spatial", places), ("reduce", sums)) for iv in of])
    return with_access(Block(name, iters, (), (), BufferStore(buffer, at, step), BufferStore(buffer, at, const(0, buffer.dtype))))


def _at(places: Sequence[Expr]) -> tuple[Expr, ...]:
    """Where the sum for some places is; that of none is the first."""
    return tuple(places) or (const(0, "int32"),)


def _stored(block: Block) -> Buffer:
    assert isinstance(block.body, BufferStore)
    return block.body.buffer


__all__ = ["Padded", "Paddings", "padded_of", "padding_of"]
