"""Last tiles that hold less than the others: theirs lies densely on chip as well.

A storage is row-major for what a pass of its loops touches. Where tiles do not divide an axis the last pass touches less. Laid
out as the others are, its rows would follow each other with gaps, which no DMA leaves: each row would be one of its own. So sites
are taken apart: all passes but the last, and the last one with shorter loops and a storage of shorter rows, in the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from autosched.ir.scopes import INP, WGT
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Lin, Loop
from autosched.lower.storage import Storage
from autosched.lower.tree import Access, Site


@dataclass(frozen=True, eq=False, slots=True)
class Cut:
    """How a site cuts a dimension of a storage short.

    Args:
        own: the site's loop that goes through the dimension.
        cond: the condition that ends it.
        around: the loop over tiles, one of those around the storage's lives; its last iteration is the one that holds less.
        rest: indices that this one holds.
    """

    own: Loop
    cond: Lin
    around: Loop
    rest: int


Ends = Mapping[Buffer, Sequence[int]]


def ends_of(sites: Sequence[Site], storages: Mapping[Buffer, Storage]) -> Ends:
    """The dimensions that all sites cut alike of every buffer that the load engine fills; of buffers with any.

    Of the outermost one whole rows are left out anyway.

    Args:
        sites: of the program, in order.
        storages: where its buffers live.
    """
    uses: dict[Buffer, list[tuple[Site, Access]]] = {}
    for site in sites:
        for access, _ in site.accesses():
            if access.buffer.scope in (INP, WGT):
                uses.setdefault(access.buffer, []).append((site, access))
    found = {}
    for buffer, own in uses.items():
        storage = storages[buffer]
        inner = [d for d in range(len(storage.extents)) if prod(storage.extents[:d]) > 1]
        if all(site.conds for site, _ in own) and (dims := [d for d in inner if _alike(storage, own, d)]):
            found[buffer] = dims
    return found


def _alike(storage: Storage, uses: Sequence[tuple[Site, Access]], dim: int) -> bool:
    first = _cut(*uses[0], storage, dim)
    if first is None:
        return False
    cuts = (_cut(site, access, storage, dim) for site, access in uses[1:])
    return all(c is not None and c.around is first.around and c.rest == first.rest for c in cuts)


def _cut(site: Site, access: Access, storage: Storage, dim: int) -> Cut | None:
    """How a site cuts a dimension of a storage short; None where it does not, or where the loop that does so does more."""
    index = access.indices[dim].add(storage.lows[dim], -1)
    own = next((loop for loop in site.inner if index.terms == {loop: 1}), None)
    if own is None or index.const or access.extents[dim] != 1 or own.extent != storage.extents[dim]:
        return None
    conds = [c for c in site.conds if own in c.loops()]
    if len(conds) != 1 or any(own in c.loops() for c in site.pads):
        return None
    cond, = conds
    around = next((loop for loop in storage.path if cond.terms == {own: -1, loop: -own.extent}), None)
    if around is None or around.thread:
        return None
    rest = cond.const - own.extent * (around.extent - 1) + 1
    return Cut(own, cond, around, rest) if 0 < rest < own.extent else None


def passes(site: Site, storages: Mapping[Buffer, Storage], ends: Ends) -> Iterator[tuple[Site, Mapping[Buffer, Storage]]]:
    """A site as one for all passes that hold as much, each with the storages of these: the last tile along a loop is apart.

    Args:
        site: the site.
        storages: where its buffers live.
        ends: of the program.
    """
    cuts = [(access.buffer, dim, cut) for access, _ in site.accesses() for dim in ends.get(access.buffer, ())
            if (cut := _cut(site, access, storages[access.buffer], dim)) is not None]
    if not cuts:
        yield site, storages
        return
    around = cuts[0][2].around
    mine = [(buffer, dim, cut) for buffer, dim, cut in cuts if cut.around is around]
    conds = [c for c in site.conds if not any(c is cut.cond for _, _, cut in mine)]
    yield from passes(replace(site, conds=[*conds, Lin({around: -1}, around.extent - 2)]), storages, ends)
    shorter = {cut.own: Loop(cut.own.name, cut.rest, notes=cut.own.notes) for _, _, cut in mine}
    table = {loop: Lin({new: 1}) for loop, new in shorter.items()}
    held = dict(storages)
    for buffer, dim, cut in mine:
        extents = held[buffer].extents
        held[buffer] = replace(held[buffer], extents=(*extents[:dim], cut.rest, *extents[dim + 1 :]))

    def moved(access: Access) -> Access:
        return Access(access.buffer, tuple([index.substitute(table) for index in access.indices]), access.extents)

    last = replace(
        site, path=tuple([shorter.get(loop, loop) for loop in site.path]), write=moved(site.write),
        reads=[moved(read) for read in site.reads], conds=[*conds, Lin({around: 1}, 1 - around.extent)],
    )
    yield from passes(last, held, ends)
