"""Filters of one channel each: their weights become diagonal, so that the GEMM computes them."""

from __future__ import annotations

from autosched.ir.expr import Var
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_blocks, extents, product_of, store_of


def apply(sch: Schedule, target: Target) -> None:
    """Makes a packed sum of products a matrix product where the lanes of the result are the lanes of both operands."""
    lanes = target.config.block_out
    if lanes != target.config.block_in:
        return
    for block in device_blocks(sch.func):
        product = product_of(block)
        store = store_of(block)
        if product is None or not isinstance(store.indices[-1], Var):
            continue
        lane = store.indices[-1]
        data, weight = product.factors
        if extents(block).get(lane) != lanes or data.indices[-1] is not lane or weight.indices[-1] is not lane:
            continue
        # The weight is what has fewer elements: it is what becomes larger.
        if _count(data.buffer.shape) < _count(weight.buffer.shape):
            data, weight = weight, data
        axis = next(k for k, iv in enumerate(block.iter_vars) if iv.var is lane)
        sch.diagonalize(sch.get_sblock(block.name), axis, weight.buffer.name)


def _count(shape: tuple[object, ...]) -> int:
    total = 1
    for extent in shape:
        total *= getattr(extent, "value", 1)
    return total
