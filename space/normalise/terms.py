"""Sums of several products: complex numbers, squared differences, zero points on both factors of what the program makes.

A factor that no step of its sum moves, as a zero point for each channel, is laid out for every step by the host.
"""

from __future__ import annotations

from autosched.ir.functor import free_vars
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.terms import terms_of
from autosched.target import Target
from space.normalise import copies, offsets
from space.normalise.blocks import device_block, device_blocks, given, named, product_of, store_of


def applies(func: PrimFunc) -> bool:
    """Whether a block sums up several products at a time."""
    return any(terms_of(b) is not None for b in device_blocks(func))


def apply(sch: Schedule, target: Target) -> None:
    """Gives every product that is summed up a sum of its own; the host lays out the constants among the factors."""
    for block in device_blocks(sch.func):
        if terms_of(block) is None:
            continue
        offsets.taken_out(sch, block.name)  # what depends on parameters alone is the host's
        if terms_of(device_block(sch, block.name)) is None:
            continue
        for made in sch.split_terms(sch.get_sblock(block.name)):
            copies.constant(sch, made)
            _spread(sch, named(sch, made))


def _spread(sch: Schedule, name: str) -> None:
    """Gives each factor of a block that is given, and that no step of its sum moves, an index of every step."""
    block = device_block(sch, name)
    product, params = product_of(block), given(sch.func)
    steps = [n for n, iv in enumerate(block.iter_vars) if iv.kind == "reduce"]
    moving = {block.iter_vars[n].var for n in steps}
    for factor in product.factors if product is not None else ():
        operand = factor.buffer.name
        if factor.buffer not in params or any(moving & set(free_vars(index)) for index in factor.indices):
            continue
        for step in steps:
            made = sch.spread_operand(sch.get_sblock(name), operand, step)
            operand = store_of(device_block(sch, named(sch, made))).buffer.name
            sch.host_stage(made)
