"""In which turn the nests of a form run, and from which turn on what stands outside of all loops is on chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from space.nest import Nest
from space.sites import Site, reads_of


@dataclass(frozen=True)
class Turn:
    """When a nest runs.

    Args:
        number: how many nests run before it.
        early: whether a block of it stands where another nest runs: it is made where it is stored, in a loop.
        pads: by operand that a block pads, how many nests run before that block where no loop is around it.
    """

    number: int
    early: bool
    pads: dict[int, int]


def turns_of(nests: Sequence[Nest], sites: Sequence[Site]) -> tuple[Turn, ...]:
    """The turn of every nest.

    Args:
        nests: of a form, in program order.
        sites: the form's blocks, in program order.
    """
    places = {site.block.name: n for n, site in enumerate(sites)}
    stands = [_place(nest, sites, places) for nest in nests]
    order = sorted(range(len(nests)), key=stands.__getitem__)
    found: dict[int, Turn] = {}
    end = 0
    for number, n in enumerate(order):
        nest = nests[n]
        first = min(places[name] for name in (*nest.blocks, *nest.also, nest.out))
        pads = {k: min(number, sum(stands[m] < places[o.producer] for m in order[:number]))
                for k, o in enumerate(nest.operands) if o.producer is not None}
        found[n] = Turn(number, first < end or stands[n] < places[nest.out], pads)
        end = stands[n]
    return tuple(found[n] for n in range(len(nests)))


def _place(nest: Nest, sites: Sequence[Site], places: dict[str, int]) -> int:
    """Where the loops of a nest come to stand: at its last store, or at its first if something in between reads one of them."""
    stores = [sites[places[name]] for name in (*nest.also, nest.out)]
    first, last = places[stores[0].block.name], places[nest.out]
    stored, own = {s.store.buffer for s in stores}, {*nest.blocks, *nest.also}
    between = [s for s in sites[first:last] if s.block.name not in own]
    return first if any(x.buffer in stored for s in between for x in reads_of(s)) else last
