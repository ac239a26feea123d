"""Stage pipelines: in a scope every block finds written what it reads, and nothing is overwritten that was read.

Answers are kept by the statements that they are about: a step leaves most of these as they are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from autosched.ir.cover import Box, covers, joined, left_out, separates, swept, within
from autosched.ir.expr import Expr, Var, int_value
from autosched.ir.forms import conditions, index_forms, ranging
from autosched.ir.functor import free_vars
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferRegion, For, Ident, Range, SeqStmt, Stmt, point
from autosched.ir.swept import bounding_box, exact_box, limits_within, matched, relaxed
from autosched.schedule.analysis.boxes import bindings, forms, is_unit, loop_ranges, placed, spans
from autosched.schedule.analysis.dependence import names
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State, branches


def broken_pipeline(state: State, scope: Block) -> tuple[str, list[Ident]] | None:
    """Why the blocks of a scope are not a pipeline of stages, with the blocks at fault.

    In a stage pipeline nothing is overwritten after it was read (no WAR), only loops and blocks stand above the
    blocks, and what a block reads of an earlier block's result that block has written before, under the loops that
    both share.
    """
    deps = state.dependences(scope)
    for d in deps:
        if d.kind == "WAR" and d.src is not d.dst:
            src, dst = state.block(d.src), state.block(d.dst)
            return f"{dst.name} overwrites {d.buffer.name} after {src.name} has read it", [d.src, d.dst]
    by_reader: dict[Ident, list[Ident]] = {}
    for d in deps:
        if d.kind == "RAW" and d.src is not d.dst:
            by_reader.setdefault(d.dst, []).append(d.src)
    chains: dict[Ident, list[Stmt]] = {}
    branch = {block.ident: stmt for stmt, inside in branches(scope) for block in inside}
    for reader, sources in by_reader.items():
        unique = list(dict.fromkeys(sources))
        # Most primitives rewrite few of a scope's statements; who reads inside the others has been asked about before.
        parts: list[object] = [reader, branch[reader]]
        for source in unique:
            parts += (source, branch[source])
        hit = _COVERED.get(key := tuple(map(id, parts)))
        if hit is None:
            reason = uncovered(state, scope, reader, unique, chains)
            _remember(key, parts, reason)
        else:
            reason = hit[1]
        if reason is not None:
            return reason, [reader]
    return None


_COVERED: OrderedDict[tuple[int, ...], tuple[list[object], str | None]] = OrderedDict()  # what has an id is kept
_COVERED_LIMIT = 8192


def uncovered(
    state: State, scope: Block, reader: Ident, sources: list[Ident], chains: dict[Ident, list[Stmt]] | None = None
) -> str | None:
    """What a block reads of the results of some earlier blocks that they have not written by then, or None.

    Those in the same of the loops around the reader are asked together. Where those further out have written all of a buffer,
    what only goes on with that (a reduction whose initial value stands there) may leave elements as they are, by a condition.
    """
    chains = {} if chains is None else chains
    for ident in (reader, *sources):
        if ident not in chains:
            chains[ident] = _chain(state, scope, ident)
    chain = chains[reader]
    depth = {id(n): k for k, n in enumerate(chain)}
    groups: dict[int, list[tuple[Ident, list[Stmt]]]] = {}
    for source in sources:
        path = chains[source]
        k = 0
        while k < min(len(path), len(chain)) and path[k] is chain[k]:
            k += 1
        groups.setdefault(depth[id(chain[k - 1])], []).append((source, path[k:]))
    read = {r.buffer for r in state.block(reader).reads}
    begun: set[Buffer] = set()  # of which loops further out have written every element that is read
    for k, members in sorted(groups.items(), key=lambda group: group[0]):
        outer = [n for n in chain[: k + 1] if isinstance(n, For)]
        below = chain[k + 1:]
        reason = _remembered_at(state, reader, below, members, outer)
        if reason is not None:
            reason = _uncovered_going_on(state, reader, below, members, outer, begun, reason)
        if reason is not None:
            return reason
        begun.update(w.buffer for s, _ in members for w in state.block(s).writes if w.buffer in read)
    return None


def _uncovered_going_on(
    state: State, reader: Ident, below: list[Stmt], members: list[tuple[Ident, list[Stmt]]], outer: list[For], begun: set[Buffer],
    reason: str,
) -> str | None:
    """What is missing where those of some blocks that only go on with what is complete may leave elements as they are; or None.

    Whatever else stands in the same loops (a copy that the reader has beside them) has to have written all of its own.
    """
    going, others = list[tuple[Ident, list[Stmt]]](), list[tuple[Ident, list[Stmt]]]()
    for member in members:
        (going if _goes_on(state.block(member[0]), begun) else others).append(member)
    if not going:
        return reason
    missing = _remembered_at(state, reader, below, others, outer) if others else None
    return missing or _uncovered_at(state, reader, below, going, outer, whole=True)


def _settled(box: Box, realize: BlockRealize, shared: list[For]) -> bool:
    """Whether no later iteration of the loops that a block shares with a reader goes on with a box where its condition failed.

    Each iteration of a loop that the condition is about has a box of its own then, whatever the other loops do.
    """
    said, loops = free_vars(realize.predicate), {loop.var for loop in shared if not is_unit(loop.extent)}
    return all(separates([side for side in box if loops & set(side[0][0]) == {var}], var) for var in loops if var in said)


def _goes_on(block: Block, begun: set[Buffer]) -> bool:
    """Whether a block writes only what it reads, and has found complete."""
    read = {r.buffer for r in block.reads}
    return all(w.buffer in begun and w.buffer in read for w in block.writes)


def _remembered_at(
    state: State, reader: Ident, below: list[Stmt], members: list[tuple[Ident, list[Stmt]]], outer: list[For]
) -> str | None:
    """``_uncovered_at``, asked once for the same subtrees, and once for other trees with the same loops, bindings and regions."""
    near: list[object] = [below[0], reader]
    for source, path in members:
        near += (source, path[0])
    for loop in outer:
        near += (loop.var, loop.min, loop.extent)
    hit = _COVERED.get(key := tuple(map(id, near)))
    if hit is not None:
        return hit[1]
    parts = _parts(below, members, outer)
    hit = _COVERED.get(other := tuple(map(id, parts)))
    reason = _uncovered_at(state, reader, below, members, outer) if hit is None else hit[1]
    _remember(key, near, reason)
    _remember(other, parts, reason)
    return reason


def _remember(key: tuple[int, ...], parts: list[object], reason: str | None) -> None:
    _COVERED[key] = parts, reason
    while len(_COVERED) > _COVERED_LIMIT:
        _COVERED.popitem(last=False)


def _parts(below: Sequence[Stmt], members: Sequence[tuple[Ident, list[Stmt]]], outer: Sequence[For]) -> list[object]:
    """What the answer hangs on: loops, bindings and regions alone, whatever else a primitive has rewritten."""
    parts: list[object] = []
    for loop in outer:
        parts += (loop.var, loop.min, loop.extent)
    _mention(parts, below, True)
    for _, path in members:
        parts.append(None)
        _mention(parts, path, False)
    return parts


def _mention(parts: list[object], path: Sequence[Stmt], reader: bool) -> None:
    """What the loops and the block at the end of a path bring to the question what is covered."""
    for node in path:
        if isinstance(node, For):
            parts += (node.var, node.min, node.extent)
        elif isinstance(node, BlockRealize):
            block = node.block
            parts += (block.ident, block.name, block.iter_vars, node.iter_values, node.predicate,
                      block.reads if reader else block.writes)
        else:
            parts.append(node)


def _chain(state: State, scope: Block, block: Ident) -> list[Stmt]:
    """Statements from the scope's body (sequences left out) down to the realize of a block; the scope comes first."""
    realize = state.realizes[block]
    chain: list[Stmt] = [realize]
    for node in state.ancestors(realize):
        if not isinstance(node, SeqStmt):
            chain.append(node)
        if node is scope:
            break
    return chain[::-1]


