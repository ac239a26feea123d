"""Axes that one block has whole and another one takes apart, as heads of attention put side by side: several axes everywhere.

A stage that reads ``o[c // 16, i, c % 16]``, or stores at ``h * 16 + d``, moves nothing if what it makes has an index for each
digit, as what it reads has: no element changes its place. So all that has the axis gets two: tensors in between and blocks, sums
over them as well; and these again two, where they are taken apart further, as channels that become pixels are. Of parameters the
host lays out what products then read at several digits. What only puts axes in another order is read where it comes from. Heads
that share keys and values (``k[j, h // 4 * 16 + d]``) are two axes, of which these have one; what only repeats them is no tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, int_value
from autosched.ir.functor import free_vars, substitute, walk_expr
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import copies, initial, loops, moving, ranges
from space.normalise.axes import Axes, Place, accesses
from space.normalise.blocks import (
    device_block,
    device_blocks,
    extents,
    is_placed,
    loads_of,
    product_of,
    store_of,
    written,
)
from space.normalise.groups import divided

MOST = 8  # times that axes are taken apart


def apart(
    begun: Schedule, target: Target, ranged: bool = False, shared: bool = False, grouped: bool = False
) -> Schedule | None:
    """A schedule in which axes that tensors in between are read or stored along by digits are an axis for each digit.

    Args:
        begun: of a program of plain blocks; stays as it is.
        target: the machine.
        ranged: whether ranges that are read each by itself are tensors of their own besides; there are some, or it is None.
        shared: whether axes are several, too, of which products read one digit alone; there are some, or it is None. Ranges are
            tensors of their own then where there are some.
        grouped: whether then, too, of which stages that compute read one digit alone of what the program makes.

    Returns:
        It, or None where there are none, or a primitive refuses.
    """
    sch = begun.copy()
    with suppress(ScheduleError):  # a block in loops that are not its own is none yet that can be split
        initial.plainly(sch, target)
        loops.arranged(sch, target)
    if shared and not any(True for _ in _shared(sch.func, grouped)):
        return None
    cut = (ranged or shared) and ranges.apply(sch)
    axes, sizes = _sizes(sch.func, ranged, shared, grouped)
    if not (sizes or cut):
        return None
    try:
        for _ in range(MOST):
            divided(sch, axes, sizes)
            further = (ranged or shared) and ranges.apply(sch)
            cut |= further
            axes, sizes = _sizes(sch.func, ranged, shared, grouped)
            if not (sizes or further):
                break
        else:
            return None
        if ranged and not cut:
            return None
        _straight(sch, shared)
        _each_factor(sch)
        moving.laid_out(sch)
    except ScheduleError:
        return None  # what is in the way of a schedule, analysis says
    return sch


def _sizes(func: PrimFunc, ranged: bool, shared: bool, grouped: bool) -> tuple[Axes, dict[Place, int]]:
    """The axes of a program, and of those that are taken apart the extents of the innermost digits; as for ``apart``."""
    axes = Axes(device_blocks(func))
    sizes: dict[Place, int] = {}
    turns = ranges.by_turns(func) if ranged or shared else ()
    alone = _shared(func, grouped) if shared else ()
    for place, size in (*_taken_apart(func), *turns, *alone):
        axis = axes.of(place)
        sizes[axis] = min(size, sizes.get(axis, size))  # larger digits are taken apart next
    return axes, sizes


def _taken_apart(func: PrimFunc) -> Iterator[tuple[Place, int]]:
    """Where a block puts together an index of a tensor in between, or takes one apart, and the extent of the inner digit."""
    for block in device_blocks(func):
        # What an iterator of one step is, is no digit.
        single = {iv.var: iv.dom.min for iv in block.iter_vars if int_value(iv.dom.extent) == 1}
        read = [(buffer, [substitute(i, single) for i in indices]) for buffer, indices in accesses(block)]
        for buffer, indices in read:
            for d, index in enumerate(indices if buffer not in func.buffers else ()):
                size = _inner(index, extents(block), int_value(buffer.shape[d]) or 0)
                if size is not None:
                    yield (buffer, d), size
        for var, size in _digits([i for _, indices in read for i in indices], extents(block)):
            yield (block.ident, var), size


def _each_factor(sch: Schedule) -> None:
    """Gives a sum of products of a parameter with itself, read at sums of iterators, a copy for each factor: to be laid out."""
    for block in device_blocks(sch.func):
        product = product_of(block)
        if product is not None and any(len(free_vars(i)) > 1 for f in product.factors for i in f.indices):
            copies.twice(sch, block)


def _shared(func: PrimFunc, grouped: bool) -> Iterator[tuple[Place, int]]:
    """The iterators of which a product's factor, or what only is moved, reads a digit, and the extent of the inner one.

    With ``grouped`` also those of which a stage reads one of what the program makes.
    """
    made = written(func) if grouped else set()
    for block in device_blocks(func):
        product, size = product_of(block), extents(block)
        moves = is_placed(store_of(block).value)
        read = product.factors if product is not None else [x for x in loads_of(block) if moves or (
            x.buffer in made and block.init is None)]
        for e in (e for x in read for i in x.indices for e in walk_expr(i)):
            each = int_value(e.b) if isinstance(e, BinOp) and e.op in ("//", "%") else None
            if isinstance(e, BinOp) and isinstance(e.a, Var) and each and each > 1 and size.get(e.a, 0) % each == 0:
                yield (block.ident, e.a), each


def _inner(index: Expr, size: Mapping[Var, int], extent: int) -> int | None:
    """The extent of the iterator that is the last digit of an index, where all else of it is whole multiples of that."""
    form = linear_form(index)
    last = [size.get(v, 1) for v, step in form[0].items() if step == 1] if form is not None else []
    if form is None or len(form[0]) < 2 or len(last) != 1:
        return None
    rest = [int_value(form[1]), extent, *[step for step in form[0].values() if step != 1]]
    return last[0] if all(n is not None and n % last[0] == 0 for n in rest) else None


def _digits(indices: Sequence[Expr], size: Mapping[Var, int]) -> list[tuple[Var, int]]:
    """The iterators of which indices are made of both digits, each with the extent of the inner one."""
    found: dict[str, dict[tuple[Var, int], None]] = {"//": {}, "%": {}}
    for e in (e for index in indices for e in walk_expr(index)):
        each = int_value(e.b) if isinstance(e, BinOp) and e.op in found else None
        if isinstance(e, BinOp) and isinstance(e.a, Var) and each and size.get(e.a, 0) % each == 0:
            found[e.op][e.a, each] = None
    return [one for one in found["//"] if one in found["%"]]


def _straight(sch: Schedule, repeated: bool) -> None:
    """Lets what another block only puts in another order, or also repeats, be read where that comes from."""
    for name in [b.name for b in device_blocks(sch.func)]:
        block = device_block(sch, name)
        store = store_of(block)
        value = store.value
        if store.buffer in sch.func.buffers or block.init is not None or not isinstance(value, BufferLoad):
            continue
        plain = all(isinstance(i, Var) for i in value.indices) and len({*value.indices}) == len(value.indices)
        if plain and ({*value.indices} == {*store.indices} or (repeated and {*value.indices} < {*store.indices})):
            sch.compute_inline(sch.get_sblock(name))
