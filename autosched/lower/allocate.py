"""Where every buffer lives: SRAM storages by scope, bank and thread, and DRAM pages.

A storage is what one pass of its scope (the innermost loop around all accesses in which nothing read comes from an earlier pass)
touches of a buffer, dense and row-major. It has two copies under ``double_buffer_scope`` (more in a software pipeline), used in
turn by successive passes, and one for each virtual thread around it. Storages that are never alive together share memory, but
only when they do not fit side by side: sharing costs overlap. What a memory must hold at least is said in ``capacity``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from autosched.errors import LoweringError
from autosched.ir.cover import Box, Side, covers, encloses, hull, joined, separates
from autosched.ir.forms import NO_TERMS, Terms, last_of
from autosched.ir.scopes import ACC, DRAM, INP, WGT
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Ints, Lin, Loop
from autosched.lower.capacity import Held, copies_of, needed
from autosched.lower.regions import box, common, least, shape_of, turning, writes_all, written
from autosched.lower.tree import Access, Site, Tree
from autosched.target import Target
from sim.config import PAGE_BYTES, VTAConfig


@dataclass(eq=False, slots=True)
class Storage:
    """A buffer's place in SRAM.

    Args:
        buffer: the buffer.
        path: the loops around its scope; one pass of the innermost is one life.
        lows: first index held, per dimension.
        extents: indices held, per dimension.
        lanes: scalars of one element.
        size: elements of one copy.
        banks: copies used in turn by successive passes.
        threads: virtual threads around the scope, each iteration with copies of its own.
        life: the first and the last site, by order, of the statements that run while it is alive.
        address: first element.
        turned: the copy that the first pass uses.
    """

    buffer: Buffer
    path: tuple[Loop, ...]
    lows: tuple[Lin, ...]
    extents: tuple[int, ...]
    lanes: int
    size: int
    banks: int
    threads: tuple[Loop, ...]
    life: tuple[int, int]
    address: int = 0
    turned: int = 0
    _steps: tuple[Mapping[Loop, int], Mapping[Loop, int]] | None = field(default=None, init=False, repr=False)

    @property
    def total(self) -> int:
        """Elements of all copies."""
        return self.size * self.banks * prod(t.extent for t in self.threads)

    @property
    def last(self) -> int:
        """Which copy the last pass uses."""
        return (prod(loop.extent for loop in self.path if not loop.thread) - 1 + self.turned) % self.banks

    def flat(self, access: Access) -> Lin:
        """Offset in scalars of an access from the start of a copy."""
        parts, stride = list[tuple[Lin, int]](), 1
        for index, low, extent in zip(reversed(access.indices), reversed(self.lows), reversed(self.extents)):
            parts.append((index, stride))
            if low.terms or low.const:
                parts.append((low, -stride))
            stride *= extent
        return Lin.total(parts)

    def copy_steps(self) -> tuple[Mapping[Loop, int], Mapping[Loop, int]]:
        """By loop, by how many copies an iteration turns to another bank, and how many elements a thread's copies are apart."""
        if self._steps is not None:
            return self._steps
        turns, passes = dict[Loop, int](), 1
        if self.banks > 1:
            for loop in reversed(self.path):
                if not loop.thread:
                    if loop.extent > 1 and passes % self.banks:
                        turns[loop] = passes % self.banks
                    passes *= loop.extent
        apart, stride = dict[Loop, int](), self.size * self.banks
        for loop in reversed(self.threads):
            apart[loop] = stride
            stride *= loop.extent
        self._steps = turns, apart
        return turns, apart

    def copy_offset(self, values: Mapping[Loop, Ints]) -> int | Ints:
        """First element of the copy that each of some instances uses, from the loops' values."""
        turns, apart = self.copy_steps()
        offset: int | Ints = self.address
        for loop, step in apart.items():
            offset = offset + values[loop] * step
        if self.banks > 1:
            turn: int | Ints = self.turned
            for loop, step in turns.items():
                turn = turn + values[loop] * step
            offset = offset + turn % self.banks * self.size
        return offset


def lanes_of(scope: str, config: VTAConfig) -> int:
    """Scalars of one element of a memory."""
    if scope == WGT:
        return config.block_out * config.block_in
    return config.batch * (config.block_in if scope == INP else config.block_out)


