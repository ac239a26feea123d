"""Tensors in an order that no layout of theirs gives: the host lays them out by the iterators of the block that uses them.

That is what a product reads at digits of an iterator (a flattened image), or at sums of iterators alone (the one channel of an
image, whose taps then are what is summed over), and results that are written at computed places of a flat tensor.
"""

from __future__ import annotations

from math import prod

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Expr, Var, int_value
from autosched.ir.functor import free_vars, substitute
from autosched.ir.host import is_move
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import (
    Product,
    are_places,
    device_block,
    device_blocks,
    elements_of,
    extents,
    filled,
    has_digits,
    is_packed,
    loads_of,
    pack_blocks,
    product_of,
    store_of,
    written,
)
from space.normalise.copies import part_of, paths_to
from space.normalise.layouts import by_element

MOST = 16  # such operands of one stage


def flattens(func: PrimFunc) -> bool:
    """Whether a product sums over an iterator at whose digits it reads what the program has made.

    Args:
        func: the program.
    """
    made = written(func)
    return any(_spelt(b, made) is not None for b in device_blocks(func))


def spelt(sch: Schedule, target: Target) -> None:
    """Lets every such product sum over the digits themselves: what it reads lies so already, and the host lays out the weight."""
    for name in [b.name for b in device_blocks(sch.func)]:
        made = written(sch.func)
        block = device_block(sch, name)
        digits = _spelt(block, made)
        if digits is None:
            continue
        own = [iv.var for iv in block.iter_vars]
        over = {v for e in digits for v in free_vars(e)}

        def apart(*i: Expr, own: list[Var] = own, over: set[Var] = over, digits: list[Expr] = digits) -> tuple[Expr, ...]:
            table = dict(zip(own, i))
            return (*[table[v] for v in own if v not in over], *[substitute(e, table) for e in digits])

        try:
            sch.transform_block_layout(sch.get_sblock(name), apart)
        except ScheduleError:
            continue  # some of it twice, or not at all


def _spelt(block: Block, made: set[Buffer]) -> list[Expr] | None:
    """The digits of the one iterator that a product sums over, where it reads at these what the program has made."""
    product = product_of(block)
    sums = [iv.var for iv in block.iter_vars if iv.kind == "reduce" and int_value(iv.dom.extent) != 1]
    if product is None or len(sums) != 1:
        return None
    for factor in product.factors:
        if factor.buffer not in made:
            continue
        moved = [i for i in factor.indices if sums[0] in free_vars(i)]
        if moved and all(has_digits(i) and set(free_vars(i)) == {sums[0]} for i in moved):
            return moved
    return None


def stages(sch: Schedule, target: Target) -> None:
    """Lets a stage that reads what is made at digits of its iterators run over what it reads, and store at computed places."""
    for block in device_blocks(sch.func):
        made = written(sch.func) - {store_of(block).buffer}
        read = next((x.indices for x in loads_of(block) if x.buffer in made and has_digits(*x.indices)), None)
        if block.init is not None or read is None:
            continue
        own = [iv.var for iv in block.iter_vars]

        def over(*i: Expr, read: tuple[Expr, ...] = read, own: list[Var] = own) -> tuple[Expr, ...]:
            return tuple([substitute(e, dict(zip(own, i))) for e in read if int_value(e) is None])

        trial = sch.copy() if is_packed(sch.func, target) else sch  # where nothing is done to what is in form, nothing is said
        try:
            trial.transform_block_layout(trial.get_sblock(block.name), over)
            sch.adopt(trial)
        except ScheduleError:  # some of it twice, or not at all
            _moved_before(sch, block, made)


def coarser(func: PrimFunc) -> bool:
    """Whether a stage computes with what the program makes in int8 and it reads at digits of its iterators.

    Args:
        func: of plain blocks.
    """
    made = {b for b in written(func) if b.dtype == "int8"}
    stages = [b for b in device_blocks(func) if b.init is None and not is_move(store_of(b).value)]
    read = [x.indices for b in stages for x in loads_of(b) if x.buffer in made]
    return any(has_digits(*indices) for indices in read) and all(are_places(*indices) for indices in read)


def _moved_before(sch: Schedule, block: Block, made: set[Buffer]) -> None:
    """Lets blocks move what is made in int8 to where a stage computes with it, which reads it at digits: a finer image, say."""
    for _ in range(MOST):
        value = store_of(device_block(sch, block.name)).value
        paths = [] if is_move(value) else paths_to(value, {b for b in made if b.dtype == "int8"})
        at = [path for path in paths if isinstance(x := part_of(value, path), BufferLoad) and has_digits(*x.indices)]
        if not at:
            return
        try:
            sch.decompose_value(sch.get_sblock(block.name), at[0])
        except ScheduleError:
            return  # what is in the way of a schedule, analysis says


def results(sch: Schedule, target: Target) -> None:
    """Stores a result plainly that is stored at computed places, or by several blocks: the host puts it there."""
    params = set(sch.func.buffers)
    read = {x.buffer for b in device_blocks(sch.func) for x in loads_of(b)}
    writers = [store_of(b).buffer for b in device_blocks(sch.func)]
    # The last first: what the host writes comes after all that the accelerator writes.
    for block in reversed(device_blocks(sch.func)):
        store = store_of(block)
        plain = all(isinstance(i, Var) or int_value(i) is not None for i in store.indices) and writers.count(store.buffer) == 1
        if store.buffer in params - read and not plain:
            sch.host_stage(sch.reindex(sch.get_sblock(block.name), ("write", 0)))


