"""Copies of parameters and results that may be laid out otherwise: the host fills and empties them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Cast, Expr, int_value
from autosched.ir.functor import expr_children, free_vars, walk_expr
from autosched.ir.host import is_move
from autosched.ir.patterns import choice_of, has_loads, loads_from
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.kit.base import BlockRV
from autosched.schedule.primitives.reductions.negation import factors_of
from autosched.target import Target
from space.normalise.blocks import (
    Product,
    device_block,
    device_blocks,
    extents,
    filled,
    given,
    is_copy,
    loads_of,
    named,
    product_of,
    readers_of,
    store_of,
    unfit,
    written,
)
from space.sites import cuts_inside


def apart(sch: Schedule, target: Target, sums: bool = False) -> None:
    """Gives every sum of products copies of its own of parameters that several multiply: they may want them laid out otherwise.

    So has every stage of what a product multiplies. What is read in only one layout is copied once, by ``apply``.

    Args:
        sch: of the program.
        target: the machine.
        sums: whether so has every sum on the ALU, the first reader but for it, and every product by element with what is made of
            the same parameter.
    """
    params = given(sch.func)
    for block in device_blocks(sch.func) if sums else ():
        by_element = factors_of(store_of(block).value) or () if block.init is None else ()
        for factor in by_element if len({f.buffer for f in by_element} & set(params)) == 1 else ():
            if factor.buffer in params and len(readers_of(sch.func, factor.buffer)) > 1:
                copied(sch, block.name, factor)
    factors = {f.buffer for b in device_blocks(sch.func) if (p := product_of(b)) is not None for f in p.factors}
    for block in device_blocks(sch.func):
        for load in loads_of(block) if product_of(block) is None and (sums or block.init is None) else ():
            if load.buffer in params and load.buffer in factors:
                copied(sch, block.name, load)
    for block in device_blocks(sch.func)[1:] if sums else ():
        for load in loads_of(block) if block.init is not None and product_of(block) is None else ():
            if load.buffer in given(sch.func) and len(readers_of(sch.func, load.buffer)) > 1:
                copied(sch, block.name, load)
    seen = set()
    for block in device_blocks(sch.func):
        product = product_of(block)
        for factor in product.factors if product is not None else ():
            if factor.buffer in params and factor.buffer in seen:
                copied(sch, block.name, factor)
            seen.add(factor.buffer)


def inlined(sch: Schedule) -> Schedule | None:
    """A schedule without the program's own copies of parameters: what reads one reads the parameter. None where there are none.

    Copies that pad stay: what reads a copy of one reads it. A weight lies as nothing does that the accelerator stores.

    Args:
        sch: of the program.
    """
    made = sch.copy()
    moved = set(given(sch.func))
    for name in [b.name for b in device_blocks(sch.func)]:
        block = device_block(made, name)
        store = store_of(block)
        if not is_copy(block, moved) or store.buffer in sch.func.buffers:
            continue
        moved.add(store.buffer)
        if isinstance(store.value, BufferLoad):
            try:
                made.compute_inline(made.get_sblock(name))
            except ScheduleError:
                continue  # what is in the way of a schedule, analysis says
    return made if len(made.trace.insts) > len(sch.trace.insts) else None


def unloadable(func: PrimFunc) -> bool:
    """Whether a form has no schedule because of what no load does: move what is moved already, or what is no box of elements.

    Args:
        func: a program in form.
    """
    blocks = device_blocks(func)
    moving = [b for b in blocks if b.init is None and is_move(store_of(b).value)]
    made = {store_of(b).buffer for b in moving}
    again = any(readers_of(func, store_of(b).buffer) and any(x.buffer in made for x in loads_of(b)) for b in moving)
    cut = any(cuts_inside(store_of(b)) for b in moving)
    return again or cut or any(_jumps(b, x) for b in blocks if b not in moving for x in loads_of(b))


def _jumps(block: Block, load: BufferLoad) -> bool:
    """Whether what a block reads does not move with its iterators by steps of one length each."""
    own = [iv.var for iv in block.iter_vars]
    return not has_loads(*load.indices) and any(linear_form(i, own) is None for i in load.indices)


def laid_out(sch: Schedule) -> Schedule | None:
    """A schedule whose host lays out what stages read of parameters at digits of their iterators. None where there is none.

    Args:
        sch: of the program.
    """
    made = sch.copy()
    params = set(given(sch.func))
    for block in device_blocks(sch.func):
        for load in loads_of(block) if block.init is None and not is_copy(block, params) else ():
            if load.buffer in params and _jumps(block, load):
                copied(made, block.name, load)
    return made if len(made.trace.insts) > len(sch.trace.insts) else None


def hosted(sch: Schedule, every: bool = False) -> Schedule | None:
    """A schedule whose host makes the program's own copies of parameters that other copies read. None where there are none.

    Args:
        sch: of the program.
        every: whether it makes the others, too: of a plane that is padded no load takes what lies at a distance along its lanes.
    """
    made = sch.copy()
    moved = set(given(sch.func))
    for block in device_blocks(sch.func):
        buffer = store_of(block).buffer
        if not is_copy(block, moved) or buffer in sch.func.buffers:
            continue
        if every or any(is_copy(reader, {*moved, buffer}) for reader in readers_of(sch.func, buffer)):
            try:
                made.host_stage(made.get_sblock(block.name))
            except ScheduleError:
                continue  # the accelerator fills a part of it
            moved.add(buffer)
    return made if len(made.trace.insts) > len(sch.trace.insts) else None


def guards(func: PrimFunc) -> bool:
    """Whether a stage computes with what it reads inside an image, and zero around it: the ALU has no choice.

    Args:
        func: a program, in form or not.
    """
    return any(_guard(func, b) is not None for b in device_blocks(func))


def chooses(func: PrimFunc) -> bool:
    """Whether a stage only moves int32 elements, by place: no load writes zeros beside them, but for a sum or an extremum.

    Args:
        func: a program, in form or not.
    """
    return any(_chooses(func, b) for b in device_blocks(func))


def _chooses(func: PrimFunc, block: Block) -> bool:
    store = store_of(block)
    moves = block.init is None and store.buffer.dtype == "int32" and choice_of(store.value) is not None and is_move(store.value)
    given = {x.buffer for x in loads_of(block)} - written(func)  # by the user, or by the host
    return moves and is_copy(block, given) and all(b.init is None for b in readers_of(func, store.buffer))


def filled_otherwise(func: PrimFunc) -> bool:
    """Whether a block of the accelerator copies with another number than zero around, which no load writes.

    Args:
        func: a program in form.
    """
    choices = (choice_of(store_of(b).value) for b in device_blocks(func) if b.init is None)
    return any(c is not None and is_move(c[1]) and int_value(c[2]) not in (None, 0) for c in choices)


def guarded(sch: Schedule) -> Schedule | None:
    """A schedule whose host makes what stages read so of parameters, or choose of them. None where there is nothing of the kind.

    Args:
        sch: of the program.
    """
    made = sch.copy()
    for name in [b.name for b in device_blocks(sch.func)]:
        if _chooses(made.func, device_block(made, name)):
            _by_host(made, name)
            continue
        while (found := _guard(made.func, device_block(made, name))) is not None:
            path = path_of(store_of(device_block(made, name)).value, found)
            try:
                made.host_stage(made.decompose_value(made.get_sblock(name), path or []))
            except ScheduleError:
                break  # what is in the way of a schedule, analysis says
    return made if len(made.trace.insts) > len(sch.trace.insts) else None


def _by_host(sch: Schedule, name: str) -> None:
    """Lets the host make all that a block stores, or what it copies then if that is a result."""
    result = store_of(device_block(sch, name)).buffer in sch.func.buffers
    with suppress(ScheduleError), sch.all_or_none():  # what is in the way of a schedule, analysis says
        handle = sch.get_sblock(name)
        sch.host_stage(sch.decompose_value(handle, []) if result else handle)


def _guard(func: PrimFunc, block: Block) -> Expr | None:
    """The first choice by place between an element of a parameter, widened or not, and zero in what a stage computes."""
    value = store_of(block).value
    made = written(func)
    if block.init is not None or is_move(value):
        return None
    for e in walk_expr(value):
        choice = choice_of(e)
        arms = [a.value if isinstance(a, Cast) else a for a in choice[1:]] if choice is not None else []
        if choice is not None and not has_loads(choice[0]) and all(is_move(a) for a in arms):
            read = {x.buffer for a in arms for x in walk_expr(a) if isinstance(x, BufferLoad)}
            if read and not read & made:
                return e
    return None


def require_one_value(func: PrimFunc) -> None:
    """Refuses a parameter that is read before it is written, and so holds two things.

    Args:
        func: an unscheduled program; later a stage may read its copy.

    Raises:
        ScheduleError: one does.
    """
    params = set(func.buffers)
    blocks = device_blocks(func)
    set_before: set[Buffer] = set()
    for n, block in enumerate(blocks):
        buffer = store_of(block).buffer
        if buffer in params - set_before and block.init is None and loads_from(store_of(block).value, buffer):
            raise unfit(f"block {block.name} reads {buffer.name} and writes it; store what it makes in a "
                        "tensor of its own")
        set_before.add(buffer)
        before = next((b.name for b in blocks[:n] if any(x.buffer is buffer for x in loads_of(b))), None)
        if buffer in params and before is not None:
            raise unfit(f"block {before} reads {buffer.name} before block {block.name} writes it; "
                        f"store what {block.name} makes in a tensor of its own")


def apply(sch: Schedule, target: Target) -> None:
    """Gives every parameter that the accelerator touches a copy, made by a host stage."""
    params = set(sch.func.buffers)
    for block in device_blocks(sch.func):
        twice(sch, block)
    seen = written(sch.func)  # what it writes itself the host does not fill
    for block in device_blocks(sch.func):
        for load in loads_of(block):
            if load.buffer not in params or load.buffer in seen:
                continue
            seen.add(load.buffer)
            index = next(k for k, r in enumerate(block.reads) if r.buffer is load.buffer)
            readers = [sch.get_sblock(b.name) for b in readers_of(sch.func, load.buffer)]
            copy = sch.cache_read(sch.get_sblock(block.name), index, "global", readers)
            sch.host_stage(copy)
    for block in device_blocks(sch.func):
        if store_of(block).buffer in params:
            readers = [sch.get_sblock(b.name) for b in readers_of(sch.func, store_of(block).buffer)]
            copy = sch.cache_write(sch.get_sblock(block.name), 0, "global", readers)
            sch.host_stage(copy)


def twice(sch: Schedule, block: Block) -> None:
    """Gives a sum of products of a parameter with itself a copy for one factor: as data it lies otherwise than as weight."""
    product = product_of(block)
    if product is None or product.factors[0].buffer is not product.factors[1].buffer:
        return
    other = product.factors[1]
    if _is_square(product):
        path = _second(store_of(block).value, other)
        if other.buffer in {*given(sch.func), *filled(sch)} and path is not None:
            sch.host_stage(sch.decompose_value(sch.get_sblock(block.name), path, alone=True))
    elif other.buffer in given(sch.func):
        copied(sch, block.name, other)


def _is_square(product: Product) -> bool:
    """Whether a sum is of squares of elements that no iterator of its results moves.

    What these have in common with both factors makes a diagonal of one of them anyway, and the host that of what is data.
    """
    one, other = product.factors
    block, size = product.block, extents(product.block)
    moved = {v for index in other.indices for v in free_vars(index) if size.get(v, 1) > 1}
    same = one.buffer is other.buffer and one.indices == other.indices
    return same and moved <= {iv.var for iv in block.iter_vars if iv.kind == "reduce"}


def _second(value: Expr, load: BufferLoad) -> list[int] | None:
    """Where in a value an element is read a second time."""
    return next(iter([*_paths(value, lambda e: e == load)][1:]), None)


def constant(sch: Schedule, block: BlockRV) -> None:
    """Lets the host lay out the first of the program's constants that a block reads, if it reads any.

    Args:
        sch: of the program.
        block: handle of the block.
    """
    constants = {c.buffer for c in sch.func.constants}
    position = next((n for n, r in enumerate(device_block(sch, named(sch, block)).reads) if r.buffer in constants), None)
    if position is not None:
        sch.host_stage(sch.cache_read(block, position, "global", [block]))


def copied(sch: Schedule, name: str, load: BufferLoad) -> None:
    """Gives a block a copy of its own, made by the host, of what it reads at one place; none where it no longer reads there.

    Where only a condition keeps the read inside its tensor, the host copies what is chosen.
    """
    value = store_of(device_block(sch, name)).value
    path = path_of(value, load)
    if path is None:
        return
    try:
        made = sch.decompose_value(sch.get_sblock(name), path)
    except ScheduleError as error:
        chosen = next((n for n in range(len(path)) if choice_of(part_of(value, path[:n])) is not None), None)
        if error.code != "domain" or chosen is None:
            raise
        made = sch.decompose_value(sch.get_sblock(name), path[:chosen])
    sch.host_stage(made)


def part_of(value: Expr, path: Sequence[int]) -> Expr:
    """What stands at a path of a value."""
    for step in path:
        value = expr_children(value)[step]
    return value


def path_of(value: Expr, part: Expr) -> list[int] | None:
    """Where in a value a part of it is."""
    return next(_paths(value, lambda e: e is part), None)


def path_to(value: Expr, buffers: Collection[Buffer]) -> list[int] | None:
    """Where in a value one of some tensors is read first."""
    return next(iter(paths_to(value, buffers)), None)


def paths_to(value: Expr, buffers: Collection[Buffer]) -> list[list[int]]:
    """Where in a value some tensors are read, every time."""
    return list(_paths(value, lambda e: isinstance(e, BufferLoad) and e.buffer in buffers))


def _paths(value: Expr, is_part: Callable[[Expr], bool]) -> Iterator[list[int]]:
    if is_part(value):
        yield []
        return
    for k, child in enumerate(expr_children(value)):
        yield from ([k, *path] for path in _paths(child, is_part))
