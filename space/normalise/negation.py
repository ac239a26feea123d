"""Differences: what is taken away is added as its negative, which the host makes of a parameter, or of a factor of a sum."""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Cast, Expr, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import has_loads, is_widened, update_of
from autosched.ir.stmt import Block, Buffer, BufferStore
from autosched.ir.value_bounds import ValueBounds
from autosched.schedule import Schedule
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.primitives.reductions.minus import pushed, takes_away
from autosched.schedule.primitives.reductions.negation import factors_of, products_away, subtrahends, sum_away
from autosched.schedule.primitives.reductions.terms import terms_of
from autosched.schedule.primitives.reductions.zero_terms import sum_term
from autosched.target import Target
from space.normalise.blocks import (
    device_block,
    device_blocks,
    elements_of,
    given,
    loads_of,
    pack_blocks,
    product_of,
    readers_of,
    steps_of,
    store_of,
    writer_of,
)
from space.normalise.copies import path_of, twice
from space.sites import WRITTEN_OUT, alu_ops

MOST = 16  # places of one block that take the same tensor away
DOUBLING = 15  # cycles of a vector that its negative by shifts and additions takes at most
LANES = 16  # about what a product sums up at once


def apply(sch: Schedule, target: Target) -> None:
    """Adds what stages, and what sums start with, take away: of int32 parameters, of sums of products, of stages."""
    # Readers first: what a sum starts with is taken away once the sum is.
    for name in [b.name for b in reversed(device_blocks(sch.func))]:
        differences(sch, name)


def differences(sch: Schedule, name: str) -> None:
    """Adds what a block takes away, and what the stages do that are made for it.

    Args:
        sch: of the program.
        name: of the block; nothing where it has been written out meanwhile.
    """
    ahead = [name]
    for _ in range(MOST):
        before = {b.name for b in device_blocks(sch.func)}
        if not ahead:
            break
        if ahead[0] in before:  # and not written out where it was taken away
            _differences(sch, ahead[0])
        ahead = [*ahead[1:], *(b.name for b in device_blocks(sch.func) if b.name not in before)]


def products(sch: Schedule, target: Target) -> None:
    """Adds products of a negative factor, made by the host, where a sum takes products away."""
    for name in [b.name for b in device_blocks(sch.func)]:
        product(sch, name)


def product(sch: Schedule, name: str) -> None:
    """Adds products of a negative factor, made by the host, where one sum takes products away.

    Args:
        sch: of the program.
        name: of the block.
    """
    away = sum_away(device_block(sch, name))
    pair = None if away is None else factors_of(away)
    own = {f.buffer for f in pair or ()} & {*given(sch.func)}
    if own and pair is not None and pair[0].buffer is not pair[1].buffer:
        sch.host_stage(sch.negate_sum(sch.get_sblock(name), _easiest(sch, [*own]).name))


def narrow_all(sch: Schedule) -> None:
    """``narrow`` of every block.

    Args:
        sch: of the program.
    """
    for block in device_blocks(sch.func):
        narrow(sch, block.name)


def narrow(sch: Schedule, name: str) -> None:
    """Adds the negatives of elements of int8 that a block takes away and the program computes.

    Args:
        sch: of the program.
        name: of the block.
    """
    ahead = [name]
    for _ in range(MOST):
        if not ahead:
            break
        value, params = store_of(device_block(sch, ahead[-1])).value, set(given(sch.func))
        away = [e.b for e in walk_expr(value) if isinstance(e, BinOp) and e.op == "-" and is_widened(e.b)]
        found = next((e for e in away if isinstance(e, Cast) and not params & {x.buffer for x in walk_expr(e) if
                                                                             isinstance(x, BufferLoad)}), None)
        if found is None:
            ahead.pop()
            continue
        part = ahead.pop()
        made = sch.get(sch.decompose_value(sch.get_sblock(part), path_of(value, found) or []))
        assert isinstance(made, Block)
        ahead += [b for b in _doubled(sch, part, made) if b != made.name]


def takes_away_loads(value: Expr) -> bool:
    """Whether a value takes away what depends on a tensor, which the ALU does not.

    Args:
        value: any expression.
    """
    return any(isinstance(e, BinOp) and e.op == "-" and e.dtype == "int32" and has_loads(e.b) for e in walk_expr(value))


def _differences(sch: Schedule, name: str) -> None:
    """Adds what a block takes away."""
    _apart_by_step(sch, device_block(sch, name))
    if any(b.name == name for b in device_blocks(sch.func)):
        _at_each_step(sch, device_block(sch, name))
    for part in _inwards(sch, name):
        for buffer in dict.fromkeys(e.buffer for value in _values(device_block(sch, part)) for e in subtrahends(value)):
            try:
                for block in _apart(sch, part, buffer):
                    _added(sch, block, buffer)
            except ScheduleError:
                continue  # what is in the way of a schedule, analysis says


