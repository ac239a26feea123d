"""What makes moving a block legal: who writes what, complete and reduction blocks, and regions that cover each other.

The conditions are those of TensorIR's schedule analysis; here every violation is a sentence that names the block and
what it breaks. Functions return the sentence, or None where the condition holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.errors import together
from autosched.ir.cover import Box, covers, joined, left_out, separates, swept, within
from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, int_value
from autosched.ir.forms import affine, conditions, index_forms, ranging
from autosched.ir.functor import free_vars, stmt_exprs, uses, walk, walk_expr
from autosched.ir.host import UNPACK, kind_of
from autosched.ir.itermap import detect_iter_map, pinned, without
from autosched.ir.print_expr import expr_text
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    Ident,
    IterVar,
    Range,
    SeqStmt,
    Stmt,
    point,
)
from autosched.ir.swept import bounding_box, exact_box, limits_within, matched, relaxed
from autosched.schedule.analysis.boxes import bind_all, bindings, forms, is_unit, loop_ranges, placed, spans
from autosched.schedule.analysis.disjoint import disjoint_results
from autosched.schedule.analysis.ways import inner_blocks
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State, branches


def reduce_iters(block: Block) -> list[IterVar]:
    """The reduction iterators of a block."""
    return [iv for iv in block.iter_vars if iv.kind == "reduce"]


# -- kinds of blocks -------------------------------------------------------------------------------------------------


def other_writers(state: State, block: Block, scope: Stmt, unpacked: bool = False) -> list[Block]:
    """The other blocks below ``scope`` that write what ``block`` writes (below a loop: those inside its blocks).

    Parts of one stage (``partition_block``) do not count: blocks that write disjoint intervals of what nobody there reads, or
    with ``unpacked`` nobody but the host, which does so behind all of them.
    """
    found: dict[Ident, Block] = {}
    mine = {w.buffer for w in block.writes}
    for child in state.children_of(scope):
        # Under a loop TensorIR asks only about writers inside the child blocks: siblings may fill disjoint parts.
        candidates = [child] if isinstance(scope, Block) else state.children_of(child)
        writers = [other for other in candidates if any(w in mine for w in state.touched(other)[1])]
        if isinstance(scope, Block) or len(writers) > 1:
            found.update({other.ident: other for other in writers if other is not block})
    others = list(found.values())
    said = all(w in {r.buffer for r in other.writes} for other in others for w in state.touched(other)[1])
    if others and said and isinstance(scope, Block) and all(disjoint_results(block, other) for other in others):
        readers = (b for b in state.children_of(scope) if not (unpacked and kind_of(b) == UNPACK))
        if not any(w in state.touched(b)[0] for b in readers for w in mine):
            return []
    return others


def incomplete(state: State, block: Block, scope: Stmt, unpacked: bool = False) -> str | None:
    """Why ``block`` is not a complete block below ``scope``; ``unpacked`` as for ``other_writers``.

    A complete block has spatial iterators only, is the sole writer of what it writes, and does not read that.
    """
    for iv in block.iter_vars:
        if iv.kind != "spatial":
            return f"its iterator {iv.var.name} is a {iv.kind} iterator"
    others = other_writers(state, block, scope, unpacked)
    if others:
        return f"{block.writes[0].buffer.name} is also written by {names(others)}"
    written = {w.buffer for w in block.writes}
    for read in block.reads:
        if read.buffer in written:
            return f"it reads {read.buffer.name}, which it writes"
    return None


def not_reduction(state: State, block: Block, scope: Stmt, bound: bool = False) -> str | None:
    """Why ``block`` is not a reduction block below ``scope``.

    A reduction block has an init and quasi-affine bindings, is the sole writer, and no reduction iterator indexes its
    output.

    Args:
        state: the program.
        block: what is asked about.
        scope: around all that may write the same buffer.
        bound: the bindings are known to do.
    """
    if block.init is None:
        return "it has no init"
    for iv in block.iter_vars:
        if iv.kind not in ("spatial", "reduce"):
            return f"its iterator {iv.var.name} is a {iv.kind} iterator"
    realize = state.realizes[block.ident]
    if not bound and not affine_binding(realize, state.loops_above(realize)):
        return "its iterators are not bound to quasi-affine expressions of the loops"
    others = other_writers(state, block, scope)
    if others:
        return f"{block.writes[0].buffer.name} is also written by {names(others)}"
    return not_accumulating(block)


def not_accumulating(block: Block) -> str | None:
    """Why the instances of a block with init do not each go on with an element of their own, whatever they reduce; or None."""
    reduced = {iv.var for iv in reduce_iters(block)}
    for write in block.writes:
        for r in write.region:
            if uses(r.min, reduced) or uses(r.extent, reduced):
                return f"a reduction iterator indexes its output {write.buffer.name}"
    return strays(block)


def strays(block: Block) -> str | None:
    """What a block with init reads of its own result beside the elements that it writes; None of one that holds blocks."""
    written = {w.buffer for w in block.writes}
    stored: set[tuple[Buffer, tuple[Expr, ...]]] = set()
    loaded: list[BufferLoad] = []
    for stmt in (s for part in (block.init, block.body) if part is not None for s in walk(part)):
        if isinstance(stmt, BlockRealize):
            return None
        if isinstance(stmt, BufferStore):
            stored.add((stmt.buffer, stmt.indices))
        for expr in stmt_exprs(stmt):
            loaded += [e for e in walk_expr(expr) if type(e) is BufferLoad and e.buffer in written]
    known = Analyzer()
    for load in loaded:
        if (load.buffer, load.indices) not in stored and not any(
            b is load.buffer and all(map(known.can_prove_equal, load.indices, indices)) for b, indices in stored
        ):
            return f"it reads {expr_text(load)}, which it does not write"
    return None


def not_complete_or_reduction(
    state: State, block: Block, scope: Stmt, partial: bool = False, unpacked: bool = False
) -> str | None:
    """Why ``block`` is neither a complete nor a reduction block below ``scope``, or None.

    Args:
        state: the program.
        block: what is asked about.
        scope: around all that may write the same buffers.
        partial: bindings that would be quasi-affine if the block ran in all iterations of its loops are enough.
        unpacked: as for ``other_writers``, of a complete block.
    """
    first = incomplete(state, block, scope, unpacked)
    if first is None:
        return None
    realize = state.realizes[block.ident]
    bound = partial and affine_binding(replace(realize, predicate=TRUE), state.loops_above(realize))
    second = not_reduction(state, block, scope, bound)
    if second is None:
        return None
    return f"block {block.name} is not a complete block ({first}) nor a reduction block ({second})"


def not_compact(state: State, subtree: Stmt, partial: bool = False) -> tuple[Block, str] | None:
    """The first block below ``subtree`` that is neither locally complete nor a local reduction, with the reason."""
    for block in state.children_of(subtree):
        reason = not_complete_or_reduction(state, block, subtree, partial)
        if reason is not None:
            return block, reason
    return None


def in_turn(realize: BlockRealize, loop: For, thread: str | None) -> str | None:
    """Why instances of a block cannot run at the same time in the iterations of a loop; None where its iterators allow it.

    Args:
        realize: the block below the loop.
        loop: any.
        thread: the thread axis that the loop is bound to, if any; ``threadIdx`` may run a reduction.
    """
    reduces = thread is not None and thread.startswith("threadIdx")
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        if iv.kind != "spatial" and not (iv.kind == "reduce" and reduces) and uses(value, {loop.var}):
            return (f"loop {loop.var.name} drives iterator {iv.var.name} of block {realize.block.name}, which is a {iv.kind} "
                    "iterator: its instances cannot run at the same time")
    return None


def is_output(block: Block, scope: Block) -> bool:
    """Whether a block writes a buffer that its scope does not allocate."""
    inside = set(scope.alloc_buffers)
    return any(w.buffer not in inside for w in block.writes)


def names(blocks: Sequence[Block]) -> str:
    """Names of blocks, as a sentence lists them; of many, the first."""
    listed = [b.name for b in blocks]
    if len(listed) > 8:
        listed = [*listed[:6], f"{len(listed) - 6} more"]
    return together(listed)


# -- bindings --------------------------------------------------------------------------------------------------------


def affine_binding(realize: BlockRealize, loops: Sequence[For], pin: bool = True) -> bool:
    """Whether the iterators of a block are independent quasi-affine functions of the loops, each onto an interval.

    Args:
        realize: the block.
        loops: the loops.
        pin: loops that the predicate cuts down to one iteration count as constants.
    """
    if not loops or _plain_binding(realize, loops):
        return True
    if realize.predicate == TRUE and _digits(realize.iter_values, loop_ranges(loops), True):
        return True
    result = detect_iter_map(
        list(realize.iter_values), loop_ranges(loops), realize.predicate, "surjective", simplify_trivial=False
    )
    if not result and pin and realize.predicate != TRUE:
        # A loop that runs once counts as a constant: a predicate that names it binds it to nothing.
        result = detect_iter_map(list(realize.iter_values), loop_ranges(loops), realize.predicate, "surjective")
        fixed = {} if result else pinned(loop_ranges(loops), realize.predicate)
        if fixed:
            values, predicate = without(fixed, realize.iter_values), without(fixed, [realize.predicate])[0]
            result = detect_iter_map(values, loop_ranges(loops), predicate, "surjective", simplify_trivial=False)
    if not result:
        return False
    return all(not s.args or int_value(s.args[0].scale) == 1 for s in result.indices)


def drives_one_each(realize: BlockRealize, loops: Sequence[For]) -> bool:
    """Whether each of some loops alone is the value of an iterator of a block that none of the others drives."""
    inner = {loop.var for loop in loops}
    moving = [v for v in realize.iter_values if uses(v, inner)]
    whole = {loop.var for loop in loops if not is_unit(loop.extent)}
    return all(isinstance(v, Var) for v in moving) and len(set(moving)) == len(moving) and whole <= set(moving)


def one_to_one(values: Sequence[Expr], loops: Sequence[For], predicate: Expr, outer: Sequence[For] = ()) -> bool:
    """Whether no two iterations of some loops give the same values; the outer loops stand still."""
    ranges = loop_ranges(loops)
    values = [v for v in values if not isinstance(v, IntImm)]
    if _digits(values, ranges, False):
        return True
    analyzer = bind_all(Analyzer(), outer)
    # A restriction of a one-to-one map is one too, so a predicate that is not understood does no harm.
    tried = (predicate, TRUE) if predicate != TRUE else (TRUE,)
    if any(bool(detect_iter_map(values, ranges, p, "bijective", analyzer)) for p in tried):
        return True
    # What tells the iterations of all loops apart does so where some stand still.
    return bool(outer) and one_to_one(values, [*outer, *loops], predicate)


def injective(values: Sequence[Expr], dom: Mapping[Var, Range]) -> bool:
    """Whether no two points of a domain give the same values, with or without gaps between them."""
    values = [v for v in values if not isinstance(v, IntImm)]
    return _digits(values, dom, False) or bool(detect_iter_map(values, dom, TRUE, "bijective"))


def _digits(values: Sequence[Expr], dom: Mapping[Var, Range], onto: bool) -> bool:
    """Whether each value counts in variables of its own like a number in its digits; the common case, by coefficients.

    Args:
        values: what the variables give.
        dom: the variables' ranges; other variables stand still.
        onto: ask for values without gaps, where variables may be unused; otherwise for no value twice.
    """
    counts = {var: int_value(r.extent) for var, r in dom.items()}
    seen: set[Var] = set()
    for value in values:
        form = affine(value, {})
        if form is None:
            return False
        terms: list[tuple[int, int]] = []
        for var, c in form[0].items():
            if var not in counts:
                continue
            n = counts[var]
            if n is None or c <= 0 or var in seen:
                return False
            seen.add(var)
            if n > 1:
                terms.append((c, n))
        span = 1
        for c, n in sorted(terms):
            if c != span if onto else c < span:
                return False
            span += c * (n - 1)
    return onto or all(n == 1 or var in seen for var, n in counts.items())


def _plain_binding(realize: BlockRealize, loops: Sequence[For]) -> bool:
    # Distinct loop variables and constants: by far the commonest binding, decided without an iteration map.
    if realize.predicate != TRUE:
        return False
    seen: set[Var] = set()
    domain = {loop.var for loop in loops}
    for value in realize.iter_values:
        if isinstance(value, IntImm):
            continue
        if not isinstance(value, Var) or value not in domain or value in seen:
            return False
        seen.add(value)
    return True


# -- stage pipelines -------------------------------------------------------------------------------------------------


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


def scope_of(state: State, block: Block) -> Block:
    """The block around a block.

    Raises:
        Refusal: it is the root block, or part of an init.
    """
    scope = state.scope_of(block)
    if scope is None:
        raise Refusal("the primitive does not operate on the root block", hint=inner_blocks(state), code="root")
    if not any(child is block for child in state.children_of(scope)):
        raise Refusal(f"block {block.name} stands in the init of {scope.name}", [block.ident],
                      "decompose_reduction makes it a block of its own", code="reduction")
    return scope


def nodes_inside(state: State, stmt: Stmt, scope: Block) -> list[Stmt]:
    """The statements around ``stmt`` inside ``scope``, innermost first."""
    found = []
    for node in state.ancestors(stmt):
        if node is scope:
            break
        found.append(node)
    return found
