"""The blocks of an unscheduled program as the normalisers see them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from autosched.errors import ScheduleError, SpaceError
from autosched.ir.expr import COMPARISON, BinOp, BufferLoad, Cast, Expr, Var, binary, int_value
from autosched.ir.functor import stmt_children, walk, walk_expr
from autosched.ir.host import PACK, is_move, kind_of
from autosched.ir.patterns import choice_of, has_loads, update_of
from autosched.ir.remembered import remembered
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, For, PrimFunc, Range, SeqStmt, Stmt
from autosched.schedule import Schedule
from autosched.schedule.kit.base import BlockRV
from autosched.schedule.kit.limits import bounds
from autosched.schedule.primitives.reductions.values import threshold
from autosched.target import Target
from space.sites import LANES


@dataclass(frozen=True)
class Product:
    """A block that sums products of two int8 tensors.

    Args:
        block: it.
        factors: the two loads, in order.
    """

    block: Block
    factors: tuple[BufferLoad, BufferLoad]


_BLOCKS: dict[int, tuple[Stmt, tuple[Block, ...]]] = {}  # of bodies: every rule asks for them, several times
_INSIDE: dict[int, tuple[Stmt, tuple[Block, ...]]] = {}  # of statements below the root, of which a step changes few
_LOADS: dict[int, tuple[Block, tuple[BufferLoad, ...]]] = {}  # of blocks, which most steps leave as they are


def unfit(reason: str) -> ScheduleError:
    """That a program has no such form, and why."""
    return ScheduleError("normalise", reason)


def device_blocks(func: PrimFunc) -> list[Block]:
    """The accelerator's blocks below the root, in program order."""
    found = remembered(_BLOCKS, func.body, _device_blocks)
    return list(found)


def _device_blocks(body: Stmt) -> tuple[Block, ...]:
    stmts = body.block.body if isinstance(body, BlockRealize) and body.block.name == "root" and body.block.init is None else body
    parts = stmts.stmts if isinstance(stmts, SeqStmt) else (stmts,)
    return tuple([block for stmt in parts for block in remembered(_INSIDE, stmt, _blocks_inside)])


def _blocks_inside(stmt: Stmt) -> tuple[Block, ...]:
    found = (s.block for s in walk(stmt) if isinstance(s, BlockRealize) and s.block.name != "root")
    return tuple(b for b in found if kind_of(b) is None)


def device_block(sch: Schedule, name: str) -> Block:
    """A block as it is now."""
    return next(b for b in device_blocks(sch.func) if b.name == name)


def named(sch: Schedule, block: BlockRV) -> str:
    """The name of the block of a handle."""
    found = sch.get(block)
    assert isinstance(found, Block)
    return found.name


def pack_blocks(sch: Schedule) -> list[Block]:
    """The host stages that fill tensors for the accelerator."""
    return [r.block for r in sch.state.realizes.values() if kind_of(r.block) == PACK]


def filled(sch: Schedule) -> set[Buffer]:
    """The tensors that host stages fill for the accelerator."""
    return {store_of(b).buffer for b in pack_blocks(sch)}


def plain_blocks(func: PrimFunc) -> bool:
    """Whether every block is one store of constant extents, none inside another."""
    blocks = device_blocks(func)
    return bool(blocks) and all(
        isinstance(b.body, BufferStore) and all(int_value(iv.dom.extent) is not None for iv in b.iter_vars)
        and all(int_value(e) is not None for e in b.body.buffer.shape) for b in blocks
    )


