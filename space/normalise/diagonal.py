"""Filters of one channel each, and products element by element: weights become diagonal, so that the GEMM computes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, int_value
from autosched.ir.functor import expr_children, free_vars, walk_expr
from autosched.ir.patterns import has_loads
from autosched.ir.stmt import Block, Buffer, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.negation import factors_of
from autosched.target import Target
from space.normalise.blocks import (
    device_block,
    device_blocks,
    elements_of,
    extents,
    filled,
    given,
    product_of,
    store_of,
    unfit,
    written,
)

MOST = 16  # products of one value
REPEATED = 8  # times that what the program makes is multiplied, from which on its diagonal is less to make than another to load


def computed(func: PrimFunc) -> bool:
    """Whether a stage multiplies two int8 elements that the program makes.

    Args:
        func: the program.
    """
    made = written(func)
    return any(all(f.buffer in made for f in factors) for b in device_blocks(func) if b.init is None
               for _, factors in _products(store_of(b).value))


def remains(func: PrimFunc) -> bool:
    """Whether a stage of a program in form multiplies elements by each other still, as only the functional simulator does.

    Args:
        func: the program.
    """
    return any(isinstance(e, BinOp) and e.op == "*" and has_loads(e.a) and has_loads(e.b)
               for b in device_blocks(func) if b.init is None for e in walk_expr(store_of(b).value))


def apart(sch: Schedule, target: Target, made: bool = False) -> None:
    """Gives products of int8 elements, of which the host has one, stages of their own.

    Args:
        sch: of the program.
        target: the machine.
        made: whether also those of which the program makes both.
    """
    params = {store_of(b).buffer for b in device_blocks(sch.func)} if made else set()
    params |= {*given(sch.func)} | filled(sch)
    for name in [b.name for b in device_blocks(sch.func) if b.init is None]:
        for _ in range(MOST):
            value = store_of(device_block(sch, name)).value
            paths = [path for path, factors in _products(value) if path and {f.buffer for f in factors} & params]
            if not paths:
                break
            try:
                sch.decompose_value(sch.get_sblock(name), paths[0])
            except ScheduleError:
                break  # what is in the way of a schedule, analysis says


def _products(value: Expr, path: tuple[int, ...] = ()) -> list[tuple[list[int], tuple[BufferLoad, BufferLoad]]]:
    """Where in a value two int8 elements are multiplied, and these."""
    factors = factors_of(value)
    if factors is not None:
        return [(list(path), factors)]
    if isinstance(value, BufferLoad):
        return []
    return [found for n, child in enumerate(expr_children(value)) for found in _products(child, (*path, n))]


def apply(sch: Schedule, target: Target, made: bool = False) -> None:
    """Makes a packed product, or a sum of such, a matrix product where the lanes of the result are the lanes of both operands.

    Args:
        sch: of the program.
        target: the machine.
        made: whether also where the program makes both factors: of one of them the GEMM makes the diagonal.

    Raises:
        ScheduleError: both operands are one tensor, at other places or one that the program computes.
    """
    lanes = target.config.block_out
    if lanes != target.config.block_in:
        return
    for block in device_blocks(sch.func):
        factors = _factors(block)
        store = store_of(block)
        if factors is None or not isinstance(store.indices[-1], Var):
            continue
        lane = store.indices[-1]
        data, weight = factors
        if extents(block).get(lane) != lanes or data.indices[-1] is not lane or weight.indices[-1] is not lane:
            continue
        packs, stored = filled(sch), written(sch.func)
        mine = [f.buffer in packs for f in factors]
        smaller = _smaller(factors, mine, stored)
        by_gemm = smaller or (made and not any(mine))
        if not by_gemm and data.buffer is weight.buffer and data.indices != weight.indices:
            raise unfit(f"block {block.name} multiplies elements of one tensor by others of it; as data and "
                        "as weight it lies otherwise: give it to the program twice, as two parameters")
        # The weight is what the host lays out, and of two such what has fewer elements: it is what becomes larger.
        if (mine == [True, False]) != smaller or (mine[0] == mine[1] and elements_of(data.buffer) < elements_of(weight.buffer)):
            data, weight = weight, data
        given_data = data.buffer not in stored | packs and weight.buffer in stored
        if int_value(weight.buffer.shape[-1]) != lanes or (given_data and not made):
            continue  # it is as wide as an element by chance, a part of something or a whole: it is laid out in elements first
        rows = set(free_vars(store.indices[-2])) if target.config.batch > 1 and len(store.indices) > 1 else set()
        if rows & set(free_vars(weight)):
            continue  # all rows of an element are multiplied by one diagonal: what differs from row to row is none
        axis = next(k for k, iv in enumerate(block.iter_vars) if iv.var is lane)
        diagonal = sch.diagonalize(sch.get_sblock(block.name), axis, weight.buffer.name)
        if by_gemm:
            sch.diagonal_by_gemm(diagonal)


def _smaller(factors: Sequence[BufferLoad], mine: Sequence[bool], stored: Collection[Buffer]) -> bool:
    """Whether the program makes so much less of a product than the host lays out that it makes the diagonal as well.

    Args:
        factors: the two that are multiplied.
        mine: which of them the host lays out.
        stored: what blocks of the program store.
    """
    if mine[0] == mine[1]:
        return False
    host, other = factors[mine.index(True)].buffer, factors[mine.index(False)].buffer
    return other in stored and REPEATED * elements_of(other) <= elements_of(host)


def _factors(block: Block) -> tuple[BufferLoad, BufferLoad] | None:
    """What a block multiplies, sums up or not."""
    product = product_of(block)
    if product is not None:
        return product.factors
    return factors_of(store_of(block).value) if block.init is None else None