Use = tuple[Site, Access, bool]
Spans = Mapping[int, tuple[int, int]]  # by a storage's identity, the first and the last site that uses it


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
        _place(mine, scope, target.capacity(scope), spans, scope == ACC and target.semantics != "chisel")
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
    for k, (_, access, _) in enumerate(uses):
        this = _widened(box(access, path), shape)
        region = this if k == 0 else hull(region, this, turning(())) if region is not None else None
    # A dimension that the accesses may overshoot (the last tile of a split that does not divide) is held whole.
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


@lru_cache(maxsize=4096)
def arranged(
    needs: tuple[tuple[int, int, int, tuple[int, int]], ...], scope: str, depth: int, semantics: str
) -> tuple[tuple[int, int, int], ...]:
    """Where storages of a memory come to stand: of each the address, and the copies that its first and its last pass use.

    Args:
        needs: of each, in the order in which they are used first: elements of a copy, copies, passes, and the first and the last
            site of its life.
        scope: the memory.
        depth: its elements.
        semantics: of the target.
    """
    any_ = Buffer("", ())
    storages = [Storage(any_, (Loop("", passes),), (), (), 1, size, copies, (), life) for size, copies, passes, life in needs]
    spans = {id(s): s.life for s in storages}
    _arrange(storages, scope, depth, spans, scope == ACC and semantics != "chisel")
    return tuple([(s.address, s.turned, s.last) for s in storages])


def _place(storages: list[Storage], scope: str, depth: int, spans: Spans, again: bool) -> None:
    """Gives every storage of a memory its address; ``again``: rather where another has been, where nothing waits for that."""
    need = _arrange(storages, scope, depth, spans, again)
    if need > depth:
        parts = ", ".join(
            f"{s.buffer.name} {s.size}" + (f" x {s.total // s.size} copies" if s.total != s.size else "") for s in storages
        )
        raise LoweringError("capacity", f"{scope} holds {depth} elements and the program needs {need}: {parts}")


