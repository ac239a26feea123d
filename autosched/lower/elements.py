"""From scalar indices to element indices: the lane loops of a site, and the addresses of its accesses in elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autosched.errors import LoweringError
from autosched.ir.expr import IntImm
from autosched.ir.scopes import DRAM
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Ints, Lin, Loop
from autosched.lower.regions import shape_of
from autosched.lower.storage import Storage
from autosched.lower.tree import Access, Site


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """An access in elements: ``offset`` from the start of a storage's copy, or of a DRAM buffer (storage None)."""

    offset: Lin
    storage: Storage | None

    def base(self, values: Mapping[Loop, Ints], count: int) -> Ints:
        """Element indices for ``count`` instances; loops without a value count as 0."""
        start = self.storage.copy_offset(values) if self.storage is not None else 0
        result = np.empty(count, dtype=np.int64)
        result[:] = start + self.offset.evaluate(values)
        return result


@dataclass(frozen=True, eq=False, slots=True)
class Elements:
    """A site in elements.

    Args:
        loops: the site's own loops that step over elements.
        write: the write.
        reads: by access, as they appear in the site.
    """

    loops: tuple[Loop, ...]
    write: Place
    reads: dict[int, Place]


def _dram_flat(access: Access) -> Lin:
    buffer = access.buffer
    total, stride = Lin(), 1
    if isinstance(buffer.elem_offset, IntImm):
        total = total.plus(buffer.elem_offset.value)
    strides: list[int] = []
    if buffer.strides:
        for given in buffer.strides:
            if not isinstance(given, IntImm):
                raise LoweringError("symbolic", f"{buffer.name} has a symbolic stride")
            strides.append(given.value)
    else:
        for extent in reversed(shape_of(buffer)):
            strides.insert(0, stride)
            stride *= extent
    return Lin.total([(total, 1), *zip(access.indices, strides)])


def _in_elements(flat: Lin, lanes: int, lane_loops: Mapping[Loop, int], buffer: Buffer, name: str) -> Lin:
    terms = {}
    for term, c in flat.terms.items():
        if isinstance(term, Loop) and term in lane_loops:
            continue
        if c % lanes:
            raise LoweringError(
                "element", f"block {name}: {buffer.name} is cut inside an element of {lanes} lanes (stride {c} over {term})"
            )
        terms[term] = c // lanes
    for loop, c in lane_loops.items():
        if flat.coef(loop) != c:
            raise LoweringError("element", f"block {name}: lanes of {buffer.name} do not line up with those of the destination; "
                                "an instruction works on whole elements")
        if any(not isinstance(t, Loop) and loop in t.loops for t in flat.terms):
            raise LoweringError("element", f"block {name}: lanes of {buffer.name} are not in order")
    if flat.const % lanes:
        raise LoweringError("element", f"block {name}: {buffer.name} starts inside an element of {lanes} lanes")
    return Lin(terms, flat.const // lanes)


def _lane_loops(flat: Lin, site: Site, lanes: int) -> dict[Loop, int]:
    found = {loop: flat.coef(loop) for loop in site.inner if flat.coef(loop) % lanes}
    step = 1
    for loop, c in sorted(found.items(), key=lambda item: item[1]):
        if c != step:
            step = 0
            break
        step *= loop.extent
    if step != lanes:
        raise LoweringError(
            "element", f"block {site.name} does not write whole elements of {site.write.buffer.name}: the loops inside an "
            f"element cover {step or 'no dense part'} of {lanes} lanes",
        )
    conditional = {loop for c in (*site.conds, *site.pads) for loop in c.loops()}
    for loop in found:
        if loop in conditional:
            raise LoweringError(
                "element", f"block {site.name}: a condition on {loop.name} cuts inside an element of {site.write.buffer.name}"
            )
    return found


def elements(site: Site, storages: Mapping[Buffer, Storage], lanes: int) -> Elements:
    """A copy or an elementwise site in elements.

    Args:
        site: the site; every own loop steps over lanes or over elements.
        storages: where SRAM buffers live.
        lanes: scalars of one element.

    Raises:
        LoweringError: kind ``element``: an instance that is not made of whole elements.
    """
    write = flat_of(site.write, storages)
    lane_loops = _lane_loops(write, site, lanes)
    places = {
        id(r): Place(_in_elements(flat_of(r, storages), lanes, lane_loops, r.buffer, site.name), storages.get(r.buffer))
        for r in site.reads
    }
    target = Place(_in_elements(write, lanes, lane_loops, site.write.buffer, site.name), storages.get(site.write.buffer))
    return Elements(tuple([loop for loop in site.inner if loop not in lane_loops]), target, places)


def flat_of(access: Access, storages: Mapping[Buffer, Storage]) -> Lin:
    """Offset in scalars."""
    return _dram_flat(access) if access.buffer.scope == DRAM else storages[access.buffer].flat(access)


def whole_element(access: Access, storages: Mapping[Buffer, Storage], name: str) -> Place:
    """The element that a view covers exactly (the operand of a tensor intrinsic).

    Raises:
        LoweringError: kind ``element``: the view is not one element.
    """
    storage = storages[access.buffer]
    span, stride, count = 0, 1, 1
    for extent, held in zip(reversed(access.extents), reversed(storage.extents)):
        span += (extent - 1) * stride
        stride *= held
        count *= extent
    if count != storage.lanes or span != storage.lanes - 1:
        raise LoweringError(
            "element",
            f"block {name}: the view {access.extents} of {access.buffer.name} is not one element of {storage.lanes} lanes",
        )
    return Place(_in_elements(storage.flat(access), storage.lanes, {}, access.buffer, name), storage)
