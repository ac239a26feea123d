"""Windows that slide along with what multiplies them: the host lays out each of them by itself.

Where a result ``s[i, w]`` sums up ``q[i, d] * k[i + w, d]``, as attention to neighbours does, every ``i`` has a matrix of its
own: the rows of ``k`` from ``i`` on. Read where they lie, one after the other, they are vectors of which a product with ``q[i]``
leaves one lane. Laid out by the host for every ``i``, each element as often as windows have it, they are weights of which all
lanes count. A convolution's windows are none of these: its weights are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from autosched.ir.expr import BufferLoad, Var, int_value
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import Product, device_block, device_blocks, extents, product_of
from space.normalise.gathering import hosts
from space.normalise.gathers import reindexed


def applies(func: PrimFunc) -> bool:
    """Whether some product's windows slide along with its other factor.

    Args:
        func: the program.
    """
    return any(_slides(p) is not None for b in device_blocks(func) if (p := product_of(b)) is not None)


def apply(sch: Schedule, target: Target) -> bool:
    """Lets the host lay out such windows; whether there are any.

    Args:
        sch: of the program, which reads what the host has filled.
        target: the machine.

    Raises:
        ScheduleError: what the host would lay out is of no form that primitives know.
    """
    done = False
    for name in [b.name for b in device_blocks(sch.func)]:
        product = product_of(device_block(sch, name))
        windows = None if product is None else _slides(product)
        if windows is not None and hosts(sch, windows):
            reindexed(sch, name, windows.buffer.name)
            done = True
    return done


def _slides(product: Product) -> BufferLoad | None:
    """The factor whose windows stand at an iterator of the result that the other factor has by itself; None where neither has."""
    results, size = {iv.var for iv in product.block.iter_vars if iv.kind != "reduce"}, extents(product.block)
    for windows, other in (product.factors, product.factors[::-1]):
        with_it = results & {i for i in other.indices if isinstance(i, Var)}
        for index in windows.indices:
            form = linear_form(index)
            steps = {} if form is None else {v: n for v, step in form[0].items() if (n := int_value(step)) is not None}
            if with_it & {*steps} and _overlaps(steps, size):
                return windows
    return None


def _overlaps(steps: Mapping[Var, int], size: Mapping[Var, int]) -> bool:
    """Whether an index is the same one for several values of its iterators; of digits it never is."""
    span = 1  # of the iterators with smaller steps
    for step, extent in sorted((abs(step), size[v]) for v, step in steps.items()):
        if step < span and extent > 1:
            return True
        span += step * (extent - 1)
    return False