def _arrange(storages: list[Storage], scope: str, depth: int, spans: Spans, again: bool) -> int:
    """As ``_place``; how many elements they need, and where these are too many their addresses mean nothing."""
    if not again and (total := sum(s.total for s in storages)) <= depth:
        at = 0
        for s in storages:
            s.address = at
            at += s.total
        return total
    need = int(needed([Held(scope, s.size, s.total // s.size, *s.life) for s in storages]))
    if need <= depth:
        large = sorted(storages, key=lambda s: -s.total)
        # Placed by length of life, those around others do not come to lie on top of them.
        long = sorted(storages, key=lambda s: s.life[0] - s.life[1])
        # Placed as they come, each sees the one before it: of many, as networks have, the large ones leave the others no room.
        early = sorted(storages, key=lambda s: s.life)
        # By preference where storages that follow each other do not meet, else as tight as it goes.
        found: list[Packing] = []
        for order, careful in ((large, True), (long, True), (early, True), (large, False), (long, False)):
            if not careful and found:
                break
            packing = _packed(order, depth, spans, careful, again)
            found += [packing] if packing.high <= depth else []
            if found and not found[-1].meeting[0]:
                break
        best = min(found, key=lambda packing: packing.meeting, default=packing)
        best.take()
        need = best.high
    return need


@dataclass(frozen=True, slots=True)
class Packing:
    """Places of all storages of a memory.

    Args:
        high: the end of what they take.
        meeting: elements in which storages meet that follow each other, as far as was looked: at once, later on, and one pass
            further than at once.
        places: each with its address and the copy that its first pass uses.
    """

    high: int
    meeting: tuple[int, int, int]
    places: tuple[tuple[Storage, int, int], ...]

    def take(self) -> None:
        """Gives every storage its place."""
        for s, at, turned in self.places:
            s.address, s.turned = at, turned


def _packed(storages: Sequence[Storage], depth: int, spans: Spans, careful: bool, again: bool) -> Packing:
    """Places storages one after the other, sharing memory between those that are never alive together.

    Args:
        storages: of one memory, in the order in which they are placed.
        depth: its elements.
        spans: who uses each, from when to when.
        careful: let the first copy of a storage stay clear of the copy that the one before it used last, whose STORE or
            product may still be under way.
        again: what its other copies wait for matters less than that they stand where others have been.
    """
    placed: list[Storage] = []

    def apart(s: Storage, p: Storage) -> bool:
        return s.life[1] < p.life[0] or p.life[1] < s.life[0]

    def place(s: Storage, beside: Sequence[Storage]) -> None:
        rivals = sorted((p for p in beside if not apart(s, p)), key=lambda p: p.address)
        others = [p for p in beside if apart(s, p) and not _between(s, p, spans)] if careful else []
        spots = {0, *[p.address + p.total for p in rivals]}
        spots |= {p.address + k * p.size for p in others for k in range(1, p.total // p.size + 1)}
        if others:
            spots.add(max(0, depth - s.total))
        free = [
            at for at in sorted(spots)
            if all(at + s.total <= p.address or p.address + p.total <= at for p in rivals)
        ]
        fits = [at for at in free if at + s.total <= depth] or free[:1]
        turns = range(s.banks if others and not s.threads else 1)
        *_, s.address, s.turned = min(
            (*_met([_meeting(s, at, turned, p, spans, again) for p in others]), at, turned) for at in fits for turned in turns
        )

    def packing() -> Packing:
        met = _met([
            _meeting(s, s.address, s.turned, p, spans, again) for n, s in enumerate(placed) for p in placed[:n]
            if careful and apart(s, p) and not _between(s, p, spans)
        ])
        return Packing(max(s.address + s.total for s in placed), met, tuple([(s, s.address, s.turned) for s in placed]))

    for s in storages:
        place(s, placed)
        placed.append(s)
    found = packing()
    if found.meeting[0]:
        # Who came first did not know where the others would stand.
        for s in placed:
            place(s, [p for p in placed if p is not s])
        second = packing()
        found = second if second.high <= depth and second.meeting < found.meeting else found
    found.take()
    return found


def _between(a: Storage, b: Storage, spans: Spans) -> bool:
    """Whether a third storage of the same memory lives wholly between two: then the work of the earlier one is long done."""
    first, last = sorted((spans[id(a)], spans[id(b)]))
    return any(first[1] < low and high < last[0] for low, high in spans.values())


def _met(meetings: Iterable[tuple[int, int, int]]) -> tuple[int, int, int]:
    """All meetings together."""
    at_once = later = soon = 0
    for now, then, next_ in meetings:
        at_once, later, soon = at_once + now, later + then, soon + next_
    return at_once, later, soon


def _meeting(s: Storage, at: int, turned: int, p: Storage, spans: Spans, once: bool) -> tuple[int, int, int]:
    """Elements of an earlier storage's work that a later one waits for: its first copy, any of its copies, and those that are a
    pass apart.

    The work is on the copy which the earlier one used last, and goes through it from its first element on. In a loop that holds
    both they take turns: all that they share counts. Of several copies whoever fills them is further ahead the more passes lie
    between the earlier one's and the later one's: where these meet a pass later than they could at once, it is one pass ahead.

    Args:
        s: one of the two.
        at: where it is to stand.
        turned: which of its copies its first pass is to use.
        p: the other one, which has its place.
        spans: who uses each, from when to when.
        once: the first copy alone is looked at.
    """
    if any(loop.extent > 1 for loop in common([s.path, p.path])):
        both = max(0, min(at + s.total, p.address + p.total) - max(at, p.address))
        return both, both, 0
    if spans[id(s)][0] < spans[id(p)][0]:
        earlier, later, start = s, p, p.address
        ends, begins = (at, s.last - s.turned + turned), (p.address, p.turned)
    else:
        earlier, later, start = p, s, at
        ends, begins = (p.address, p.last), (at, turned)

    def before(passes: int) -> int:
        return ends[0] + (ends[1] - passes) % earlier.banks * earlier.size

    def after(passes: int) -> int:
        return begins[0] + (begins[1] + passes) % later.banks * later.size

    last, first = before(0), after(0)
    waits = _until(last, earlier.size, first, later.size)
    if once:
        return waits, 0, 0
    soon = 0
    if later.banks > 1:
        soon += _until(last, earlier.size, after(1), later.size)
    if earlier.banks > 1:
        soon += _until(before(1), earlier.size, first, later.size)
    return waits, _until(last, earlier.size, start, later.total), soon


def _until(start: int, size: int, other: int, span: int) -> int:
    """How many of ``size`` elements from ``start`` on it takes until the last that is among ``span`` from ``other`` on, or 0."""
    end = min(start + size, other + span)
    return end - start if end > max(start, other) else 0


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
