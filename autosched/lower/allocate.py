"""Where every buffer on chip lives: its storage, by scope, bank and thread.

A storage is what one pass of its scope (the innermost loop around all accesses in which nothing read comes from an earlier pass)
touches of a buffer, dense and row-major. It has two copies under ``double_buffer_scope`` (more in a software pipeline), used in
turn by successive passes, and one for each virtual thread around it. Storages that are never alive together share memory, but
only when they do not fit side by side: sharing costs overlap (``arrange``). What a memory must hold at least is said in
``capacity``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from math import prod

from autosched.errors import LoweringError
from autosched.ir.cover import Box, Side, covers, encloses, hull, joined, separates
from autosched.ir.forms import NO_TERMS, Terms, last_of
from autosched.ir.scopes import ACC, DRAM, INP, WGT
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Lin, Loop
from autosched.lower.arrange import place
from autosched.lower.capacity import copies_of
from autosched.lower.regions import box, common, least, shape_of, touched, turning, writes_all, written
from autosched.lower.storage import Storage, lanes_of
from autosched.lower.tree import Access, Site, Tree
from autosched.target import Target
from sim.config import VTAConfig

Use = tuple[Site, Access, bool]


def allocate(tree: Tree, sites: list[Site], target: Target) -> dict[Buffer, Storage]:
    """The storage of every SRAM buffer, with its address.

    Raises:
        LoweringError: kind ``capacity``: a memory is too small; the message names its buffers.
    """
    uses: dict[Buffer, list[Use]] = {}
    for site in sites:
        for access, is_write in site.accesses():
            if access.buffer.scope != DRAM:
                uses.setdefault(access.buffer, []).append((site, access, is_write))
    ranges = _ranges(sites)
    storages = {b: _storage(b, u, tree.banks.get(b, 1), target.config, ranges) for b, u in uses.items()}
    for buffer in tree.doubled & storages.keys():
        if storages[buffer].banks == 1:
            warnings.warn(no_refill(buffer), stacklevel=2)
    for buffer, found in uses.items():
        _check_threads(storages[buffer], found)
    for scope in (INP, WGT, ACC):
        mine = [s for s in storages.values() if s.buffer.scope == scope]
        spans = {id(s): (uses[s.buffer][0][0].order, uses[s.buffer][-1][0].order) for s in mine}
        # Where a maximum brings in what a sum starts with, a place that another sum has left needs no clearing.
        place(mine, scope, target.capacity(scope), spans, scope == ACC and target.semantics != "chisel")
    return storages


def _ranges(sites: list[Site]) -> dict[int, tuple[int, int]]:
    """The first and the last site, by order, of every loop and of every site itself, by identity."""
    found: dict[int, tuple[int, int]] = {}
    for site in sites:
        for node in (*site.path, site):
            low, _ = found.get(id(node), (site.order, site.order))
            found[id(node)] = low, site.order
    return found


def no_refill(buffer: Buffer) -> str:
    """What is said about a buffer that asks for two banks in vain."""
    return f"double_buffer of {buffer.name} has no effect: no loop of several iterations refills it, so it keeps one bank"


def _storage(
    buffer: Buffer, uses: list[Use], wanted: int, config: VTAConfig, ranges: Mapping[int, tuple[int, int]]
) -> Storage:
    path = lifetime(uses)
    # In one pass of its loops, what is used again comes behind, or in a loop together with, all that stands in between.
    alive = [ranges[id(site.path[len(path)] if len(site.path) > len(path) else site)] for site, _, _ in uses]
    life = min(low for low, _ in alive), max(high for _, high in alive)
    shape = shape_of(buffer)
    region: Box | None = None
    for k, (site, access, _) in enumerate(uses):
        this = _widened(touched(site, access, path), shape)
        region = this if k == 0 else hull(region, this, turning(())) if region is not None else None
    # A dimension that the accesses may overshoot (the last tile of a split that does not divide) is held whole at most.
    lows, extents = [], []
    for d, extent in enumerate(shape):
        (terms, low), (others, high), _ = region[d] if region is not None else _whole(extent)
        size = _length(terms, low, others, high)
        if size >= extent:
            lows.append(Lin())
            extents.append(extent)
        else:
            lows.append(Lin(dict(terms), low))
            extents.append(size)
    lanes = lanes_of(buffer.scope, config)
    scalars = prod(extents)
    if scalars % lanes:
        reason = f"{buffer.name}: a part of {tuple(extents)} is not a whole number of {lanes}-lane elements of {buffer.scope}"
        raise LoweringError("element", reason)
    turns = prod(loop.extent for loop in path if not loop.thread)
    banks = int(copies_of(wanted, turns))
    threads = tuple([loop for loop in path if loop.thread])
    return Storage(buffer, path, tuple(lows), tuple(extents), lanes, scalars // lanes, banks, threads, life)


def _whole(extent: int) -> Side:
    return (NO_TERMS, 0), last_of(extent), True


def _widened(region: Box, shape: Sequence[int]) -> Box:
    """A box around one that takes dimensions whole where it is as wide as they are.

    What sticks out of the buffer is never accessed, so ``x - 1`` to ``x + 3`` of 4 is 0 to 3 wherever x is.
    """
    return [_whole(n) if _length(*side[0], *side[1]) >= n else side for side, n in zip(region, shape)]


def _length(first: Terms, low: int, last: Terms, high: int) -> int:
    """Indices from one end of a side to the other, at most."""
    if first == last:
        return high - low + 1
    return 1 - least(Lin(dict(first), low).add(Lin(dict(last), high), -1))


def lifetime(uses: list[Use]) -> tuple[Loop, ...]:
    """The loops, outermost first, of which every pass reads of a buffer only what it wrote: beyond them nothing lives on."""
    path = common([site.outer for site, _, _ in uses])
    while path and not _self_contained(uses, path):
        path = path[:-1]
    return path


def _self_contained(uses: list[Use], path: tuple[Loop, ...]) -> bool:
    """Whether one pass of ``path`` reads only what it has written by then."""
    writers = [site for site, _, is_write in uses if is_write]
    for site, access, is_write in uses:
        if is_write and site.kind != "gemm":
            continue
        # Who writes behind the read in loops that both are in has written in an earlier iteration only, if at all.
        earlier = [(w, common([site.path, w.path])) for w in writers if w.order < site.order]
        if any(writes_all(w, box(access, fixed), fixed, before=fixed[len(path):]) for w, fixed in earlier):
            continue
        # Or several of them together, glued along one dimension at a time.
        fixed = max((both for _, both in earlier), key=len, default=path)
        turns = fixed[len(path):]
        made = [b for w, _ in earlier if (b := written(w, fixed, before=turns)) is not None]
        wanted, shape = box(access, fixed), shape_of(access.buffer)
        if not any(covers(b, wanted, shape, turning(turns)) for b in joined(made)):
            return False
    return True


def _check_threads(storage: Storage, uses: list[Use]) -> None:
    """Virtual threads interleave, so what they share must not be written by more than one of them."""
    for site, access, is_write in uses:
        for depth, loop in enumerate(site.path):
            if not (is_write and loop.thread and loop not in storage.path):
                continue
            fixed = site.path[: depth + 1]
            mine = box(access, fixed)
            inside = [x for s, x, _ in uses if loop in s.path]
            if not separates(mine, loop) or not all(encloses(mine, box(x, fixed)) for x in inside):
                raise LoweringError(
                    "thread",
                    f"iterations of virtual thread {loop.name} share {access.buffer.name}, which block {site.name} writes",
                )