def _uncovered_at(
    state: State, reader: Ident, below: list[Stmt], members: list[tuple[Ident, list[Stmt]]], outer: list[For], whole: bool = False
) -> str | None:
    """What a block reads more than some others have written; with ``whole`` as if these did so whatever their conditions say."""
    realize = state.realizes[reader]
    inner = [n for n in below if isinstance(n, For)]
    given = conjuncts(realize.predicate)
    reads = _not_plainly_covered(state, realize, inner, members, outer, given)
    if not reads:
        return None
    analyzer = Analyzer()
    for loop in outer:
        analyzer.bind(loop.var, Range(loop.min, loop.extent))
    for cond in given:  # the reader runs only where they hold
        for known_then in relaxed(cond, loop_ranges(inner)):
            analyzer.assume(known_then)
    for read in reads:
        writes = [
            (write, state.realizes[source], [n for n in path if isinstance(n, For)]) for source, path in members
            for write in state.realizes[source].block.writes if write.buffer is read.buffer
        ]
        if not writes:
            continue
        # Plain bounds first, and one write at a time: mostly the first write covers them, and iteration maps are dear.
        wanted, shape, known = placed(read, realize), read.buffer.shape, analyzer.never_negative
        need = bounding_box(wanted, loop_ranges(inner))
        limits = limits_within(wanted, given) if given else ()
        boxes: list[Box] = []
        covered = False
        for write, other, loops in writes:
            conds = () if whole else conjuncts(other.predicate)
            box = exact_box(placed(write, other), loop_ranges(loops), conds, given, limits, analyzer, loop_ranges(outer), True)
            if box is not None and whole and not _settled(box, other, outer):
                box = None
            if box is not None:
                boxes.append(box)
                covered = covers(box, need, shape, known)
                if covered:
                    break
        if covered:
            continue
        # Only the iteration map knows what a predicate cuts off.
        if given and (exact := exact_box(wanted, loop_ranges(inner), given, analyzer=analyzer)) is not None:
            need = exact
            if any(covers(b, need, shape, known) for b in boxes):
                continue
        if len(boxes) > 1 and any(covers(b, need, shape, known) for b in joined([within(b, shape) for b in boxes], known)):
            continue
        if any(_same_elements(read, realize, inner, state.realizes[s], path, outer, analyzer) for s, path in members):
            continue
        writers = names([state.block(s) for s, _ in members])
        return f"{realize.block.name} reads more of {read.buffer.name} than {writers} has written by then"
    return None