def require_whole(func: PrimFunc) -> None:
    """Refuses blocks whose loops leave out a part of an iterator's domain: a space tiles domains, and would compute all of them.

    Args:
        func: an unscheduled program.

    Raises:
        SpaceError: the block, the iterator, and what of its domain is left out; a result without a dimension.
    """
    for block in device_blocks(func):
        store = block.body
        if isinstance(store, BufferStore) and not store.indices and store.buffer in func.buffers:
            raise SpaceError(f"block {block.name!r} stores {store.buffer.name}, which has no dimension; the machine stores "
                             "vectors: give it one of extent 1", "form")

    def visit(stmt: Stmt, loops: dict[Var, Range]) -> None:
        if isinstance(stmt, For):
            loops = {**loops, stmt.var: Range(stmt.min, stmt.extent)}
        elif isinstance(stmt, BlockRealize) and kind_of(stmt.block) is None:
            for iv, value in zip(stmt.block.iter_vars, stmt.iter_values):
                low, extent, taken = int_value(iv.dom.min), int_value(iv.dom.extent), bounds(value, loops)
                if low is None or extent is None or taken is None or (taken[0] <= low and low + extent - 1 <= taken[1]):
                    continue
                raise SpaceError(
                    f"block {stmt.block.name!r} takes {iv.var.name} from {taken[0]} to {taken[1]} of its domain "
                    f"{low}..{low + extent - 1}; declare the part that its loops run through", "form"
                )
        for child in stmt_children(stmt):
            visit(child, loops)

    visit(func.body, {})


def store_of(block: Block) -> BufferStore:
    """The one store of a block."""
    assert isinstance(block.body, BufferStore)
    return block.body


def loads_of(block: Block) -> tuple[BufferLoad, ...]:
    """What a block loads of other buffers than its own."""
    return remembered(_LOADS, block, _loads)


def _loads(block: Block) -> tuple[BufferLoad, ...]:
    store = store_of(block)
    values = [store.value] + ([block.init.value] if isinstance(block.init, BufferStore) else [])
    found = (e for value in values for e in walk_expr(value))
    return tuple(e for e in found if isinstance(e, BufferLoad) and e.buffer is not store.buffer)


def written(func: PrimFunc) -> set[Buffer]:
    """The tensors that the accelerator writes."""
    return {store_of(b).buffer for b in device_blocks(func)}


def given(func: PrimFunc) -> list[Buffer]:
    """The parameters that the accelerator only reads, in order."""
    made = written(func)
    return [b for b in func.buffers if b not in made]


def writer_of(func: PrimFunc, buffer: Buffer) -> Block | None:
    """The accelerator's first block that writes a tensor; None of what is given to it."""
    return next((b for b in device_blocks(func) if store_of(b).buffer is buffer), None)


def turning_point(condition: Expr) -> tuple[Var, int] | None:
    """(v, n) of a condition that holds for v < n and nowhere else, or for v >= n; else None."""
    if not (isinstance(condition, BinOp) and condition.op in COMPARISON):
        return None
    found = threshold(binary(condition.op, condition.a - condition.b, 0))
    form = None if found is None else linear_form(found[0])
    if found is None or form is None or (at := int_value(form[1])) is None or len(form[0]) != 1:
        return None
    (var, sign), = form[0].items()
    # v + at < t is v < t - at; at - v < t is at - t < v
    first = {1: found[1] - at, -1: at - found[1] + 1}
    return (var, first[int(sign)]) if sign in (-1, 1) else None


def readers_of(func: PrimFunc, buffer: Buffer) -> list[Block]:
    """The accelerator's other blocks that load from a buffer, in program order."""
    return [b for b in device_blocks(func) if any(x.buffer is buffer for x in loads_of(b))]


def joins_by(block: Block) -> str:
    """The operation by which a reduction takes in terms, +, min or max; empty of any other block."""
    update = update_of(store_of(block)) if block.init is not None else None
    return "" if update is None else update[0]


def is_extremum(value: Expr) -> bool:
    """Whether a value is computed in int8 by minima and maxima alone: what stays in the accumulator is not widened for it."""
    def other(e: Expr) -> bool:
        return isinstance(e, Cast) or (isinstance(e, BinOp) and e.dtype == "int8" and e.op not in ("min", "max"))

    return value.dtype == "int8" and not any(map(other, walk_expr(value)))


def is_placed(value: Expr) -> bool:
    """Whether a value is an element as it is, or a constant, by its place alone."""
    choice = choice_of(value)
    if choice is not None:
        return not has_loads(choice[0]) and all(map(is_placed, choice[1:]))
    return int_value(value) is not None or (isinstance(value, BufferLoad) and not has_loads(*value.indices))


def has_digits(*values: Expr) -> bool:
    """Whether some value takes another one apart, by a division or a remainder."""
    return any(isinstance(e, BinOp) and e.op in ("//", "%") for value in values for e in walk_expr(value))


