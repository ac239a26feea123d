"""Ways out: what a refusal proposes instead. Each is computed from the program, so that it is true of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from autosched.ir.expr import BinOp, Call
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, For
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State


def listed(names: Iterable[str], most: int = 6) -> str:
    """Different names as a sentence offers them, ``a, b or c``; of many, the first."""
    found = list(dict.fromkeys(names))
    if len(found) > most:
        return ", ".join(found[:most]) + ", ..."
    return " or ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))


def _reduces(block: Block) -> bool:
    return any(iv.kind == "reduce" for iv in block.iter_vars)


def _split_off(state: State, block: Block) -> Block | None:
    """The other block that only gives what a reduction without init, or a padded copy, continues; seen from either."""
    mine = {w.buffer for w in block.writes}
    scope = state.scope_of(block)
    for other in [] if scope is None else state.children_of(scope):
        if other is block or not any(w.buffer in mine for w in other.writes):
            continue
        if not (block.reads and other.reads):
            return other if block.reads else block
    return None


def for_reduction(state: State, block: Block, op: str) -> str:
    """For a primitive that needs a reduction with its init, given another block.

    Args:
        state: the program.
        block: what was given.
        op: the primitive.
    """
    if block.init is None and (_reduces(block) or not block.reads):
        start = _split_off(state, block)
        if start is not None and op == "decompose_reduction":
            return f"nothing is left to do: block {start.name} is the initialisation"
        if start is not None:
            return f"{op} before decompose_reduction, while the reduction has its init"
    others = [r.block.name for r in state.realizes.values() if r.block.init is not None and r.block is not block]
    if block.init is None and others:
        return f"the blocks with a reduction and its init: {listed(others)}"
    return ""


def for_complete(state: State, block: Block, op: str) -> str:
    """For a primitive that needs a block without reduction that alone writes its result, given another block.

    Args:
        state: the program.
        block: what was given.
        op: the primitive.
    """
    if block.init is not None:
        fixed = "inline" in op or "epilogue" in op
        return "a reduction stays a block of its own: place it with compute_at or reverse_compute_at" if fixed else ""
    start = _split_off(state, block)
    if start is not None and "inline" in op:
        if any(_reduces(b) for b in (block, *state.writers(state.scope_of(block) or block, block.writes[0].buffer))):
            return "a reduction stays a block of its own: place it with compute_at, before decompose_reduction"
        return f"{op} before the primitive that made two blocks write {block.writes[0].buffer.name}"
    if start is not None:
        return f"{op} before the primitive that made two blocks write {block.writes[0].buffer.name} (decompose_reduction, say)"
    return ""


def named(state: State, loop: For) -> str:
    """A loop as an argument that runs: its name, or a look-up where several loops have that name."""
    name = state.loop_name(loop.var)
    if len(state.loops_named(name, list(state.loops.values()))) == 1:
        return f'"{name}"'
    inside = state.children_of(loop)
    return f'sch.get_axis("{name}", block="{inside[0].name}")' if inside else name


def works(attempt: Callable[[], object]) -> bool:
    """Whether an analysis accepts."""
    try:
        attempt()
    except Refusal:
        return False
    return True


def loops_around(state: State, realize: BlockRealize) -> str:
    """For a primitive that takes a loop around a block."""
    loops = state.loops_of(realize.block)
    return f"the loops around {realize.block.name}: {', '.join(state.loop_name(x.var) for x in loops)}" if loops else ""


def inner_blocks(state: State) -> str:
    """For a primitive that does not operate on the root block: the blocks that it may be given."""
    found = [r.block.name for r in state.realizes.values() if r.block is not state.root]
    return f"give a block inside it: {listed(found)}" if found else ""


def annotated_with(state: State, node: Block | For, key: str) -> str:
    """Where an annotation stands that a node lacks."""
    found = [f"loop {state.loop_name(x.var)}" for x in state.loops.values() if key in x.annotations]
    found += [f"block {r.block.name}" for r in state.realizes.values() if key in r.block.annotations]
    if found:
        return f"{key!r} is on {listed(found)}"
    known = list(node.annotations)
    return f"its annotations: {listed(known)}" if known else "nothing is left to do: it has no annotations"


def before_nesting(state: State, block: Block, op: str) -> str:
    """For a primitive that needs a block of one store, given one that holds blocks, or that an intrinsic computes."""
    nested = bool(block.match_buffers or state.children_of(block))
    return f"{op} before blockize and tensorize, or of the block inside" if nested else ""


def padded(state: State, block: Block) -> str:
    """The other blocks that store a padded copy."""
    found = [
        r.block.name for r in state.realizes.values()
        if r.block is not block and isinstance(r.block.body, BufferStore) and isinstance(r.block.body.value, Call)
        and r.block.body.value.op == "if_then_else"
    ]
    return f"the blocks that do: {listed(found)}" if found else ""


def sums(state: State, block: Block) -> str:
    """The blocks that add terms to what they write."""
    found = [
        r.block.name for r in state.realizes.values()
        if r.block is not block and _reduces(r.block) and isinstance(r.block.body, BufferStore)
        and isinstance(r.block.body.value, BinOp) and r.block.body.value.op == "+"
    ]
    return f"the sums of this program: {listed(found)}" if found else ""


def readers(state: State, block: Block) -> str:
    """The blocks that read what a block writes."""
    found = [b.name for b in state.consumers(block)]
    return f"give a block that reads its result: {listed(found)}" if found else ""


def for_map(fault: str) -> str:
    """For an index map that cannot be used, from what is said about it."""
    if "must start at 0" in fault:
        return "shift the map so that its smallest results are 0"
    if "does not divide" in fault:
        return "a divisor of the extent, or pad the extent first"
    if "is not used" in fault:
        return "use every index in the result"
    return ""


def users(state: State, buffer: Buffer, reads: bool) -> str:
    """The blocks that read, or write, a buffer."""
    found = []
    for realize in state.realizes.values():
        if realize.block is not state.root and buffer in state.touched(realize.block)[0 if reads else 1]:
            found.append(realize.block.name)
    return listed(found)