def _not_plainly_covered(
    state: State, reader: BlockRealize, inner: Sequence[For], members: list[tuple[Ident, list[Stmt]]], outer: Sequence[For],
    given: Sequence[Expr],
) -> list[BufferRegion]:
    """The reads that no single affine write holds all of; what is left is a question for iteration maps."""
    below, around = spans(inner), spans(outer)
    if below is None or around is None:
        return list(reader.block.reads)
    values, known = forms(reader), ranging(around)
    left: list[BufferRegion] = []
    for read in reader.block.reads:
        need: Box | None = None
        covered, written = False, False
        for source, path in members:
            other = state.realizes[source]
            for write in other.block.writes:
                if write.buffer is not read.buffer or covered:
                    continue
                written = True
                loops = spans(n for n in path if isinstance(n, For))
                wants = index_forms(read, values) if need is None else None
                gives = index_forms(write, forms(other))
                need = need if wants is None else swept(wants, below)
                if loops is None or need is None or gives is None:
                    continue
                shape = read.buffer.shape
                conds = [conditions(c, {}) for c in conjuncts(other.predicate) if c not in given]
                if None in conds or left_out([f for found in conds for f in found or ()], gives, shape, {}):
                    continue
                covered = covers(swept(gives, loops), need, shape, known)
        if written and not covered:
            left.append(read)
    return left


def _same_elements(
    read: BufferRegion, reader: BlockRealize, inner: Sequence[For], writer: BlockRealize, path: Sequence[Stmt],
    outer: Sequence[For], analyzer: Analyzer,
) -> bool:
    """Whether a writer's iterators, or the loops that drive it, have had the values at which a reader reads what they write."""
    write = next((w for w in writer.block.writes if w.buffer is read.buffer), None)
    if write is None or not all(isinstance(n, For | BlockRealize) for n in path):
        return False
    given, wanted = conjuncts(reader.predicate), placed(read, reader)
    theirs, mine = loop_ranges(n for n in path if isinstance(n, For)), loop_ranges(inner)
    domains = {value: iv.dom for iv, value in zip(reader.block.iter_vars, reader.iter_values)}
    for region, values in ((write, bindings(writer)), (placed(write, writer), dict(zip(theirs, theirs)))):
        pairs = matched(region, values, wanted)
        if pairs is None:
            continue
        ends = [domains.get(e, mine.get(e) if isinstance(e, Var) else None) for e in pairs.values()]
        if any(end is None or int_value(end.min) != 0 for end in ends):
            continue
        domain = Buffer("domain", tuple([end.extent for end in ends if end is not None]))
        have = exact_box(point(domain, tuple([values[v] for v in pairs])), theirs, conjuncts(writer.predicate), given,
                         analyzer=analyzer, before=loop_ranges(outer))
        need = bounding_box(point(domain, tuple(pairs.values())), mine)
        if have is not None and covers(have, need, domain.shape, analyzer.never_negative):
            return True
    return False


def require_pipeline(state: State, scope: Block) -> None:
    """Raises a ``Refusal`` where ``broken_pipeline`` finds something; where steps are trusted nobody looks."""
    broken = None if state.trusted else broken_pipeline(state, scope)
    if broken is not None:
        raise Refusal(f"the scope {scope.name} is not a stage pipeline: {broken[0]}", broken[1], code="order")
