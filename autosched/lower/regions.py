"""What accesses touch with some loops fixed and the others run through: boxes of ``ir.cover`` whose terms are loops and atoms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from math import gcd, prod

import numpy as np

from autosched.ir.cover import Box, Side, apart, covers, cut_off, cuts_of, left_out, swept, within
from autosched.ir.expr import IntImm
from autosched.ir.forms import Form, Known, Span, Terms, ranging, together
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Atom, Ints, Lin, Loop, Term, floordiv
from autosched.lower.tree import Access, Site

MOST_INSTANCES = 1 << 14  # of a site, that are counted out


def _indices(access: Access) -> list[tuple[Form, int]]:
    return [((index.terms, index.const), extent) for index, extent in zip(access.indices, access.extents)]


@lru_cache(8192)
def box(access: Access, fixed: tuple[Loop, ...]) -> Box:
    """The box of an access when the ``fixed`` loops stand still, inside the buffer where that is plain."""
    keep = set(fixed)
    inner: dict[Term, Span] = {}
    atoms: set[Term] = set()
    parted: dict[int, list[tuple[Atom, int]]] = {}
    for d, index in enumerate(access.indices):
        for term, c in index.terms.items():
            if isinstance(term, Atom):
                if not term.loops <= keep:
                    low, high = Lin({term: 1}).bounds()
                    inner[term] = low, high - low + 1
                    atoms.add(term)
                    if term.op == "//" and not keep.isdisjoint(term.loops):
                        parted.setdefault(d, []).append((term, c))
            elif term not in keep:
                inner[term] = 0, term.extent
    found = swept(_indices(access), inner, atoms)
    for d, terms in parted.items():
        found[d] = _between(found[d], terms, keep, inner)
    return within(found, shape_of(access.buffer))


def touched(site: Site, access: Access, fixed: tuple[Loop, ...]) -> Box:
    """The box of an access when the ``fixed`` loops stand still, without what conditions on its site keep it from.

    A last slice that is smaller than the others reaches beyond what there is; conditions whose ends nobody can compare with
    those of the box, as they move with a loop that stands still, cut nothing off.

    Args:
        site: the site.
        access: one of its.
        fixed: the loops.
    """
    found = box(access, fixed)
    if not site.conds:
        return found
    keep, indices = set(fixed), _indices(access)

    def moves(term: Term) -> bool:
        return not (term.loops <= keep if isinstance(term, Atom) else term in keep)

    for cond in site.conds:
        cuts = cuts_of([(cond.terms, cond.const)], indices, moves)
        found = (cut_off(found, cuts) if cuts else None) or found
    return found


def _between(side: Side, terms: Sequence[tuple[Atom, int]], keep: set[Loop], inner: Mapping[Term, Span]) -> Side:
    """A side of a box whose index has quotients of what partly stands still: quotients of that bound them, too."""
    low, high = Lin(dict(side[0][0]), side[0][1]), Lin(dict(side[1][0]), side[1][1])
    for term, c in terms:
        part, first, last = term.a.restrict(keep)
        ends = [floordiv(part.plus(by), term.b.const) for by in (first, last)]
        start, count = inner[term]
        bottom, top = (start, start + count - 1) if c > 0 else (start + count - 1, start)
        low = low.plus(-c * bottom).add(ends[0 if c > 0 else 1], c)
        high = high.plus(-c * top).add(ends[1 if c > 0 else 0], c)
    return (low.terms, low.const), (high.terms, high.const), False


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    """A buffer's constant shape."""
    return tuple([s.value if isinstance(s, IntImm) else 0 for s in buffer.shape])


