"""Finding the loops that an intrinsic covers, and telling what keeps it from them."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.ir.expr import Var, int_value
from autosched.ir.functor import uses
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, BlockRealize, Buffer, For, Ident, SeqStmt, Stmt
from autosched.schedule.analysis.boxes import bindings, is_unit
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.tensorize.pattern import Matcher, Mismatch, Pattern


@dataclass(frozen=True)
class _Site:
    """How the loops around a block relate to those of an intrinsic.

    Args:
        wanted: loops that the intrinsic covers, outermost first.
        splits: (loop, extent that the intrinsic needs) for loops that are too long.
        loops: other loops of more than one iteration among them.
        blocks: blocks beside the path from the outermost of them to the block.
        upper: the wanted loop right above the first obstacle, or None.
        lower: what is right below the last one.
    """

    wanted: list[For]
    splits: list[tuple[For, int]]
    loops: list[For]
    blocks: list[Block]
    upper: For | None
    lower: str


def find_loop(state: State, realize: BlockRealize, pattern: Pattern, name: str) -> For:
    """The loop whose whole nest, around one block, the intrinsic covers.

    Raises:
        Refusal: the block computes something else, or the loops do not stand together.
    """
    site = _survey(state, realize, pattern, name)
    if site.splits or site.loops or site.blocks:
        raise _explain(state, realize, site, name)
    if not site.wanted:
        raise Refusal(f"block {realize.block.name} does not match intrinsic {name}", [realize.block.ident], code="intrinsic")
    return site.wanted[0]


def why_not(state: State, loop: For, pattern: Pattern, name: str, reason: str) -> Refusal:
    """The refusal to explain why a loop does not match an intrinsic.

    Args:
        state: the program.
        loop: where the intrinsic was wanted.
        pattern: its description.
        name: its name.
        reason: what the comparison said.
    """
    blocks = state.children_of(loop)
    for block in blocks:
        realize = state.realizes[block.ident]
        if state.children_of(block):
            continue
        try:
            site = _survey(state, realize, pattern, name)
        except Refusal as refusal:
            if len(blocks) == 1:
                return refusal
            continue
        if site.splits or site.loops or site.blocks:
            return _explain(state, realize, site, name)
        if site.wanted and site.wanted[0] is not loop:
            above = state.loops_above(site.wanted[0])
            if any(n is loop for n in above):
                return Refusal(
                    f"intrinsic {name} covers {_names(site.wanted)} around {block.name}, not {loop.var.name} as well: "
                    f"{reason}", [loop.var], f'sch.tensorize({site.wanted[0].var.name}, "{name}")', code="intrinsic",
                )
            return Refusal(
                f"intrinsic {name} needs {_names(site.wanted)} around {block.name}; {loop.var.name} leaves some out",
                [loop.var], f'sch.tensorize({site.wanted[0].var.name}, "{name}")', code="intrinsic",
            )
    return Refusal(f"loop {loop.var.name} does not match intrinsic {name}: {reason}", [loop.var], code="intrinsic")


def _survey(state: State, realize: BlockRealize, pattern: Pattern, name: str) -> _Site:
    block = realize.block
    matcher = Matcher({}, frozenset(iv.var for iv in block.iter_vars))
    try:
        matcher.stmt(block.body, pattern.nest.body)
    except Mismatch as error:
        raise _other_memories(state, realize, pattern, name) or Refusal(
            f"block {block.name} does not compute what intrinsic {name} does: {error}", [block.ident], code="intrinsic",
        ) from None
    around = state.loops_above(realize)
    values = bindings(realize)
    wanted: list[For] = []
    splits: list[tuple[For, int]] = []
    for var, extent in pattern.nest.loops:
        iv = matcher.loops.get(var)
        if iv is None:
            raise Refusal(
                f"block {block.name} does not match intrinsic {name}: nothing runs as its {var.name}", [block.ident],
                code="intrinsic",
            )
        loop = _stepping(values[iv], around)
        count = None if loop is None else int_value(loop.extent)
        if loop is None or count is None or count < extent:
            have = "no loop steps it by one" if loop is None else f"loop {loop.var.name} runs it {count} times"
            raise Refusal(
                f"intrinsic {name} needs {extent} consecutive values of {iv.name} of block {block.name}, but {have}",
                [block.ident],
                f"split so that one loop runs {iv.name} {extent} times" if loop is None or count is None else
                f"tile {iv.name} by {extent}, or use an intrinsic of size {count}", code="intrinsic",
            )
        wanted.append(loop)
        if count != extent:
            splits.append((loop, extent))
    wanted = [n for n in around if any(n is w for w in wanted)]
    if uses(realize.predicate, {n.var for n in wanted}):
        raise Refusal(
            f"block {block.name} runs under a predicate on {_names(wanted)}, so its tiles are not always full",
            [block.ident], "split by a factor that divides the extent, or pad the program first (pad_einsum)", code="domain",
        )
    return _obstacles(state, realize, wanted, splits)


def _other_memories(state: State, realize: BlockRealize, pattern: Pattern, name: str) -> Refusal | None:
    """The refusal of a block that would match if its buffers were where the intrinsic wants them; else None."""
    block = realize.block
    wanted: dict[Buffer, str] = {}
    try:
        Matcher({}, frozenset(iv.var for iv in block.iter_vars), elsewhere=wanted).stmt(block.body, pattern.nest.body)
    except Mismatch:
        return None
    if not wanted:
        return None
    root = state.root
    lines: list[str] = []
    # Two blocks write what was decomposed, and one copy of what they write cannot serve both.
    apart = any(
        w.buffer in wanted and w.buffer not in root.alloc_buffers
        and len(state.writers(state.scope_of(block) or root, w.buffer)) > 1 for w in block.writes
    )
    stem = block.name.removesuffix("_update") if apart else block.name
    for buffer, memory in wanted.items():
        own = buffer in root.alloc_buffers
        if any(w.buffer is buffer for w in block.writes):
            lines.append(f'sch.set_scope("{stem}", 0, "{memory}")' if own else f'sch.cache_write("{stem}", 0, "{memory}")')
            continue
        makers = state.writers(state.scope_of(block) or root, buffer)
        if own and makers:
            at = next(k for k, w in enumerate(makers[0].writes) if w.buffer is buffer)
            lines.append(f'sch.set_scope("{makers[0].name}", {at}, "{memory}")')
        else:
            lines.append(f'sch.cache_read("{stem}", "{buffer.name}", "{memory}")')
    have = ", ".join(f"{b.name} is in {b.scope}, the intrinsic wants it in {m}" for b, m in wanted.items())
    when = "before decompose_reduction, put them there:" if apart else "put them there first:"
    return Refusal(
        f"block {block.name} computes what intrinsic {name} does, but in other memories: {have}", [block.ident],
        f"{when}\n  " + "\n  ".join(lines), code="intrinsic",
    )


def _stepping(value: object, around: list[For]) -> For | None:
    """The loop that moves an iterator by one."""
    from autosched.ir.expr import Expr

    assert isinstance(value, Expr)
    form = linear_form(value, [n.var for n in around])
    if form is None:
        return None
    steps = [v for v, c in form[0].items() if c == 1]
    longer = [n for n in around if n.var in steps and not is_unit(n.extent)]
    return longer[0] if len(longer) == 1 else None


def _obstacles(state: State, realize: BlockRealize, wanted: list[For], splits: list[tuple[For, int]]) -> _Site:
    path: list[Stmt] = [realize]
    for node in state.ancestors(realize):
        path.append(node)
        if wanted and node is wanted[0]:
            break
    path.reverse()
    loops: list[For] = []
    blocks: list[Block] = []
    upper: For | None = None
    lower = ""
    last: For | None = None
    for above, below in zip(path, [*path[1:], None]):
        if isinstance(above, For):
            if any(above is w for w in wanted):
                last = above
                if (loops or blocks) and not lower:
                    lower = above.var.name
                continue
            if is_unit(above.extent):
                continue
            loops.append(above)
        elif isinstance(above, SeqStmt):
            for sibling in above.stmts:
                if sibling is not below:
                    blocks += [sibling.block] if isinstance(sibling, BlockRealize) else state.children_of(sibling)
        else:
            continue
        upper = upper or last
        lower = ""
    return _Site(wanted, splits, loops, blocks, upper, lower or f"block {realize.block.name}")


def _explain(state: State, realize: BlockRealize, site: _Site, name: str) -> Refusal:
    block = realize.block
    marks: list[Ident | Var] = [*(n.var for n in site.loops), *(b.ident for b in site.blocks)]
    lines = [f"{n.var.name}_0, {n.var.name}_1 = sch.split({n.var.name}, [None, {e}])" for n, e in site.splits]
    long = {id(n): f"{n.var.name}_1" for n, _ in site.splits}
    inner = [long.get(id(n), n.var.name) for n in site.wanted]
    outer = [n.var.name for n in site.loops] + [f"{n.var.name}_0" for n, _ in site.splits]
    moved = bool(site.loops or site.blocks or (site.splits and len(site.wanted) > 1))
    if moved and outer:
        lines.append(f"sch.reorder({', '.join([*outer, *inner])})")
    place = outer[-1] if outer else None
    if place is None:
        above = state.loops_above(site.wanted[0])
        place = above[-1].var.name if above else None
    stem = block.name.removesuffix("_update")
    producers = {b.ident for b in state.producers(block)}
    for other in site.blocks:
        if place is None:
            break
        if _prepares(other, block):
            lines.append(f'sch.decompose_reduction("{stem}", {place})')
        elif other.ident in producers:
            lines.append(f'sch.compute_at("{other.name}", {place})')
        else:
            lines.append(f'sch.reverse_compute_at("{other.name}", {place})')
    # The initialisation is split off last: it takes the loops as they are then.
    lines.sort(key=lambda line: "decompose_reduction" in line)
    lines.append(f'sch.tensorize({inner[0]}, "{name}")')
    if not (site.loops or site.blocks):
        runs = ", ".join(f"{n.var.name} runs {int_value(n.extent)} times, the intrinsic {e}" for n, e in site.splits)
        return Refusal(f"loop {runs} around {block.name}", [n.var for n, _ in site.splits], "; ".join(lines), code="place")
    things = [f"loop {n.var.name}" for n in site.loops] + [b.name for b in site.blocks]
    listed = things[0] if len(things) == 1 else f"{', '.join(things[:-1])} and {things[-1]}"
    where = f"between {site.upper.var.name} and {site.lower}" if site.upper is not None else f"above {site.lower}"
    verb = "stands" if len(things) == 1 else "stand"
    when = "before the caches and the initialisation are placed between them" if site.blocks else "first"
    return Refusal(
        f"intrinsic {name} covers {_names(site.wanted)} around {block.name} at once, but {listed} {verb} {where}",
        marks, f"{when}, bring them together:\n  " + "\n  ".join(lines), code="intrinsic",
    )


def _prepares(other: Block, block: Block) -> bool:
    """Whether a block only gives what ``block`` updates its first value."""
    mine = {w.buffer for w in block.writes}
    return not other.reads and all(w.buffer in mine for w in other.writes)


def _names(loops: list[For]) -> str:
    listed = [f"{n.var.name} ({int_value(n.extent)})" for n in loops]
    return ("loop " if len(listed) == 1 else "loops ") + ", ".join(listed)
