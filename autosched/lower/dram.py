"""Where buffers, micro-ops and instructions live in DRAM: pages of their own, shared by what is never alive together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from autosched.ir.stmt import Buffer
from autosched.lower.regions import shape_of
from autosched.lower.tree import Site, Tree
from sim.config import PAGE_BYTES


@dataclass(frozen=True, slots=True)
class Dram:
    """Byte addresses of what lives in DRAM.

    Args:
        buffers: first byte of each buffer.
        names: first byte of each by name, in order of address.
        zeros: a page of zeros for what a load pads and no DMA can, or 0 when there is none.
        uops: first byte of the micro-ops.
        insns: first byte of the instructions.
    """

    buffers: Mapping[Buffer, int]
    names: Mapping[str, int]
    zeros: int
    uops: int
    insns: int


@dataclass(slots=True)
class Pages:
    """Hands out DRAM from 0x1000, each object on a page of its own."""

    next: int = PAGE_BYTES
    names: dict[str, int] = field(default_factory=dict)

    def take(self, name: str, size: int) -> int:
        """The first byte of ``size`` bytes."""
        at = self.next
        self.names[name] = at
        self.next += whole_pages(size)
        return at


def buffer_bytes(buffer: Buffer) -> int:
    """Bytes of a DRAM buffer."""
    from autosched.ir.expr import bits

    return prod(shape_of(buffer)) * bits(buffer.dtype) // 8


def place_buffers(
    params: Iterable[Buffer], intermediates: Iterable[Buffer], lives: Mapping[Buffer, tuple[int, int]]
) -> tuple[Pages, dict[Buffer, int]]:
    """Pages of the parameters in signature order, then of the intermediates, those never alive together on the same ones.

    Args:
        params: the parameters.
        intermediates: buffers that nobody outside sees.
        lives: per intermediate, the first and the last statement of the program that touches it.
    """
    pages = Pages()
    table = {}
    for buffer in params:
        table[buffer] = pages.take(_fresh(pages, buffer), buffer_bytes(buffer))
    first = end = pages.next
    placed: list[Buffer] = []
    for buffer in sorted(intermediates, key=lambda b: lives[b]):
        rivals = sorted(
            (table[p], table[p] + whole_pages(buffer_bytes(p))) for p in placed
            if lives[p][0] <= lives[buffer][1] and lives[buffer][0] <= lives[p][1]
        )
        at, size = first, whole_pages(buffer_bytes(buffer))
        for low, high in rivals:
            if at + size <= low:
                break
            at = max(at, high)
        pages.names[_fresh(pages, buffer)] = table[buffer] = at
        placed.append(buffer)
        end = max(end, at + size)
    pages.next = end
    return pages, table


def lives_of(buffers: Iterable[Buffer], sites: Iterable[Site], tree: Tree) -> dict[Buffer, tuple[int, int]]:
    """Per buffer, the first and the last of the program's outermost statements that touches it."""
    place = {id(node): k for k, node in enumerate(tree.root.body)}
    wanted = set(buffers)
    found: dict[Buffer, tuple[int, int]] = {}
    for site in sites:
        at = place[id(site.path[0] if site.path else site)]
        for access, _ in site.accesses():
            if access.buffer in wanted:
                low, high = found.get(access.buffer, (at, at))
                found[access.buffer] = min(low, at), max(high, at)
    return found


def whole_pages(size: int) -> int:
    """Bytes of the pages that ``size`` bytes take."""
    return -(-max(size, 1) // PAGE_BYTES) * PAGE_BYTES


def _fresh(pages: Pages, buffer: Buffer) -> str:
    name = buffer.name
    while name in pages.names:
        name += "_"
    return name