def common(paths: Sequence[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    """The loops that all paths share, outermost first."""
    if not paths:
        return ()
    shared = tuple(paths[0])
    for path in paths[1:]:
        count = 0
        for one, other in zip(shared, path):
            if one is not other:
                break
            count += 1
        shared = shared[:count]
    return shared


def turning(loops: Sequence[Loop]) -> Known:
    """The knowledge over what loops run, and how quotients differ."""
    plain = ranging({loop: (0, loop.extent) for loop in loops})

    def known(terms: Terms, const: int) -> bool:
        return plain(terms, const) or (any(isinstance(t, Atom) for t in terms) and least(Lin(dict(terms), const)) >= 0)

    return known


def least(lin: Lin) -> int:
    """A value that a form is never below, the highest that is seen."""
    found = lin.bounds()[0]
    for terms, const in together(lin.terms, lin.const, _quotient, lambda a, b, sign: a.add(b, sign).bounds()):
        found = max(found, least(Lin(terms, const)))
    return found


def _quotient(term: Term) -> tuple[Lin, int] | None:
    return (term.a, term.b.const) if isinstance(term, Atom) and term.op == "//" else None


def written(
    writer: Site, fixed: tuple[Loop, ...], given: Collection[Lin] = (), before: Sequence[Loop] = ()
) -> Box | None:
    """The box that a site writes in one pass of the ``fixed`` loops, all of it wherever a read could want it, or None.

    The arguments are those of ``always``.
    """
    conds = _pending(writer, fixed, given, before)
    found = box(writer.write, fixed)
    if not conds:
        return found
    keep = set(fixed)

    def moves(term: Term) -> bool:
        return not (term.loops <= keep if isinstance(term, Atom) else term in keep)

    cuts = cuts_of(conds, _indices(writer.write), moves)
    return None if cuts is None or not all(whole for _, _, whole in found) else cut_off(found, cuts, turning(before))


def always(writer: Site, fixed: Sequence[Loop], given: Collection[Lin] = (), before: Sequence[Loop] = ()) -> bool:
    """Whether the conditions on a write leave out nothing that a read could want within one pass of the ``fixed`` loops.

    Args:
        writer: the site.
        fixed: the loops that stand still.
        given: conditions that hold where it is asked, the same objects.
        before: of the fixed loops, those of which earlier iterations count, too.
    """
    return not _pending(writer, fixed, given, before)


def _pending(writer: Site, fixed: Sequence[Loop], given: Collection[Lin], before: Sequence[Loop]) -> list[Form]:
    """The conditions on a write that may leave out what a read could want; see ``always``."""
    conds = [c for c in writer.conds if not any(c is g for g in given) and not _beyond(c, writer.write)]
    if not conds:
        return []
    conds = [part for c in conds for part in _each(c)]
    # Loops inside of atoms do more than what the forms tell.
    driving = writer.write.loops().union(*[c.opaque_loops() for c in conds])
    still = set(fixed)
    idle = {loop: (0, loop.extent) for c in conds for loop in c.loops() if loop not in driving and loop not in still}
    idle |= {loop: (0, 1) for loop in before if loop not in driving}
    return left_out([(c.terms, c.const) for c in conds], _indices(writer.write), shape_of(writer.write.buffer), idle)


def _each(cond: Lin) -> list[Lin]:
    """A condition as those with each operand of a minimum (or maximum) in it, where it holds if all of these do."""
    for term, c in cond.terms.items():
        if isinstance(term, Atom) and (term.op, c > 0) in (("min", True), ("max", False)):
            rest = cond.add(Lin({term: 1}), -c)
            return [part for side in (term.a, term.b) for part in _each(rest.add(side, c))]
    return [cond]


def _beyond(cond: Lin, write: Access) -> bool:
    """Whether an access lies outside of its buffer wherever a condition on some of its loops fails, whatever the others do.

    A whole tile may be padding: then the condition is about the loop over tiles alone, and not about the places in one.
    """
    if not cond.terms or len(cond.terms) == len(write.loops()):
        return False
    for index, extent, size in zip(write.indices, write.extents, shape_of(write.buffer)):
        ratios = {index.terms.get(t, 0) / c for t, c in cond.terms.items()}
        ratio = ratios.pop()
        if ratios or not ratio or any(isinstance(t, Atom) for t in index.terms):
            continue
        # Where it fails, its terms are -1 - const at most.
        ends = index.const - ratio * (1 + cond.const)
        others = [c * (t.extent - 1) for t, c in index.terms.items() if isinstance(t, Loop) and t not in cond.terms]
        low, high = ends + sum(min(0, c) for c in others), ends + sum(max(0, c) for c in others) + extent - 1
        if low >= size if ratio < 0 else high < 0:
            return True
    return False


def writes_all(
    writer: Site, target: Box, fixed: tuple[Loop, ...], given: Collection[Lin] = (), before: Sequence[Loop] = ()
) -> bool:
    """Whether a site writes all of ``target`` in one pass of the ``fixed`` loops; the rest as for ``always``."""
    have = written(writer, fixed, given, before)
    return have is not None and covers(have, target, shape_of(writer.write.buffer), turning(before))


def disjoint(site: Site, operand: Access) -> bool:
    """Whether what all instances of a site together read is nothing that they write, in one buffer.

    Args:
        site: the site.
        operand: what it reads.
    """
    return apart(box(operand, site.outer), box(site.write, site.outer)) or _interleaved(site, operand)


def _interleaved(site: Site, operand: Access) -> bool:
    """Whether what a site reads lies between what it writes: both move in steps that never bring the one to the other."""
    fixed = set(site.outer)
    for at, to, length, width in zip(operand.indices, site.write.indices, operand.extents, site.write.extents):
        between = at.add(to, -1)
        steps = [c for term, c in between.terms.items() if term in fixed]
        steps += [c for index in (at, to) for term, c in index.terms.items() if term not in fixed]
        if length == width == 1 and between.const % max(gcd(*steps), 1):
            return True
    return False


def reads_ahead(site: Site, operand: Access) -> bool:
    """Whether no instance of a site reads, in the buffer that it writes, what an earlier instance has written.

    Instances run in order in each of a site's own loops, whichever of them is outermost. So where every index moves on with one
    loop at most, what lies behind in some dimensions and before in none is written later: a window of two slides on in place.

    Args:
        site: the site.
        operand: what it reads; its indices tell, whatever the buffer.
    """
    inner, seen = set(site.inner), set[Term]()
    if operand.extents != site.write.extents:
        return False
    for at, to in zip(operand.indices, site.write.indices):
        own = [term for term in to.terms if isinstance(term, Atom) or term in inner]
        step = at.add(to, -1)
        if len(own) > 1 or any(isinstance(term, Atom) or to.terms[term] < 1 for term in own) or step.terms or step.const < 0:
            return False
        seen.update(own)
    return inner <= seen


def overtakes(site: Site, operand: Access) -> bool:
    """Whether an instance of a site may read what an earlier one has written, in the order in which the program runs them.

    Counted out where there are few instances; of more, whatever ``reads_ahead`` cannot tell.

    Args:
        site: the site.
        operand: what it reads of the buffer that it writes.
    """
    if reads_ahead(site, operand):
        return False
    count = prod(loop.extent for loop in site.inner)
    if count > MOST_INSTANCES:
        return True
    steps = np.unravel_index(np.arange(count), [loop.extent for loop in site.inner])
    values: dict[Loop, Ints] = dict(zip(site.inner, [np.asarray(at, dtype=np.int64) for at in steps]))
    values |= {loop: np.zeros(1, dtype=np.int64) for loop in site.outer}
    runs = np.ones(count, dtype=np.bool_)
    for cond in site.conds:
        runs &= np.broadcast_to(cond.evaluate(values), count) >= 0
    written, read = ([np.broadcast_to(index.evaluate(values), count)[runs] for index in access.indices]
                     for access in (site.write, operand))
    first: dict[tuple[int, ...], int] = {}
    for n, place in enumerate(zip(*[at.tolist() for at in written])):
        first.setdefault(place, n)
    return any(first.get(place, count) < n for n, place in enumerate(zip(*[at.tolist() for at in read])))
