"""How good a form of a program is: what its products, stages, loads and stores take at least."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from autosched.ir.expr import BinOp, BufferLoad, Call, Expr
from autosched.ir.functor import walk_expr
from autosched.ir.stmt import Buffer, PrimFunc
from autosched.target import Target
from space.normalise.blocks import device_blocks, elements_of, extents, is_copy, loads_of, product_of, store_of


class Estimate(NamedTuple):
    """Cycles, to be compared; of two forms that keep the busiest unit as long, that is better which moves less.

    Args:
        longest: of what is busy longest, of computing, loading and storing.
        moved: of loading or storing, whichever takes longer.
    """

    longest: float
    moved: float


def estimate(func: PrimFunc, target: Target) -> Estimate:
    """What a program in form takes at least, everything that is given to it being loaded once.

    Args:
        func: the program, packed.
        target: the machine.
    """
    config, blocks = target.config, device_blocks(func)
    made = {store_of(b).buffer for b in blocks}
    given: set[Buffer] = set()
    computed = 0
    for block in blocks:
        size = extents(block)
        vectors = prod(size[iv.var] for iv in block.iter_vars if iv.kind != "reduce") // (config.batch * config.block_out)
        if product_of(block) is not None:
            computed += prod(size.values()) // (config.batch * config.block_in * config.block_out) + vectors
        elif block.init is None:
            computed += vectors * alu_cycles(store_of(block).value)
        given |= {x.buffer for x in loads_of(block)} - made
    stored = {store_of(b).buffer for b in blocks if store_of(b).buffer.dtype == "int8" and not is_copy(b, given)}
    loads, stores = (sum(map(_bytes, tensors)) / config.bus_bytes for tensors in (given, stored))
    return Estimate(max(computed, loads, stores), max(loads, stores))


def alu_cycles(value: Expr) -> int:
    """Cycles of the ALU for a vector of a value: two of an operation with another tensor, one of one with a constant.

    Args:
        value: what a stage stores.
    """
    both = 0
    for e in walk_expr(value):
        sides = (e.a, e.b) if isinstance(e, BinOp) else e.args if isinstance(e, Call) and e.op.startswith("shift") else ()
        both += sum(any(isinstance(x, BufferLoad) for x in walk_expr(side)) for side in sides)
    return both


def _bytes(buffer: Buffer) -> int:
    return elements_of(buffer) * (4 if buffer.dtype == "int32" else 1)
