"""Factors that are computed in int32: stages of int8 of their own, which the GEMM multiplies by; of up to 15 bits two of them."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.ir.expr import BinOp, BufferLoad, Expr
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import has_loads, is_widened
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.factors import LOW_BITS, is_narrow
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, store_of
from space.normalise.copies import path_of

MOST = 16  # such factors in one block


def applies(func: PrimFunc, target: Target) -> bool:
    """Whether some stage multiplies by what is computed in int32, on a machine whose ALU does not multiply."""
    return not target.multiplies and any(next(_factors(func, b), None) is not None for b in device_blocks(func))


def apply(sch: Schedule, target: Target) -> None:
    """Stores every such factor as int8, whole or in two parts."""
    for name in [b.name for b in device_blocks(sch.func)]:
        for _ in range(MOST):
            block = device_block(sch, name)
            found = next(_factors(sch.func, block), None) if not target.multiplies else None
            if found is None:
                break
            product, side = found
            path = [*(path_of(store_of(block).value, product) or []), side]
            factor = (product.a, product.b)[side]
            handle = sch.get_sblock(name)
            if is_narrow(sch.func, block, factor):
                sch.narrow_value(handle, path)
                sch.decompose_value(handle, [*path, 0])
            elif isinstance(factor, BufferLoad):
                sch.split_factor(handle, path)
            else:
                sch.decompose_value(handle, path)


def _factors(func: PrimFunc, block: Block) -> Iterator[tuple[BinOp, int]]:
    """(product, which of its factors) of what a stage multiplies by that is no element of int8 and could be one or two."""
    products = [e for e in walk_expr(store_of(block).value) if isinstance(e, BinOp) and e.op == "*" and e.dtype == "int32"]
    for e in products if block.init is None else ():
        sides = (e.a, e.b)
        if has_loads(e.a) and has_loads(e.b):
            narrow = [is_narrow(func, block, side) for side in sides]
            yield from ((e, n) for n in (0, 1) if narrow[n])
            if not any(narrow):
                yield from ((e, n) for n in (0, 1) if _in_two(func, block, sides[n]) and is_widened(sides[1 - n]))


def _in_two(func: PrimFunc, block: Block, factor: Expr) -> bool:
    return is_narrow(func, block, factor, 8 + LOW_BITS)