def _apart_by_step(sch: Schedule, block: Block) -> None:
    """Writes a short sum or extremum out that takes in differences: each of them is a stage of its own, then.

    Of a sum of several products that would multiply element by element, which the GEMM does step by step (``terms.py``).
    """
    params = set(given(sch.func))
    value = store_of(block).value
    taken = [e.b for e in walk_expr(value) if isinstance(e, BinOp) and e.op == "-" and e.dtype == "int32" and has_loads(e.b)]
    if block.init is None or product_of(block) is not None or update_of(store_of(block)) is None or terms_of(block) is not None:
        return
    steps = steps_of(block)
    if steps <= WRITTEN_OUT and any(not (isinstance(e, BufferLoad) and e.buffer in params) for e in taken):
        try:
            sch.expand_reduction(sch.get_sblock(block.name))
        except ScheduleError:
            return  # what is in the way of a schedule, analysis says


def _at_each_step(sch: Schedule, block: Block) -> None:
    """Adds negatives of parameters at the steps of a sum or extremum too long to be written out, whatever else it does with them.

    Of such as the GEMM sums up the factors are made negative.
    """
    update = update_of(store_of(block)) if block.init is not None else None
    if update is None or any(isinstance(e, BinOp) and e.op == "*" and has_loads(e.a) and has_loads(e.b)
                             for e in walk_expr(update[1])):
        return
    if any(map(takes_away, walk_expr(update[1]))):
        with suppress(ScheduleError):  # what is in the way of a schedule, analysis says
            sch.push_negation(sch.get_sblock(block.name))
    params, value = set(given(sch.func)), store_of(device_block(sch, block.name)).value
    away = [e.b for e in walk_expr(value) if isinstance(e, BinOp) and e.op == "-" and e.dtype == "int32"]
    taken = [e.value if isinstance(e, Cast) and is_widened(e) else e for e in away]
    for buffer in dict.fromkeys(x.buffer for x in taken if isinstance(x, BufferLoad)):
        if buffer in params:
            sch.host_stage(sch.add_negative(sch.get_sblock(block.name), buffer.name))


def _inwards(sch: Schedule, name: str) -> list[str]:
    """The blocks in place of one that takes values away: they take away sums and parameters, and no stage."""
    done: list[str] = []
    ahead = [name]
    for _ in range(MOST):
        if not ahead:
            break
        part = ahead.pop()
        try:
            more = _step(sch, part)
        except ScheduleError:
            more = None  # what is in the way of a schedule, analysis says
        if more is None:
            done.append(part)
        else:
            ahead += [*more, *([] if part in more else [part])]
    return [*reversed(ahead), *done]


def _step(sch: Schedule, name: str) -> list[str] | None:
    """Moves a minus of a block into what it takes away; the blocks that then take it away, None where nothing is left to do."""
    block = device_block(sch, name)
    value = store_of(block).value
    if block.init is not None:
        return None
    found = next((e for e in walk_expr(value) if takes_away(e)), None)
    if found is not None:
        try:
            pushed(sch.func, block)
        except Refusal:
            made = sch.get(sch.decompose_value(sch.get_sblock(name), [*(path_of(value, found) or []), 1]))
            assert isinstance(made, Block)
            if {x.buffer for x in loads_of(made)} <= set(given(sch.func)):
                return _by_host(sch, name, made)
            return _doubled(sch, name, made)
        sch.push_negation(sch.get_sblock(name))
        return []
    params = set(given(sch.func))
    for pair in products_away(value):
        mine = [f.buffer for f in pair if f.buffer in params]
        if mine:
            sch.host_stage(sch.negate_factor(sch.get_sblock(name), _easiest(sch, mine).name))
            return []
    stages = {store_of(b).buffer: b for b in device_blocks(sch.func) if b.init is None}
    away = [e for e in subtrahends(value) if e.buffer in stages and e.indices == store_of(block).indices]
    return _written_out(sch, name, stages[away[0].buffer]) if away else None


def _written_out(sch: Schedule, name: str, stage: Block) -> list[str]:
    """Takes away what a stage makes where a block takes the stage away, or its negative where that is dearer."""
    buffer = store_of(stage).buffer
    away = _apart(sch, name, buffer)
    if len(away) == len(readers_of(sch.func, buffer)):
        sch.compute_inline(sch.get_sblock(stage.name))
    elif cycles_of(sch, stage) > DOUBLING:
        sch.negate_by_doubling(sch.get_sblock(stage.name))
    else:
        taking = [sch.get_sblock(b) for b in away]
        sch.compute_inline(sch.recompute_at_consumers(sch.get_sblock(stage.name), taking)[1])
    return away


def _by_host(sch: Schedule, name: str, made: Block) -> list[str]:
    """Lets the host make what a block makes of parameters, and its negative for where another block takes it away."""
    buffer = store_of(made).buffer
    away = _apart(sch, name, buffer)
    sch.host_stage(sch.get_sblock(made.name))
    for block in away:
        sch.host_stage(sch.add_negative(sch.get_sblock(block), buffer.name))
    return away


