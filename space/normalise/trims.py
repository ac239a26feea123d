"""Ends of reductions that only read padding, left out: of a kernel beyond a small image, or of one whose taps are far apart.

So is what nobody reads, then or before: the rest of the padding, and of what the host copies, and stages of no use.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, int_value
from autosched.ir.functor import free_vars
from autosched.ir.host import kind_of
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, Buffer, BufferStore
from autosched.schedule import Schedule
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.primitives.reductions.trimming import kept_of
from autosched.target import Target
from space.normalise import initial
from space.normalise.blocks import device_blocks, is_packed, loads_of, named, pack_blocks, store_of
from space.sites import LANES

Span = tuple[int, int]  # from, up to


def apart(begun: Schedule, target: Target) -> Schedule | None:
    """A schedule with less to sum up, where a reduction has ends that change no result; else None.

    Args:
        begun: of a program of plain blocks; stays as it is.
        target: the machine.
    """
    sch = begun.copy()
    with suppress(ScheduleError):
        # A sum that begins elsewhere, or in loops that are not its own, is none yet whose ends are known.
        initial.plainly(sch, target)
    packed = is_packed(sch.func, target)
    cut = [b.name for b in device_blocks(sch.func) if _trimmed(sch, b, packed)]
    if not cut:
        return None
    _cropped(sch, [b.name for b in reversed(device_blocks(sch.func))])
    return sch


def copied(sch: Schedule, target: Target) -> None:
    """Lets the host copy only what is read of parameters, where reductions have been cut."""
    if any(step.op == "trim_reduction" for step in sch.trace.insts):
        _cropped(sch, [b.name for b in reversed(pack_blocks(sch))])


def unread(sch: Schedule) -> None:
    """Leaves out stages that nobody reads, the last ones first: each may have been the only one to read another."""
    for block in reversed(device_blocks(sch.func)):
        _unread(sch, block)


def _unread(sch: Schedule, block: Block) -> bool:
    """Leaves out a block of one store that nobody reads; whether there is none any more, or why not is for analysis to say."""
    made = store_of(block).buffer
    read = any(x.buffer is made for other in _every(sch) for x in loads_of(other))
    if read or made in sch.func.buffers or block.init is not None:
        return False
    with suppress(ScheduleError):
        sch.compute_inline(sch.get_sblock(block.name))
    return True


def _every(sch: Schedule) -> list[Block]:
    """All blocks of one store, those of the host among them."""
    return [r.block for r in sch.state.realizes.values() if isinstance(r.block.body, BufferStore)]


def _trimmed(sch: Schedule, block: Block, packed: bool) -> bool:
    """Cuts off what changes no result, if a block has such ends. Elements stay whole where tensors lie in them."""
    lanes = {v for x in loads_of(block) for i in x.indices[-LANES:] for v in free_vars(i)} if packed else set()
    taps = [n for n, iv in enumerate(block.iter_vars) if iv.kind == "reduce" and iv.var not in lanes]
    try:
        kept_of(sch.state, sch.state.realizes[block.ident], taps)
    except Refusal:
        return False
    sch.trim_reduction(sch.get_sblock(block.name), taps)
    return True


def _cropped(sch: Schedule, names: Iterable[str]) -> None:
    """Makes only what is read of what some blocks make, the last ones first."""
    for name in names:
        block = _block(sch, name)
        if store_of(block).buffer in sch.func.buffers or block.init is not None or _unread(sch, block):
            continue
        before = name
        for dim in range(store_of(block).buffer.ndim):
            name = _cropped_along(sch, name, dim)
        with suppress(ScheduleError), sch.all_or_none():  # it is plain
            sch.simplify_value(sch.get_sblock(name))
        if name != before and kind_of(block) is None and isinstance(store_of(_block(sch, name)).value, BufferLoad):
            with suppress(ScheduleError):  # it is a copy
                sch.compute_inline(sch.get_sblock(name))


def _cropped_along(sch: Schedule, name: str, dim: int) -> str:
    """Leaves out what nobody reads at both ends of a dimension; the name of the block that makes the rest."""
    buffer = store_of(_block(sch, name)).buffer
    span, extent = _read(sch, buffer, dim), int_value(buffer.shape[dim])
    if span is None or extent is None or span == (0, extent):
        return name
    lengths = [n for n in (span[0], span[1] - span[0], extent - span[1]) if n]
    with suppress(ScheduleError), sch.all_or_none():  # it is made as a whole
        parts = [named(sch, part) for part in sch.partition_buffer(sch.get_sblock(name), dim, lengths)]
        read = parts.pop(int(span[0] > 0))
        for part in parts:
            sch.compute_inline(sch.get_sblock(part))
        return read
    return name


def _read(sch: Schedule, buffer: Buffer, dim: int) -> Span | None:
    """From where to where blocks read a tensor along a dimension; None where that is not known, or nobody does."""
    spans = []
    for block in _every(sch):
        known = Analyzer({iv.var: iv.dom for iv in block.iter_vars})
        for load in loads_of(block):
            spans += [known.int_bounds(load.indices[dim])] if load.buffer is buffer else []
    lows, highs = [low for low, _ in spans if low is not None], [high for _, high in spans if high is not None]
    return (min(lows), max(highs) + 1) if lows and len(lows) == len(highs) == len(spans) else None


def _block(sch: Schedule, name: str) -> Block:
    """A block as it is now, of the accelerator or of the host."""
    return next(r.block for r in sch.state.realizes.values() if r.block.name == name)
