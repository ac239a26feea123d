"""Sums of several products: the later one goes on from what is added to it, so that one accumulator holds them all."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.ir.expr import BinOp, BufferLoad, Expr, int_value
from autosched.ir.functor import expr_children, walk_expr
from autosched.ir.patterns import operands
from autosched.ir.stmt import Block, Buffer, BufferStore
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_blocks, loads_of, product_of, store_of

MOST = 16  # sums; each costs a stage that is taken into one


def apply(sch: Schedule, target: Target) -> None:
    """Lets every sum of products start with what a stage adds to it, where that is made by other blocks."""
    for block in device_blocks(sch.func):
        _chained(sch, block)
    for _ in range(MOST):
        if not any(_step(sch, block) for block in device_blocks(sch.func)):
            return


def _chained(sch: Schedule, stage: Block) -> None:
    """Adds sums up in the order in which they are made, where brackets have it otherwise."""
    if stage.init is not None:
        return
    made, sums = _sums(sch)
    at = store_of(stage).indices

    def own(e: Expr) -> bool:
        return isinstance(e, BufferLoad) and e.buffer in sums and e.indices == at

    def visit(value: Expr, path: tuple[int, ...]) -> None:
        if isinstance(value, BufferLoad):
            return
        if isinstance(value, BinOp) and value.op == "+" and value.dtype == "int32":
            parts = operands(value, "+")
            places = {n: made[e.buffer] for n, e in enumerate(parts) if isinstance(e, BufferLoad) and own(e)}
            inside = any(any(map(own, walk_expr(e))) for n, e in enumerate(parts) if n not in places)
            others, own_sums = [n for n in range(len(parts)) if n not in places], sorted(places, key=lambda n: places[n])
            order = [*others, *own_sums]
            plain = list(places.values()) == sorted(places.values()) and _from_the_left(value)
            if any(isinstance(e, BufferLoad) and e.dtype == "int8" for n in others for e in walk_expr(parts[n])):
                # What a sum starts with is int32; what has to be widened comes last.
                order = [*own_sums, *others]
                plain = order == sorted(order) and _from_the_left(value)
            if len(places) > 1 and not inside and not plain:
                sch.reorder_addends(sch.get_sblock(stage.name), order, list(path))
            return
        for n, child in enumerate(expr_children(value)):
            visit(child, (*path, n))

    visit(store_of(stage).value, ())


def _from_the_left(value: Expr) -> bool:
    """Whether a sum has no brackets."""
    while isinstance(value, BinOp) and value.op == "+":
        if isinstance(value.b, BinOp) and value.b.op == "+":
            return False
        value = value.a
    return True


def _sums(sch: Schedule) -> tuple[dict[Buffer, int], set[Buffer]]:
    """(when each tensor is made, the sums of products that start at zero and that one block reads once)."""
    blocks = device_blocks(sch.func)
    made = {store_of(b).buffer: n for n, b in enumerate(blocks)}
    read = [x.buffer for b in blocks for x in loads_of(b)]
    return made, {store_of(b).buffer for b in blocks if product_of(b) is not None and isinstance(b.init, BufferStore)
                  and int_value(b.init.value) == 0 and read.count(store_of(b).buffer) == 1}


def _step(sch: Schedule, stage: Block) -> bool:
    if stage.init is not None:
        return False
    blocks = device_blocks(sch.func)
    made, sums = _sums(sch)
    store = store_of(stage)
    factors = {f.buffer for b in blocks if (p := product_of(b)) is not None for f in p.factors}
    path = _addition(store.value, stage, sums, made, factors)
    if path is None:
        return False
    handle = sch.get_sblock(stage.name)
    added = sch.decompose_value(handle, list(path)) if path else handle
    block = sch.get(added)
    assert isinstance(block, Block)
    value = store_of(block).value
    assert isinstance(value, BinOp)
    later = max((x.buffer for x in (value.a, value.b) if isinstance(x, BufferLoad) and x.buffer in sums), key=lambda b: made[b])
    sch.fuse_reduction_epilogue(sch.get_sblock(blocks[made[later]].name), added)
    return True


def _addition(
    value: Expr, stage: Block, sums: set[Buffer], made: dict[Buffer, int], factors: set[Buffer], path: Sequence[int] = ()
) -> list[int] | None:
    """Where a value adds a sum, at the place that is stored, to what an earlier block makes; innermost additions first."""
    if isinstance(value, BufferLoad):
        return None
    for k, child in enumerate(expr_children(value)):
        found = _addition(child, stage, sums, made, factors, (*path, k))
        if found is not None:
            return found
    if isinstance(value, BinOp) and value.op == "+" and value.dtype == "int32":
        for one, other in ((value.b, value.a), (value.a, value.b)):
            if not (isinstance(one, BufferLoad) and one.buffer in sums and one.indices == store_of(stage).indices):
                continue
            before = [x.buffer for x in walk_expr(other) if isinstance(x, BufferLoad) and x.buffer in made]
            # What a product multiplies is stored as int8, which no sum starts with: a stage behind takes it in.
            narrow = any(b.dtype == "int8" and b in factors for b in before)
            if before and not narrow and all(made[b] < made[one.buffer] for b in before):
                return list(path)
    return None