def _doubled(sch: Schedule, name: str, made: Block) -> list[str]:
    """Adds the negative of what a block makes where another one takes it away."""
    away = _apart(sch, name, store_of(made).buffer)
    sch.negate_by_doubling(sch.get_sblock(made.name))
    return [*away, made.name]


def cycles_of(sch: Schedule, block: Block) -> int:
    """About what it costs to make a vector of what a block stores once more.

    Args:
        sch: of the program.
        block: of it.
    """
    steps = steps_of(block)
    if product_of(block) is not None:
        return -(-steps // LANES)
    imm, tensor = alu_ops(store_of(block).value)
    makers = {store_of(b).buffer: b for b in device_blocks(sch.func)}
    read = dict.fromkeys(x.buffer for x in loads_of(block))
    return (imm + 2 * tensor + sum(cycles_of(sch, makers[b]) if b in makers else 1 for b in read)) * steps


def _apart(sch: Schedule, name: str, buffer: Buffer) -> list[str]:
    """The blocks that take a tensor away and do no more with it, in place of one that may do more."""
    found: list[str] = []
    for _ in range(MOST):
        block = device_block(sch, name)
        if _only_taken_away(block, buffer):
            return [*found, name]
        value = store_of(block).value
        taken = next((e for e in walk_expr(value) if isinstance(e, BinOp) and any(
            x is e.b and x.buffer is buffer for x in subtrahends(e))), None)
        if block.init is not None or taken is None:
            break
        path = path_of(value, taken)
        made = sch.get(sch.decompose_value(sch.get_sblock(name), path or [0]))
        if path:
            assert isinstance(made, Block)
            found += _apart(sch, made.name, buffer)
    return found


def _added(sch: Schedule, name: str, buffer: Buffer) -> None:
    made = writer_of(sch.func, buffer)
    if made is None:
        sch.host_stage(sch.add_negative(sch.get_sblock(name), buffer.name))
        return
    twice(sch, made)
    factor = factor_of(sch, device_block(sch, made.name))
    readers = readers_of(sch.func, buffer)
    away = [b.name for b in readers if _only_taken_away(b, buffer)]
    if name not in away:
        return
    handle, plain = sch.get_sblock(made.name), sums_bytes(device_block(sch, made.name))
    if (factor is None and not plain) or (len(away) < len(readers) and cycles_of(sch, made) > DOUBLING):
        sch.negate_by_doubling(handle)
        return
    if len(away) < len(readers):
        # What others add is another sum than what these take away.
        handle = sch.recompute_at_consumers(handle, [sch.get_sblock(b) for b in away])[1]
    if factor is None:
        sch.scale_terms(handle)  # the GEMM multiplies by -1 what it would by 1
    else:
        sch.host_stage(sch.negate_sum(handle, factor.name))


def _values(block: Block) -> list[Expr]:
    """What a block stores, and what it starts with."""
    return [store_of(block).value, *([block.init.value] if isinstance(block.init, BufferStore) else [])]


def _only_taken_away(block: Block, buffer: Buffer) -> bool:
    """Whether a block does no more with a tensor than to take its elements away."""
    taken = sum(e.buffer is buffer for value in _values(block) for e in subtrahends(value))
    return 0 < taken == sum(x.buffer is buffer for x in loads_of(block))


def factor_of(sch: Schedule, block: Block) -> Buffer | None:
    """The factor of a sum of products that the host makes negative, if any.

    Args:
        sch: of the program.
        block: of it.
    """
    product = product_of(block)
    if product is None or product.factors[0].buffer is product.factors[1].buffer:
        return None
    params = {*given(sch.func), *_of_constants(sch)}
    factors = [f.buffer for f in product.factors if f.buffer in params]
    return _easiest(sch, factors) if factors else None


def _of_constants(sch: Schedule) -> set[Buffer]:
    """The tensors that the host fills with constants of the program alone."""
    constants = {c.buffer for c in sch.func.constants}
    return {store_of(b).buffer for b in pack_blocks(sch) if loads_of(b) and constants.issuperset(x.buffer for x in loads_of(b))}


def sums_bytes(block: Block) -> bool:
    """Whether a block sums up elements of int8 as they are, from a constant.

    Args:
        block: any.
    """
    if not isinstance(block.init, BufferStore) or int_value(block.init.value) is None:
        return False
    try:
        return is_widened(sum_term(block)[1])
    except Refusal:
        return False


def _easiest(sch: Schedule, factors: list[Buffer]) -> Buffer:
    """Of some factors the one that the host makes negative: one without -128, or else the smallest."""
    known = ValueBounds(sch.func)
    return min(factors, key=lambda b: (known.of_buffer(b)[0] == -128, elements_of(b)))
