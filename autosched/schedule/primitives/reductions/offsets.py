"""Operands with an offset, as quantization with zero points has them: split_offset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from autosched.ir.expr import BinOp, BufferLoad, Expr, IntImm, Var, binary, int_value
from autosched.ir.functor import free_vars, rewrite, substitute
from autosched.ir.patterns import has_loads, is_widened, loads_from, loads_in, update_of
from autosched.ir.region import with_access
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferStore, IterVar, Stmt, seq
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.analysis.one_to_one import injective
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import require_once, top_of


class Offsets(ScheduleBase):
    """The primitive that takes offsets out of sums of products."""

    @primitive
    def split_offset(self, block: BlockRV | str) -> BlockRV:
        """Sums up apart what a constant added to an operand contributes to a sum of products: it depends on the other one only.

        The sum starts with it, and multiplies the operands themselves. What is read of tensors is as good as a constant where no
        step of the sum moves it: zero points for each channel, or each row; and so is what each step reads beside an int8
        element, of tensors that are wider. Where the operand is taken away from it (``z - w``), its products are taken away.

        Args:
            block: handle or name of a block alone in its loops that adds up products of int32 or wider values, of which a
                factor is something plus or minus a constant, or if there is none, what no reduction iterator moves, or such
                less something; or an int8 element plus or minus what is none. Of two such factors it is the first.

        Returns:
            the block of the new sum, over all reduction iterators, with an element for each place of the other factor and of
            what is added.

        Raises:
            ScheduleError: another body, or no factor with a constant; another factor that no spatial iterator moves.

        Before::

            for i, j, k in T.grid(8, 16, 4):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = 0
                    C[vi, vj] = C[vi, vj] + (T.Cast("int32", A[vi, vk]) - 3) * T.Cast("int32", W[vj, vk])

        After ``sch.split_offset("C")``::

            C_offset = T.sblock_alloc_buffer((16,), "int32")
            for j, k in T.grid(16, 4):
                with T.sblock("C_offset"):
                    vj, vk = T.axis.remap("SR", [j, k])
                    with T.init():
                        C_offset[vj] = 0
                    C_offset[vj] = C_offset[vj] + T.Cast("int32", W[vj, vk]) * -3
            for i, j, k in T.grid(8, 16, 4):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = C_offset[vj]
                    C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _split(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


class Offset(NamedTuple):
    """A factor of a sum of products with something added to it, or taken away from something.

    Args:
        operand: what each step multiplies.
        by: what is added to it, or to its negative.
        other: the other factor.
        away: whether the operand is taken away: ``by - operand``.
    """

    operand: Expr
    by: Expr
    other: Expr
    away: bool = False


def offset_of(block: Block) -> Offset | None:
    """The factor with an offset of a sum of products; None of any other block.

    Constants come first, then what no step moves, then what is read beside an int8 element; what operands are taken away from
    comes last, for then the sum takes its products away.

    Args:
        block: any.
    """
    store = block.body
    update = update_of(store) if isinstance(store, BufferStore) else None
    if block.init is None or update is None or update[0] != "+" or update[1].dtype not in ("int32", "int64"):
        return None
    term = update[1]
    if not isinstance(store, BufferStore) or not (isinstance(term, BinOp) and term.op == "*"):
        return None
    steps = {iv.var for iv in block.iter_vars if iv.kind == "reduce"}
    own = store.buffer

    def kept(operand: Expr, by: Expr) -> bool:
        return bool(steps & set(free_vars(operand))) and not steps & set(free_vars(by)) and not loads_from(by, own)

    def beside(operand: Expr, by: Expr) -> bool:
        return is_widened(operand) and has_loads(by) and all(x.dtype != "int8" for x in loads_in(by))

    for away, is_offset in ((False, None), (False, kept), (False, beside), (True, kept), (True, beside)):
        for one, other in ((term.a, term.b), (term.b, term.a)):
            if isinstance(one, BinOp) and one.op in ("+", "-"):
                found = _shifted(one) if is_offset is None else _parted(one, is_offset, away)
                if found is not None:
                    return None if int_value(other) is not None else Offset(*found, other, away)
    return None


def _shifted(value: BinOp) -> tuple[Expr, Expr] | None:
    """An operand and the constant that is added to it."""
    right, left = int_value(value.b), int_value(value.a)
    if right is not None:
        return value.a, IntImm(right if value.op == "+" else -right, value.dtype)
    return (value.b, value.a) if left is not None and value.op == "+" else None


def _parted(value: BinOp, is_offset: Callable[[Expr, Expr], bool], away: bool) -> tuple[Expr, Expr] | None:
    """An operand and what is added to it, or what it is taken away from where that is asked for."""
    if away:
        from_zero = int_value(value.a) == 0
        return (value.b, value.a) if value.op == "-" and not from_zero and is_offset(value.b, value.a) else None
    if is_offset(value.a, value.b):
        return value.a, value.b if value.op == "+" else binary("-", IntImm(0, value.b.dtype), value.b)
    return (value.b, value.a) if value.op == "+" and is_offset(value.b, value.a) else None


def _split(state: State, realize: BlockRealize) -> tuple[Stmt, Block]:
    block = realize.block
    found = offset_of(block)
    store, init = block.body, block.init
    constant = None if found is None else int_value(found.by)
    fits = found is not None and -(2**31) <= (constant or 0) < 2**31
    if found is None or not fits or not isinstance(store, BufferStore) or not isinstance(init, BufferStore):
        raise Refusal(f"block {block.name} adds up no products of which a factor has a constant added", [block.ident],
                      code="form")
    operand, offset, other, away = found
    if init.indices != store.indices or loads_from(init.value, store.buffer):
        raise Refusal(f"block {block.name} starts with something else than a value of its own element", [block.ident],
                      code="form")
    used = {*free_vars(other), *free_vars(offset)}
    places = [iv for iv in block.iter_vars if iv.kind == "spatial" and iv.var in used]
    sums = [iv for iv in block.iter_vars if iv.kind == "reduce"]
    if not places or any(int_value(iv.dom.min) != 0 or int_value(iv.dom.extent) is None for iv in (*places, *sums)):
        raise Refusal(f"the other factor of block {block.name} is moved by no spatial iterator from 0", [block.ident],
                      code="index")
    if not injective(store.indices, {iv.var: iv.dom for iv in block.iter_vars if iv.kind == "spatial"}):
        raise Refusal(f"several iterations of block {block.name} write one element of {store.buffer.name}: each would start it "
                      "with an offset of its own", [block.ident], code="index")
    if realize.predicate != TRUE:
        raise Refusal(f"block {block.name} runs for a part of its iterations only", [block.ident], code="domain")
    require_once(state, realize)
    top = top_of(state, realize)
    scope = scope_of(state, block)
    dtype = store.buffer.dtype
    name = fresh_name(f"{block.name}_offset", set(state.block_names()))
    shape = tuple([iv.dom.extent for iv in places])
    buffer = Buffer(fresh_name(f"{store.buffer.name}_offset", state.buffer_names(scope)), shape, dtype)
    fresh: dict[Var, Expr] = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in (*places, *sums)}
    at = tuple([fresh[iv.var] for iv in places])
    start = BufferStore(buffer, at, IntImm(0, dtype))
    by = substitute(offset, fresh) if constant is None else IntImm(constant, other.dtype)
    step = binary("+", BufferLoad(buffer, at, dtype), binary("*", substitute(other, fresh), by))
    iters = tuple([IterVar(_var(fresh[iv.var]), iv.dom, iv.kind) for iv in (*places, *sums)])
    made = with_access(Block(name, iters, (), (), BufferStore(buffer, at, step), start))
    begins = binary("+", init.value, BufferLoad(buffer, tuple([iv.var for iv in places]), dtype))
    if away and isinstance(other, BinOp) and other.op == "-":
        away, other = False, binary("-", other.b, other.a)  # what is taken away twice is added
    plain = binary("-" if away else "+", BufferLoad(store.buffer, store.indices, dtype), binary("*", operand, other))
    new = with_access(replace(block, init=BufferStore(store.buffer, store.indices, begins),
                              body=BufferStore(store.buffer, store.indices, plain)))
    changed = rewrite(top, realize, replace(realize, block=new))
    return state.rewrite({id(top): seq(own_nest(made), changed)}, {id(scope): (*scope.alloc_buffers, buffer)}), made


def _var(value: Expr) -> Var:
    assert isinstance(value, Var)
    return value
