"""One filter that slides over what the program makes, as in channel attention by neighbours: a product with a banded matrix.

Of ``g[c] = sum_k m[c + k] * w[k]`` no factor has an index beside those of the window that could be lanes. A parameter the host
lays out again (``banding.py``); what the accelerator has stored stays where it is. So all results along the window are one
product of all that is there with a matrix, which the host makes of the filter; padding is left out by the rules for that.
"""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import Var
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import initial, loops
from space.normalise.bands import sum_of
from space.normalise.blocks import device_block, device_blocks, moved, product_of

MOST = 1 << 18  # elements of a matrix in place of a filter: the weights that the default machine holds at once


def apart(begun: Schedule, target: Target) -> Schedule | None:
    """A schedule in which such windows are products with matrices; None where there are none.

    Args:
        begun: of a program of plain blocks; stays as it is.
        target: the machine.
    """
    if not any(_slides(begun.func, block) for block in device_blocks(begun.func)):
        return None
    sch = begun.copy()
    with suppress(ScheduleError):  # a block in loops that are not its own is none yet that has a window
        initial.plainly(sch, target)
        loops.arranged(sch, target)
    before = len(sch.trace.insts)
    for name in [b.name for b in device_blocks(sch.func)]:
        found = _slides(sch.func, device_block(sch, name))
        with suppress(ScheduleError), sch.all_or_none():  # what is in the way of a schedule, analysis says
            if found is not None:
                sch.host_stage(sch.toeplitz(sch.get_sblock(name), *found))
    return sch if len(sch.trace.insts) > before else None


def _slides(func: PrimFunc, block: Block) -> tuple[int, int, int] | None:
    """The iterators along the last window of one filter over what the program makes, and how many results there are.

    None where the sum is another one, or the matrix would be too large.
    """
    product = product_of(block)
    found = None if product is None else sum_of(product)
    if found is None or found.filters or found.data.buffer in moved(func):
        return None
    lanes = {v for v in found.weight.indices if isinstance(v, Var) and v not in found.terms}
    if any(found.size[v] > 1 for v in lanes):
        return None  # as many filters as channels: these are lanes
    var = max(found.windows, key=lambda v: found.windows[v][1].dim)
    tap, window = found.windows[var]
    rows = found.size[var]
    if rows * window.span(rows, found.size[tap]) > MOST:
        return None
    slots = [iv.var for iv in block.iter_vars]
    return slots.index(var), slots.index(tap), rows
