"""Parameters that are taken away within products: complement_factor. Products of what is added are the GEMM's."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.expr import BinOp, BufferLoad, Cast, binary, cast, const, int_value
from autosched.ir.functor import rewrite
from autosched.ir.patterns import is_widened, loads_from, loads_in, summed
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Stmt, seq
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import filling, own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.negation import require_given
from autosched.schedule.primitives.reductions.plain import plain_store, top_of
from autosched.schedule.primitives.reductions.zero_terms import Replaced


class Complements(ScheduleBase):
    """The primitive that adds the complement of a factor where the factor was taken away from something."""

    @primitive
    def complement_factor(self, block: BlockRV | str, read_buffer_index: int | str | Buffer) -> BlockRV:
        """Adds the complement of a parameter, made by a stage of its own, where a factor of a sum's products takes it away.

        ``z - w`` is ``(-1 - w) + (z + 1)``, exact modulo 2**32. The complement of an int8 is an int8, as the negative of -128
        is not; what is left beside it is an offset, as zero points are (``split_offset``).

        Args:
            block: handle or name of a block with init, alone in its loops, that adds up int32 products of which a factor is
                something less an element of the parameter, cast to int32.
            read_buffer_index: the parameter, of int8, that nobody writes: position among what the block reads, name, or buffer.

        Returns:
            The block of the stage.

        Raises:
            ScheduleError: another body; a parameter that is read otherwise, or that somebody writes.

        Before::

            for i, j, k in T.grid(8, 16, 4):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = 0
                    C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * (z[vj] - T.Cast("int32", W[vj, vk]))

        After ``sch.complement_factor("C", "W")``::

            W_complement = T.sblock_alloc_buffer((16, 4), "int8")
            for i0, i1 in T.grid(16, 4):
                with T.sblock("W_complement"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    W_complement[v0, v1] = T.Cast("int8", -1 - T.Cast("int32", W[v0, v1]))
            for i, j, k in T.grid(8, 16, 4):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = 0
                    C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * (T.Cast("int32", W_complement[vj, vk]) + (z[vj] + 1))
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        operand = realize.block.reads[self.block_region_buffer(realize.block, read_buffer_index, "read")].buffer
        try:
            body, made = _complemented(state, realize, operand)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


def taken_from(block: Block) -> list[BinOp]:
    """The factors of what a sum takes in that are something less an int8 element, cast to int32: ``z - w``.

    Of nothing but the negative of an element there is no offset.

    Args:
        block: any.
    """
    term = summed(block)
    if not isinstance(term, BinOp) or term.op != "*" or term.dtype != "int32":
        return []
    return [f for f in (term.a, term.b) if isinstance(f, BinOp) and f.op == "-" and int_value(f.a) != 0 and is_widened(f.b)]


def _complemented(state: State, realize: BlockRealize, operand: Buffer) -> tuple[Stmt, Block]:
    block = realize.block
    scope = scope_of(state, block)
    require_given(state, block, operand, "int8")
    store, init = block.body, block.init
    found = [(f, load) for f in taken_from(block) if isinstance(f.b, Cast) and isinstance(load := f.b.value, BufferLoad)
             and load.buffer is operand]
    if len(found) != 1 or not isinstance(store, BufferStore) or not isinstance(init, BufferStore):
        raise Refusal(f"{operand.name} is not what one factor of the products of block {block.name} takes away "
                      f"((x - cast(int32, {operand.name}[..])) * y)", [block.ident], code="form")
    factor, load = found[0]
    if sum(x.buffer is operand for x in loads_in(store.value)) != 1 or loads_from(init.value, operand):
        raise Refusal(f"block {block.name} reads {operand.name} more than once", [block.ident], code="form")
    plain_store(block)
    top = top_of(state, realize)
    name = fresh_name(f"{operand.name}_complement", {*state.block_names(), *state.buffer_names(scope)})
    made = Buffer(name, operand.shape, "int8")
    stage = filling(name, made, lambda at: cast("int8", binary(
        "-", const(-1), cast("int32", BufferLoad(operand, at, "int8")))))
    raised = binary("+", cast("int32", BufferLoad(made, load.indices, "int8")), binary("+", factor.a, const(1)))
    new = with_access(replace(block, body=BufferStore(
        store.buffer, store.indices, Replaced(factor, raised).visit_expr(store.value))))
    changed = rewrite(top, realize, replace(realize, block=new))
    return state.rewrite({id(top): seq(own_nest(stage, "i"), changed)}, {id(scope): (*scope.alloc_buffers, made)}), stage
