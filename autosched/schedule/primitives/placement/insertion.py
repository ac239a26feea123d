"""Where below a loop a block may be moved to: behind its producers and in front of its consumers."""

from __future__ import annotations

from autosched.ir.expr import BufferLoad
from autosched.ir.stmt import Block, BlockRealize, BufferStore, For, Ident, Stmt
from autosched.schedule.analysis.dependence import is_output, names, scope_of
from autosched.schedule.analysis.pipeline import uncovered
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State


def insertion(
    state: State, block: Block, target: For, subtrees: list[Stmt], producers: list[Block], consumers: list[Block],
    forward: bool, index: int, resident: bool,
) -> tuple[int, set[Ident]]:
    """The position for the new nest, and the blocks below the loop."""
    first_consumer, last_producer = len(subtrees), -1
    visited: set[Ident] = set()
    before = {b.ident for b in producers}
    after = {b.ident for b in consumers}
    for k, subtree in enumerate(subtrees):
        inside = [subtree.block] if isinstance(subtree, BlockRealize) else state.children_of(subtree)
        idents = {b.ident for b in inside}
        visited |= idents
        if idents & before:
            last_producer = k
        if idents & after:
            first_consumer = min(first_consumer, k)
    if forward:
        missing = [b for b in consumers if b.ident not in visited]
        if missing and not (resident and len(missing) < len(consumers)):
            raise _missing_consumers(state, block, target, consumers, missing, visited)
    else:
        missing = [b for b in producers if b.ident not in visited]
        if missing and not _only_initial(state, block, missing, producers, visited):
            raise _missing_producers(block, target, producers, missing)
    if not state.trusted:
        _in_order(state, block, target, producers, consumers, visited)
    if last_producer >= first_consumer:
        raise Refusal(
            f"no place under loop {target.var.name} is after the producers of {block.name} (statement {last_producer}) "
            f"and before its consumers (statement {first_consumer})", [target.var], code="order",
        )
    if index == -1:
        return first_consumer, visited
    if index == -2:
        return last_producer + 1, visited
    if not last_producer + 1 <= index <= first_consumer:
        raise Refusal(
            f"index {index} under loop {target.var.name} is not possible for {block.name}: give -1, -2 or "
            f"{last_producer + 1} to {first_consumer}", [target.var], code="argument",
        )
    return index, visited


def _in_order(
    state: State, block: Block, target: For, producers: list[Block], consumers: list[Block], visited: set[Ident]
) -> None:
    """Refuses a place before a producer, or after a consumer, that is not below the loop."""
    order = {b.ident: k for k, b in enumerate(state.children_of(scope_of(state, block)))}
    if not visited <= order.keys():  # in the init of the block around both, which runs for some of its instances only
        raise Refusal(f"loop {target.var.name} belongs to the initialisation of the block around {block.name}", [target.var],
                      "a loop of the block's own body", code="reduction")
    places = [order[i] for i in visited]
    late = [b for b in producers if b.ident not in visited and order[b.ident] > min(places)]
    early = [b for b in consumers if b.ident not in visited and order[b.ident] < max(places)]
    if late or early:
        word = "before its producer" if late else "after its consumer"
        others = late or early
        raise Refusal(
            f"under loop {target.var.name}, block {block.name} would run {word}{'s' if len(others) > 1 else ''} {names(others)}",
            [target.var, *(b.ident for b in others)], code="order",
        )


def _only_initial(
    state: State, block: Block, missing: list[Block], producers: list[Block], visited: set[Ident]
) -> bool:
    """Whether the producers left outside only prepare what those below the loop update, all of it, in place."""
    wanted = {r.buffer for r in block.reads}
    inside = [b for b in producers if b.ident in visited]
    order = [b.ident for b in producers]
    for outside in missing:
        for buffer in {w.buffer for w in outside.writes} & wanted:
            if not any(
                any(w.buffer is buffer for w in b.writes) and any(r.buffer is buffer for r in b.reads) for b in inside
            ):
                return False
        if any(order.index(outside.ident) > order.index(b.ident) for b in inside):
            return False
    scope = scope_of(state, block)
    return bool(inside) and uncovered(state, scope, block.ident, [b.ident for b in inside]) is None


def _missing_consumers(
    state: State, block: Block, target: For, consumers: list[Block], missing: list[Block], visited: set[Ident]
) -> Refusal:
    loop = target.var.name
    closed: set[Ident] = set()
    order: list[Block] = []
    scope = scope_of(state, block)

    def movable(b: Block) -> bool:
        """Whether ``b`` can move under the loop once its own consumers have."""
        if b.ident in visited or b.ident in closed:
            return True
        below = state.consumers(b)
        if not below or is_output(b, scope) or not all(movable(c) for c in below):
            return False
        closed.add(b.ident)
        order.append(b)
        return True

    if all(list(map(movable, missing))):
        calls = "; ".join(f'sch.compute_at("{b.name}", {loop})' for b in order)
        hint = f'{calls}; then sch.compute_at("{block.name}", {loop})'
    else:
        hint = f'sch.recompute_at_consumers("{block.name}") gives each consumer its own copy, to be attached by itself'
    return Refusal(
        f"compute_at requires all the consumers of {block.name} to be under loop {loop}; {names(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} outside it (consumers: {names(consumers)})",
        [target.var, *(b.ident for b in missing)], hint, code="order",
    )


def _missing_producers(block: Block, target: For, producers: list[Block], missing: list[Block]) -> Refusal:
    loop = target.var.name
    hint = f"move {names(missing)} under {loop} first, or choose a loop that contains {names(producers)}"
    if all(isinstance(b.body, BufferStore) and isinstance(b.body.value, BufferLoad) for b in missing):
        hint = f"attach {block.name} first, make the cache {names(missing)} afterwards, and compute_at it under {loop}"
    return Refusal(
        f"reverse_compute_at requires all the producers of {block.name} to be under loop {loop}; {names(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} outside it (producers: {names(producers)})",
        [target.var, *(b.ident for b in missing)], hint, code="order",
    )
