"""Sums of several terms: split_terms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from autosched.ir.expr import BinOp, BufferLoad, Cast, Expr, IntImm, Var, binary, cast, int_value
from autosched.ir.functor import free_vars, substitute
from autosched.ir.patterns import loads_from, update_of
from autosched.ir.region import with_access
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferStore, Constant, IterVar, PrimFunc, seq
from autosched.ir.value_bounds import dtype_bounds
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.diagonal import with_constant
from autosched.schedule.primitives.reductions.plain import plain_store, require_once, top_of

MOST = 16  # terms
BITS = 32


class Terms(ScheduleBase):
    """The primitive that gives every term of a sum a sum of its own."""

    @primitive
    def split_terms(self, block: BlockRV | str) -> list[BlockRV]:
        """Sums up every term of what a reduction takes in, apart, and puts the sums together: exact, modulo 2**32.

        A product of sums is the sum of the products of their addends. What is an element times a constant becomes a product
        with a tensor of that constant, which is part of the program; constants alone are added behind.

        Args:
            block: handle or name of an int32 reduction with +, alone in its loops, whose terms, of several, are products of
                int8 elements, such elements times constants that int8 holds, and constants.

        Returns:
            The blocks of the sums, in the order of the terms; the block itself puts them together.

        Raises:
            ScheduleError: another block, one term alone, or terms of another kind.

        Before::

            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + (T.Cast("int32", A[vi, vk]) - T.Cast("int32", B[vk])) * T.Cast("int32", B[vk])

        After ``sch.split_terms("C")``::

            C_term0 = T.sblock_alloc_buffer((16,), "int32")
            C_term1 = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 16):
                with T.sblock("C_term0"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C_term0[vi] = 0
                    C_term0[vi] = C_term0[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk])
            for i, k in T.grid(16, 16):
                with T.sblock("C_term1"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C_term1[vi] = 0
                    C_term1[vi] = C_term1[vi] + T.Cast("int32", B[vk]) * T.Cast("int32", B[vk])
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = C_term0[vi] - C_term1[vi]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            func, made = _split(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, func=func)
        return [self.block_rv(b) for b in made]


@dataclass(frozen=True)
class Term:
    """A constant times some int8 elements.

    Args:
        by: the constant.
        elements: none, one or two.
    """

    by: int
    elements: tuple[BufferLoad, ...]


def terms_of(block: Block) -> tuple[Term, ...] | None:
    """The terms of what a reduction with + takes in; None where they are of another kind, or one alone.

    Args:
        block: any.
    """
    store = block.body
    update = update_of(store) if isinstance(store, BufferStore) else None
    if block.init is None or update is None or update[0] != "+" or update[1].dtype != "int32":
        return None
    found = _addends(update[1])
    if found is None or not 1 < len(found) <= MOST or not any(len(t.elements) == 2 for t in found):
        return None
    low, high = dtype_bounds("int8")
    fit = all(abs(t.by) == 1 if len(t.elements) == 2 else not t.elements or low <= t.by <= high for t in found)
    return tuple([t for t in found if t.by]) if fit else None


def _addends(value: Expr) -> list[Term] | None:
    at = int_value(value)
    if at is not None:
        return [Term(at, ())]
    if isinstance(value, Cast) and isinstance(value.value, BufferLoad) and value.value.dtype == "int8":
        return [Term(1, (value.value,))]
    if not (isinstance(value, BinOp) and value.op in ("+", "-", "*") and value.dtype == "int32"):
        return None
    one, other = _addends(value.a), _addends(value.b)
    if one is None or other is None:
        return None
    if value.op == "*":
        made = [Term(a.by * b.by, (*a.elements, *b.elements)) for a in one for b in other]
        return made if all(len(t.elements) < 3 for t in made) else None
    return one + [Term(t.by if value.op == "+" else -t.by, t.elements) for t in other]


def _split(state: State, realize: BlockRealize) -> tuple[PrimFunc, list[Block]]:
    block = realize.block
    store, init, terms = plain_store(block), block.init, terms_of(block)
    if terms is None or not isinstance(init, BufferStore) or init.indices != store.indices or realize.predicate != TRUE:
        raise Refusal(f"block {block.name} sums up no several terms of int8 elements and constants", [block.ident], code="form")
    if any(int_value(iv.dom.min) != 0 or int_value(iv.dom.extent) is None for iv in block.iter_vars) or loads_from(
            init.value, store.buffer):
        raise Refusal(f"block {block.name} has iterators that do not begin at 0, or are of no known extent", [block.ident],
                      code="index")
    require_once(state, realize)
    scope = scope_of(state, block)
    constants = state.func.constants
    names, taken = set(state.block_names()), set(state.buffer_names(scope))
    made: list[Block] = []
    sums: list[Buffer] = []
    whole: Expr = init.value
    steps = prod(int_value(iv.dom.extent) or 1 for iv in block.iter_vars if iv.kind == "reduce")
    rest = sum(t.by for t in terms if not t.elements) * steps
    for term in (t for t in terms if t.elements):
        elements = term.elements
        if len(elements) == 1:
            constants, filled = _constant(_with(state, constants), block, elements[0], term.by)
            elements = (elements[0], filled)
        name, held = fresh_name(f"{block.name}_term{len(made)}", names), fresh_name(f"{store.buffer.name}_term{len(made)}", taken)
        names.add(name)
        taken.add(held)
        sums.append(replace(store.buffer, name=held, ident=type(store.buffer.ident)()))
        made.append(_sum(block, name, sums[-1], store, elements))
        load = BufferLoad(sums[-1], store.indices, "int32")
        minus = term.by < 0 and len(term.elements) == 2
        whole = load if int_value(whole) == 0 and not minus else binary("-" if minus else "+", whole, load)
    if rest:
        wrapped = (rest + (1 << BITS - 1)) % (1 << BITS) - (1 << BITS - 1)
        whole = binary("+", whole, IntImm(wrapped, "int32"))
    spatial = tuple([iv for iv in block.iter_vars if iv.kind == "spatial"])
    joined = with_access(Block(block.name, spatial, (), (), BufferStore(store.buffer, store.indices, whole), ident=block.ident))
    top = top_of(state, realize)
    nests = [own_nest(b) for b in made]
    body = state.rewrite({id(top): seq(*nests, own_nest(joined))}, {id(scope): (*scope.alloc_buffers, *sums)})
    return replace(state.func, body=body, constants=constants), made


def _with(state: State, constants: tuple[Constant, ...]) -> State:
    """The state of the program with further constants."""
    return state if constants == state.func.constants else State(replace(state.func, constants=constants))


def _constant(state: State, block: Block, element: BufferLoad, by: int) -> tuple[tuple[Constant, ...], BufferLoad]:
    """The program's constants with a tensor of one number, and its load at all steps and what the element is not moved by."""
    moved = {v for index in element.indices for v in free_vars(index)}
    over = [iv for iv in block.iter_vars if iv.kind == "reduce" or iv.var not in moved]
    array = np.full([int_value(iv.dom.extent) or 1 for iv in over], by, "int8")
    constants, buffer = with_constant(state, f"all_{by}" if by >= 0 else f"all_minus_{-by}", array)
    return constants, BufferLoad(buffer, tuple([iv.var for iv in over]), "int8")


def _sum(block: Block, name: str, buffer: Buffer, store: BufferStore, elements: tuple[BufferLoad, ...]) -> Block:
    fresh: dict[Var, Expr] = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in block.iter_vars}
    at = tuple([substitute(i, fresh) for i in store.indices])
    a, b = (substitute(cast("int32", e), fresh) for e in elements)
    step = binary("+", BufferLoad(buffer, at, "int32"), binary("*", a, b))
    iters = tuple([IterVar(_var(fresh[iv.var]), iv.dom, iv.kind) for iv in block.iter_vars])
    return with_access(Block(name, iters, (), (), BufferStore(buffer, at, step), BufferStore(buffer, at, IntImm(0, "int32"))))


def _var(value: Expr) -> Var:
    assert isinstance(value, Var)
    return value
