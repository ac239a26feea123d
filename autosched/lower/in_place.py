"""Results over operands: where nobody reads an operand afterwards, an elementwise result takes its storage.

Also that of a larger one in which a window of two slides on, or where each window has an element that no other one reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autosched.ir.cover import encloses, separates
from autosched.ir.scopes import ACC
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Lin
from autosched.lower.allocate import lifetime
from autosched.lower.classify import COMMUTATIVE, Imm, Leaf, Node, Op
from autosched.lower.regions import box, common, disjoint, reads_ahead, shape_of
from autosched.lower.rewrites import map_site, uses_of
from autosched.lower.tree import Access, Site, Tree

AGAIN = 2  # times that a value may read an element in whose place it works: for each further time that would be copied aside


def heads(node: Node) -> list[Access]:
    """The operands that may be the first of the chain, so that the rest can work in their place."""
    if isinstance(node, Leaf):
        return [node.access]
    first = _innermost(node)
    if first is None:
        return []
    both = [first.a, first.b] if first.op in COMMUTATIVE else [first.a]
    return [x.access for x in both if isinstance(x, Leaf)]


def share_in_place(tree: Tree, slides: bool, waits: bool = True) -> tuple[bool, bool]:
    """Lets results take the storage of operands that die with them; see the module.

    Args:
        tree: the program.
        slides: whether also that of larger ones.
        waits: whether also that of what a store before them reads, until which they wait; else, where they begin with an
            operation with a constant, which moves it at no cost, they have a storage of their own, of as many banks.

    Returns:
        Whether any took a larger one's, and whether any has its own in place of waiting.
    """
    sites = tree.index()
    apart: dict[Buffer, Buffer] = {}  # results that do not wait, and the operands in whose storage they would
    refused: dict[tuple[Site, Access], set[Buffer]] = {}  # who asked, and the buffers that decided
    slid: dict[Buffer, set[tuple[int, ...]]] = {}  # by buffer, the shapes of results that slid in it
    larger = False
    while True:
        uses = uses_of(sites)
        merge = _shared(tree, sites, uses, refused, slid if slides else None, None if waits else apart)
        if merge is None:
            for result, operand in apart.items():
                if operand in tree.banks:
                    tree.banks[result] = max(tree.banks[operand], tree.banks.get(result, 1))
            return larger, bool(apart)
        gone, kept, places = merge.gone, merge.kept, merge.places
        shapes = slid.pop(gone, set()) | ({shape_of(gone)} if merge.slides else set())
        if shapes and not places:
            slid.setdefault(kept, set()).update(shapes)
        larger = larger or merge.slides or bool(places)
        refused = {asked: buffers for asked, buffers in refused.items() if buffers.isdisjoint((gone, kept))}
        _rename(tree, sites, merge)


@dataclass(frozen=True)
class _Merge:
    """A result that takes the storage of an operand.

    Args:
        gone: the result's buffer.
        kept: the operand's.
        slides: whether that is larger, and a window slides on in it.
        places: per dimension, by how much an index of the result is multiplied and moved on there; () where it is the same.
    """

    gone: Buffer
    kept: Buffer
    slides: bool = False
    places: tuple[tuple[int, int], ...] = ()


def _shared(
    tree: Tree, sites: list[Site], uses: dict[Buffer, list[tuple[Site, Access, bool]]],
    refused: dict[tuple[Site, Access], set[Buffer]], slid: Mapping[Buffer, set[tuple[int, ...]]] | None,
    apart: dict[Buffer, Buffer] | None,
) -> _Merge | None:
    """The first result that may take the storage of an operand, and how; in ``apart`` go those that had better not."""
    for site in sites:
        if site.kind != "alu" or any(r.buffer is site.write.buffer for r in site.reads):
            continue
        for read in heads(site.value):
            if (site, read) in refused or sum(r.buffer is read.buffer and r.same_place(read) for r in site.reads) > AGAIN:
                continue
            if _can_share(site, read, uses):
                if apart is None or not _would_wait(site, read, uses):
                    return _Merge(site.write.buffer, read.buffer)
                apart[site.write.buffer] = read.buffer
            if slid is not None and _can_slide(tree, site, read, uses, slid):
                return _Merge(site.write.buffer, read.buffer, True)
            places = _own_places(tree, site, read, uses) if slid is not None else ()
            if places:
                return _Merge(site.write.buffer, read.buffer, False, places)
            refused[site, read] = {site.write.buffer, read.buffer}
    return None


def _rename(tree: Tree, sites: list[Site], merge: _Merge) -> None:
    gone, kept = merge.gone, merge.kept
    for site in sites:
        if any(a.buffer is gone for a, _ in site.accesses()):
            map_site(site, lambda lin: lin, lambda b: kept if b is gone else b, lambda a: _placed(a, merge))
    if gone in tree.banks:
        tree.banks[kept] = max(tree.banks[gone], tree.banks.get(kept, 1))


def _placed(access: Access, merge: _Merge) -> Access:
    """An access with its indices where the result stands, if it is one of the result."""
    if access.buffer is not merge.gone or not merge.places:
        return access
    return replace(access, indices=tuple([i.scale(by).plus(at) for i, (by, at) in zip(access.indices, merge.places)]))


def _can_share(site: Site, read: Access, uses: dict[Buffer, list[tuple[Site, Access, bool]]]) -> bool:
    a, b = read.buffer, site.write.buffer
    if a.scope != ACC or shape_of(a) != shape_of(b) or not read.same_place(site.write):
        return False
    if sum(r.buffer is a for r in site.reads) > 1 and any(r.buffer is a and not r.same_place(read) for r in site.reads):
        return False
    if any(s.order > site.order for s, _, _ in uses[a]):
        return False
    shared = common([s.outer for s, _, _ in uses[a]])
    if any(s.order < site.order and s.path[: len(shared)] == shared for s, _, _ in uses[b]):
        return False
    result = box(site.write, shared)
    if not all(encloses(result, box(w, shared)) for _, w, is_write in uses[a] if is_write):
        return False
    for depth in range(len(lifetime(uses[a])), len(site.outer)):
        # A loop that repeats this site while the operand is there, still being made, or kept in part for the next turn, must
        # work on new elements each time.
        loop, fixed = site.outer[depth], site.outer[: depth + 1]
        others = [x for s, x, _ in uses[a] if s is not site and loop in s.path]
        if (loop.extent == 1 and not others) or any(c == Lin({loop: 1}, 1 - loop.extent) for c in site.conds):
            continue
        mine = box(site.write, fixed)
        if not separates(mine, loop) or not all(encloses(mine, box(x, fixed)) for x in others):
            return False
    return True


def _would_wait(site: Site, read: Access, uses: dict[Buffer, list[tuple[Site, Access, bool]]]) -> bool:
    """Whether a result in the storage of its operand waits for a store that reads it, and might stand elsewhere at no cost."""
    first = _innermost(site.value)
    moves = first is not None and (isinstance(first.a, Imm) or isinstance(first.b, Imm))
    return moves and any(s.kind == "store" for s, _, _ in uses[read.buffer])


def _can_slide(
    tree: Tree, site: Site, read: Access, uses: dict[Buffer, list[tuple[Site, Access, bool]]],
    slid: Mapping[Buffer, set[tuple[int, ...]]],
) -> bool:
    """Whether a result may stand in the storage of a larger operand.

    It is a window of two, whose second element is read ahead, or goes on from one that slid there. Not where it begins with an
    operation with a constant, which moves it at no cost: a storage of its own is dense, and has banks of its own.
    """
    a, b = read.buffer, site.write.buffer
    larger = len(a.shape) == len(b.shape) and all(m >= n for m, n in zip(shape_of(a), shape_of(b)))
    if a.scope != ACC or not larger or not read.same_place(site.write) or tree.banks.get(b, 1) > tree.banks.get(a, 1):
        return False
    step = _innermost(site.value)
    other = None if step is None else step.b if isinstance(step.a, Leaf) and step.a.access is read else step.a
    if isinstance(other, Imm):
        return False
    second = other.access if isinstance(other, Leaf) and other.access.buffer is a else None
    if second is None and shape_of(b) not in slid.get(a, ()):
        return False
    if second is not None and (second.same_place(read) or not reads_ahead(site, second)):
        return False
    if any(r.buffer is a for r in site.reads if r is not read and r is not second):
        return False  # the chain has gone on by then
    if any(s.order > site.order for s, _, _ in uses[a]) or any(s.order < site.order for s, _, _ in uses[b]):
        return False
    alive = lifetime(uses[a])
    return len(alive) >= len(site.outer) and len(lifetime(uses[b])) >= len(alive)


def _own_places(
    tree: Tree, site: Site, read: Access, uses: dict[Buffer, list[tuple[Site, Access, bool]]]
) -> tuple[tuple[int, int], ...]:
    """Where in the storage of a larger operand a result may stand: at elements that no other of its instances reads; or ().

    So of a window of three that moves on by two, at the one in the middle. Not where it begins with an operation with a
    constant, for the reasons of ``_can_slide``, nor with the operand alone.
    """
    a, b, step = read.buffer, site.write.buffer, _innermost(site.value)
    if a.scope != ACC or len(a.shape) != len(b.shape) or tree.banks.get(b, 1) > tree.banks.get(a, 1):
        return ()
    if step is None or not (isinstance(step.a, Leaf) and isinstance(step.b, Leaf)):
        return ()
    if step.a.access.buffer is not a or step.b.access.buffer is not a:
        return ()
    places = [_place(to, at) for to, at in zip(site.write.indices, read.indices)]
    found = tuple(p for p in places if p is not None)
    if len(found) < len(places) or all(p == (1, 0) for p in found):
        return ()
    if any(by * (n - 1) + at >= m for (by, at), m, n in zip(found, shape_of(a), shape_of(b))):
        return ()
    if any(s.order > site.order for s, _, _ in uses[a]) or any(s.order < site.order for s, _, _ in uses[b]):
        return ()
    if any(s.kind == "store" for s, _, _ in uses[b]):
        return ()  # element by element
    alive = lifetime(uses[a])
    turns = site.path[len(alive) : len(site.outer)]  # in which it takes what is there of the operand bit by bit
    if len(lifetime(uses[b])) < len(alive) or any(s is not site and set(turns) & set(s.path) for s, _, _ in uses[a]):
        return ()
    moved = replace(site, write=read, own=len(site.path) - min(len(alive), len(site.outer)))
    if set(moved.inner) - site.write.loops():
        return ()
    second = step.b.access if step.a.access is read else step.a.access
    for other in (x for x in site.reads if x.buffer is a and x is not read):
        if not disjoint(moved, other) and not (other is second and reads_ahead(moved, other)):
            return ()
    return found


def _place(to: Lin, at: Lin) -> tuple[int, int] | None:
    """By how much one index is multiplied and moved on to be another one; None where that is not so for whole numbers."""
    by = 1
    if to.terms:
        term, c = next(iter(to.terms.items()))
        by = at.terms.get(term, 0) // c
        if by < 1:
            return None
    moved = at.add(to, -by)
    return None if moved.terms or moved.const < 0 else (by, moved.const)


def _innermost(node: Node) -> Op | None:
    """The operation that the chain begins with; None for a plain copy."""
    while isinstance(node, Op) and (isinstance(node.a, Op) or isinstance(node.b, Op)):
        node = node.b if isinstance(node.b, Op) else node.a
    return node if isinstance(node, Op) else None
