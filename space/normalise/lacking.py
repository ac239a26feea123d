"""Operations that the ALU does not have: products with constants, bits of values, choices between constants.

Programs whose form does without them, as products of int8 elements with a constant do, never come here.
"""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Expr
from autosched.ir.functor import free_vars, walk_expr
from autosched.ir.patterns import choice_of, has_loads, is_widened, loads_in, summed
from autosched.ir.stmt import Block, Buffer, BufferStore, PrimFunc
from autosched.ir.value_bounds import dtype_bounds
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.bits import chosen, masked
from autosched.schedule.primitives.reductions.doubling import NEGATIVE, constant_factor
from autosched.schedule.primitives.reductions.factors import is_narrow
from autosched.schedule.primitives.reductions.operand import reads_within
from autosched.schedule.primitives.reductions.switches import switched, switches
from autosched.schedule.primitives.reductions.values import threshold
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, store_of, writer_of
from space.normalise.copies import path_of
from space.normalise.negation import DOUBLING, cycles_of, factor_of

MOST = 64  # such operations in one block
ADDITION = 3  # cycles of a vector that it takes to shift it and to add another one


def lacks(func: PrimFunc, target: Target, formed: bool = False) -> bool:
    """Whether a program has an operation that a machine's ALU does not have and ``apply`` can write otherwise.

    Args:
        func: the program, in form or not.
        target: the machine.
        formed: whether it is in form, in which no stage is left for the GEMM to make products of.
    """
    return any(isinstance(b.body, BufferStore) and in_value(b.body.value, target, formed and b.init is None)
               for b in device_blocks(func))


def in_value(value: Expr, target: Target, formed: bool = False) -> bool:
    """Whether a value has such an operation.

    Args:
        value: any expression.
        target: the machine.
        formed: whether the GEMM makes no product of int8 elements and constants of it.
    """
    return _first(value, target, formed) is not None


def compares(func: PrimFunc) -> bool:
    """Whether a stage chooses by what is equal, or by an element that it compares with its place: in form that is not seen.

    Args:
        func: the program, as its user wrote it.
    """
    every = (e for b in device_blocks(func) if b.init is None for e in walk_expr(store_of(b).value))
    return any(c is not None and threshold(c[0]) is None and (chosen(e) is not None or switches(e)) for e in every
               for c in [choice_of(e)])


def apply(sch: Schedule, target: Target, formed: bool = False) -> None:
    """Writes what the ALU lacks in shifts, sums, minima and maxima, from the inside out.

    Args:
        sch: of the program.
        target: the machine.
        formed: as for ``lacks``.
    """
    for block in device_blocks(sch.func):
        term = summed(block)
        if term is not None and _counts(sch, block, term):
            path = path_of(store_of(block).value, term) or []
            with suppress(ScheduleError):  # what is in the way of a schedule, analysis says
                sch.narrow_value(sch.get_sblock(block.name), path)
                sch.decompose_value(sch.get_sblock(block.name), [*path, 0], False)
    for block in device_blocks(sch.func):
        if _narrow(sch, block):
            with suppress(ScheduleError):  # what has wrapped around already stays
                sch.widen_block(sch.get_sblock(block.name))
                sch.simplify_value(sch.get_sblock(block.name))
        rewritten(sch, block.name, target, formed and block.init is None)


def _counts(sch: Schedule, block: Block, term: Expr) -> bool:
    """Whether a sum takes in int8 numbers that choices make of less than all indices of the result: stages of theirs have all."""
    if not any(chosen(e) is not None or switches(e) for e in walk_expr(term)):
        return False
    own = {iv.var for iv in block.iter_vars if iv.kind == "spatial"}
    read = [own & {v for index in x.indices for v in free_vars(index)} for x in loads_in(term)]
    return any(len(some) < len(own) for some in read) and is_narrow(sch.func, block, term) and reads_within(block, term)


def _narrow(sch: Schedule, block: Block) -> bool:
    """Whether a stage chooses by data in int8, or takes away in int8 what it computes, which is written otherwise in int32."""
    value = store_of(block).value
    if block.init is not None or value.dtype != "int8":
        return False
    return any(e.dtype == "int8" and (switched(sch.func, block, e) is not None or (
        isinstance(e, BinOp) and e.op == "-" and has_loads(e.b) and not isinstance(e.b, BufferLoad))) for e in walk_expr(value))


def rewritten(sch: Schedule, name: str, target: Target, formed: bool = False) -> None:
    """Writes what the ALU lacks in one block otherwise, and in the stages that are made of its parts.

    Args:
        sch: of the program.
        name: of the block.
        target: the machine.
        formed: as for ``in_value``.
    """
    ahead = [name]
    for _ in range(MOST):
        if not ahead:
            break
        try:
            made = _step(sch, ahead[-1], target, formed)
        except ScheduleError:
            made = None  # what is in the way of a schedule, analysis says
        if made is None:
            ahead.pop()
        else:
            ahead += made


def _step(sch: Schedule, name: str, target: Target, formed: bool) -> list[str] | None:
    """Writes one operation of a block otherwise; the stages made of its parts, None where nothing is left to do."""
    value = store_of(device_block(sch, name)).value
    found = _first(value, target, formed)
    if found is None or (switches(found) and switched(sch.func, device_block(sch, name), found) is None):
        return None
    path, block = path_of(value, found) or [], sch.get_sblock(name)
    factor = constant_factor(found)
    if masked(found) is not None:
        sch.mask_by_shifts(block, path)
    elif switches(found):
        sch.choose_by_switches(block, path)
        with suppress(ScheduleError):  # what was chosen in int8 is limited in int32
            sch.simplify_value(block)
    elif factor is None:
        sch.choose_by_clip(block, path)
    elif isinstance(factor[0], BufferLoad):
        sch.multiply_by_doubling(block, path, _negative(sch, factor[0].buffer))
    else:
        made = sch.get(sch.decompose_value(block, path_of(value, factor[0]) or []))
        assert isinstance(made, Block)
        return [made.name]
    return []


def _negative(sch: Schedule, buffer: Buffer) -> int:
    """How many additions the negative of a tensor costs about: less where the host makes it, or a factor of it, negative."""
    made = writer_of(sch.func, buffer)
    if made is None:
        return 1
    again = cycles_of(sch, made)
    return NEGATIVE if factor_of(sch, made) is None or again > DOUBLING else min(NEGATIVE, 1 + again // ADDITION)


def _first(value: Expr, target: Target, formed: bool) -> Expr | None:
    """The first operation that the ALU lacks in a value."""
    return next((e for e in walk_expr(value) if _is_lacking(e, target, formed)), None)


def _is_lacking(e: Expr, target: Target, formed: bool) -> bool:
    factor = constant_factor(e)
    if factor is None:
        if masked(e) is not None or chosen(e) is not None:
            return True
        return switches(e) and not (isinstance(e, BinOp) and target.multiplies)
    low, high = dtype_bounds("int8")
    # The functional simulator multiplies; the GEMM does int8 elements.
    by_gemm = not formed and is_widened(factor[0]) and low <= factor[1] <= high
    return factor[1] != 0 and not target.multiplies and not by_gemm