def apply(sch: Schedule, target: Target) -> None:
    """Lays out the factors of products that packing alone cannot."""
    for name in [b.name for b in device_blocks(sch.func)]:
        for k in (0, 1, 0):  # one may have to lie plainly before it shows what the other one needs
            block = device_block(sch, name)
            product = product_of(block)
            packs = filled(sch)
            if product is None or product.factors[0].buffer is product.factors[1].buffer:
                break
            factor, other = product.factors[k], product.factors[1 - k]
            if factor.buffer in packs and (_digits(block, factor) or _summed_along(product, factor, other, target) or (
                    other.buffer not in packs and _flat(block, factor))):
                reindexed(sch, name, factor.buffer.name)


def reindexed(sch: Schedule, name: str, buffer: str) -> None:
    """Lets the host lay a factor out by the iterators of its product.

    Args:
        sch: of the program.
        name: of the product's block.
        buffer: the name of what the factor is read of.
    """
    position = next(n for n, r in enumerate(device_block(sch, name).reads) if r.buffer.name == buffer)
    sch.host_stage(sch.reindex(sch.get_sblock(name), ("read", position)))


def single(load: BufferLoad) -> bool:
    """Whether each index of a load has one iterator at most: the host may lay it out by these, and it is no larger then.

    Args:
        load: any.
    """
    return all((form := linear_form(i)) is not None and len(form[0]) <= 1 for i in load.indices)


def strided(load: BufferLoad) -> bool:
    """Whether such a load is at multiples of an iterator.

    Args:
        load: any.
    """
    forms = [linear_form(i) for i in load.indices]
    return single(load) and any(int_value(step) != 1 for form in forms if form is not None for step in form[0].values())


def plainly(sch: Schedule, target: Target) -> None:
    """Lets the host lay out a factor of a product that sums over no plain index of either: one whose own elements it takes."""
    for block in device_blocks(sch.func):
        product = product_of(block)
        sums = {iv.var for iv in block.iter_vars if iv.kind == "reduce" and int_value(iv.dom.extent) != 1}
        if product is None or not sums or any(isinstance(i, Var) and i in sums for f in product.factors for i in f.indices):
            continue
        size, packs = extents(block), filled(sch)
        mine = [f for f in product.factors if f.buffer in packs and _elements_of(f, size) <= 2 * elements_of(f.buffer)]
        if mine and product.factors[0].buffer is not product.factors[1].buffer:
            reindexed(sch, block.name, min(mine, key=lambda f: _elements_of(f, size)).buffer.name)


def _elements_of(load: BufferLoad, size: dict[Var, int]) -> int:
    """How many elements a load takes, each as often as it does."""
    return prod(size[v] for v in {v for i in load.indices for v in free_vars(i) if isinstance(v, Var)} if v in size)


def shared(sch: Schedule) -> bool:
    """Whether the host lays one tensor out for products more than once."""
    packs = pack_blocks(sch)
    laid = [x for b in packs for x in {x.buffer for x in loads_of(b)} if store_of(b).buffer.name.startswith(f"{x.name}_reindex")]
    return len(set(laid)) < len(laid)


def _digits(block: Block, load: BufferLoad) -> bool:
    """Whether a load takes digits of an iterator, or is at sums of iterators only, and takes elements twice at most."""
    size = extents(block)
    if _elements_of(load, size) > 2 * elements_of(load.buffer):
        return False
    used = {v for i in load.indices for v in free_vars(i) if v in size}
    apart = has_digits(*load.indices)
    flat = not any(isinstance(i, Var) and size.get(i, 1) > 1 for i in load.indices) and len(used) > 1
    return apart or flat


def _flat(block: Block, load: BufferLoad) -> bool:
    """Whether all that a sum goes over is one index of a load: several iterators that are the digits of it."""
    size = extents(block)
    sums = {iv.var for iv in block.iter_vars if iv.kind == "reduce" and int_value(iv.dom.extent) != 1}
    over = [i for i in load.indices if sums & set(free_vars(i))]
    form = linear_form(over[0]) if len(over) == 1 and not isinstance(over[0], Var) else None
    if form is None or int_value(form[1]) != 0 or set(form[0]) != sums:
        return False
    steps = sorted((int_value(n) or 0, size[v]) for v, n in form[0].items())
    return all(n == prod(m for _, m in steps[:k]) for k, (n, _) in enumerate(steps))


def _summed_along(product: Product, data: BufferLoad, weight: BufferLoad, target: Target) -> bool:
    """Whether all that a product sums over moves its data along with something else, and its weight plainly."""
    block = product.block
    sums = {iv.var for iv in block.iter_vars if iv.kind == "reduce" and int_value(iv.dom.extent) != 1}
    over = [i for i in weight.indices if isinstance(i, Var) and i in sums]
    if not over or any(i in sums for i in data.indices if isinstance(i, Var)):
        return False
    moved = {v for i in data.indices for v in free_vars(i)}
    columns = [i for i in weight.indices if isinstance(i, Var) and i not in sums and i not in moved]
    return any(v in moved for v in over) and bool(columns) and not by_element(product, columns, over, target)