def are_places(*indices: Expr) -> bool:
    """Whether lowering knows what is meant: no product of iterators is among some indices, and nothing is divided by one."""
    apart = [e for i in indices for e in walk_expr(i) if isinstance(e, BinOp) and e.op in ("*", "//", "%")]
    return all(int_value(e.b) is not None or (e.op == "*" and int_value(e.a) is not None) for e in apart)


def elements_of(buffer: Buffer) -> int:
    """How many elements a tensor of constant shape has."""
    return prod(int_value(e) or 1 for e in buffer.shape)


def extents(block: Block) -> dict[Var, int]:
    """Extent of each iterator."""
    return {iv.var: int_value(iv.dom.extent) or 0 for iv in block.iter_vars}


def steps_of(block: Block) -> int:
    """How many terms a block takes in for each element; 1 of one that is no reduction."""
    return prod(extents(block)[iv.var] for iv in block.iter_vars if iv.kind == "reduce")


def product_of(block: Block) -> Product | None:
    """The block as a sum of products of int8 tensors, or None."""
    store = store_of(block)
    value = store.value
    if block.init is None or not (isinstance(value, BinOp) and value.op == "+"):
        return None
    own, term = value.a, value.b
    if not (isinstance(own, BufferLoad) and own.buffer is store.buffer):
        own, term = term, own
    if not (isinstance(own, BufferLoad) and own.buffer is store.buffer and own.indices == store.indices):
        return None
    if not (isinstance(term, BinOp) and term.op == "*"):
        return None
    factors = [f.value if isinstance(f, Cast) else f for f in (term.a, term.b)]
    if not all(isinstance(f, BufferLoad) and f.dtype == "int8" for f in factors):
        return None
    a, b = factors
    assert isinstance(a, BufferLoad) and isinstance(b, BufferLoad)
    return Product(block, (a, b))


def is_copy(block: Block, sources: Collection[Buffer]) -> bool:
    """Whether a block moves elements of some tensors, and zeros, to where its iterators alone say."""
    value = store_of(block).value
    told = [i for e in walk_expr(value) if isinstance(e, BufferLoad) for i in e.indices]
    told += [c[0] for e in walk_expr(value) if (c := choice_of(e)) is not None]
    by_data = has_loads(*told)
    return block.init is None and is_move(value) and not by_data and all(x.buffer in sources for x in loads_of(block))


def moved(func: PrimFunc) -> set[Buffer]:
    """The tensors that are given to a program, and those that it makes by moving their elements."""
    found = set(given(func))
    for block in device_blocks(func):
        if is_copy(block, found):
            found.add(store_of(block).buffer)
    return found


def _is(index: Expr, var: Expr, extent: int) -> bool:
    return index == var if extent > 1 else index == var or int_value(index) == 0


def is_packed(func: PrimFunc, target: Target) -> bool:
    """Whether tensors lie in whole elements: sums of products are the target's GEMM on the last dimensions of their operands, and
    every block stores whole vectors."""
    config = target.config
    if not plain_blocks(func):
        return False
    factors = {f.buffer for b in device_blocks(func) if (p := product_of(b)) is not None for f in p.factors}
    for block in device_blocks(func):
        store = store_of(block)
        product = product_of(block)
        if len(store.indices) <= LANES:  # an element needs a place
            return False
        size = extents(block)
        row, lane = store.indices[-2:]
        if product is None:
            last = [int_value(e) for e in store.buffer.shape[-2:]]
            copied = isinstance(store.value, BufferLoad) and store.buffer in factors
            weight = copied and last == [config.block_out, config.block_in]
            if store.buffer.scope == "global" and last != [config.batch, config.block_out] and not weight:
                return False
            continue
        inp, wgt = product.factors
        if len(wgt.indices) < 2 or len(inp.indices) < 2:
            return False
        if inp.indices[-1] != wgt.indices[-1] or wgt.indices[-2] != lane:
            inp, wgt = wgt, inp
        k = inp.indices[-1]
        if not (isinstance(k, Var) and isinstance(lane, Var)):
            return False
        if (size.get(lane), size.get(k)) != (config.block_out, config.block_in):
            return False
        if wgt.indices[-2:] != (lane, k) or inp.indices[-1] != k or not _is(inp.indices[-2], row, config.batch):
            return False
    return True
