"""Largest and smallest elements of small windows of int8, by differences that the GEMM makes.

A window is written out. Where windows overlap, what a row (or whatever the first iterator moves over) contributes is the same for
several of them: it is stored as a tensor of its own, of which every element is made once, or it stays in the accumulator, where
every tile makes it with a border (``space/halos.py``). What remains is a chain of operands, each of which costs two products with
an identity and one comparison with zero: three cycles a vector, where widening it for the ALU and comparing it there costs four
and a copy of every element of every tile. What stays costs two cycles for every window that reads it, a comparison of tensors.

Where two neighbours share something, the one may stand in the other's place: a window of two that slides on, two cycles for both.
So of a row's three elements the two that are shared are widened once (two cycles) and compared (two), and the third is a
difference (three); a window takes the larger of two such rows in place (two), and its own row by differences. Of three and more
that are shared, two halves overlap, and what is compared twice does no harm: two comparisons in place for three or four.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, Var, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import is_widened, operands
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.windows import MOST_STEPS, MOST_TERMS
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, extents, loads_of, store_of
from space.normalise.copies import path_of
from space.normalise.widening import computed

MOST = 16  # operands of a chain; longer windows stay loops


def applies(func: PrimFunc) -> bool:
    """Whether any block takes the largest or smallest of int8 operands, which this rule could change."""
    return any(_kind(block) or _written_out(store_of(block).value) for block in device_blocks(func))


def apply(sch: Schedule, target: Target, kept: bool = False, slid: bool = False) -> bool:
    """Writes every such window as a chain of differences; whether there was one.

    Args:
        sch: the program, with packed tensors.
        target: the machine.
        kept: what several windows share stays in the accumulator; whether anything does is what is answered then.
        slid: besides, what two neighbours share is compared in place; whether anything is is what is answered then.
    """
    config = target.config
    if config.block_in != config.block_out:
        return False
    done = False
    for block in device_blocks(sch.func):
        made = computed(sch)
        loads = [e for e in walk_expr(store_of(block).value) if isinstance(e, BufferLoad) and e.dtype == "int8"]
        if not loads or any(e.buffer.name in made or _pads_otherwise(sch, e.buffer) for e in loads):
            continue
        if _kind(block):
            done |= _slid(sch, block) if slid else _reduction(sch, block, kept, target)
        elif block.init is None and _written_out(store_of(block).value) and store_of(block).buffer.dtype == "int32":
            try:
                sch.extrema_by_difference(sch.get_sblock(block.name))
                done |= not kept
            except ScheduleError:
                continue  # no range proves that a difference stays in its type
    return done


def _pads_otherwise(sch: Schedule, buffer: Buffer) -> bool:
    """Whether a tensor is padded with something else than zeros, which a load cannot do: then the padding leaves the window."""
    writers = [store_of(b).value for b in device_blocks(sch.func) if store_of(b).buffer is buffer]
    return any(isinstance(v, Call) and v.op == "if_then_else" and int_value(v.args[2]) != 0 for v in writers)


def _kind(block: Block) -> str:
    """``min`` or ``max`` of ``cast(int32, x[..])`` with x of int8, or nothing."""
    store = block.body
    if not isinstance(block.init, BufferStore) or not isinstance(store, BufferStore) or int_value(block.init.value) is None:
        return ""
    value = store.value
    if not (isinstance(value, BinOp) and value.op in ("min", "max") and value.dtype == "int32"):
        return ""
    return value.op if any(is_widened(e) for e in (value.a, value.b)) else ""


def _written_out(value: Expr) -> bool:
    """Whether a value takes the largest or smallest of an int8 operand and something else."""
    for e in walk_expr(value):
        if isinstance(e, BinOp) and e.op in ("min", "max"):
            leaves = [x for x in operands(e, e.op) if int_value(x) is None]
            if len(leaves) > 1 and any(is_widened(x) or (isinstance(x, BufferLoad) and x.dtype == "int8") for x in leaves):
                return True
    return False


def steps_over(block: Block, most: int) -> list[tuple[Var, int]]:
    """The iterators that a window is taken over, and how many steps each has; nothing where these are too many."""
    over = [(iv.var, n) for iv in block.iter_vars if iv.kind == "reduce" and (n := extents(block)[iv.var]) > 1]
    return over if 1 < prod(n for _, n in over) <= most and max(n for _, n in over) <= MOST_STEPS else []


def _operand(block: Block) -> BufferLoad:
    """What a window reads."""
    load = next(e.value for e in walk_expr(store_of(block).value) if isinstance(e, Cast) and is_widened(e))
    assert isinstance(load, BufferLoad)
    return load


def _reduction(sch: Schedule, block: Block, kept: bool, target: Target) -> bool:
    # Under chisel what slides is better where a window is longer than a chain.
    over = steps_over(block, MOST if target.semantics == "chisel" else MOST_TERMS)
    if not over:
        return False
    load = _operand(block)
    classes = shared_steps(block, load, *over[0]) if len(over) > 1 else []
    count, across = over[0][1], prod(n for _, n in over[1:])
    alone = count - sum(map(len, classes))
    if max(across, alone * across + count - alone) > MOST:
        return False
    sch.expand_reduction(sch.get_sblock(block.name))
    for group in classes:
        paths = [row_path(sch, block.name, count, k) for k in group]
        shared = sch.share_value(sch.get_sblock(block.name), paths, "int32" if kept else "int8")
        part = shared if kept else sch.decompose_value(shared, [0])
        sch.extrema_by_difference(part)
    if not kept or not classes:
        sch.extrema_by_difference(sch.get_sblock(block.name))
        return not kept
    for k in sorted(set(range(count)) - {k for group in classes for k in group}):
        # What no other window has is a chain of its own, and what they share is compared with it where it stands.
        own = sch.decompose_value(sch.get_sblock(block.name), row_path(sch, block.name, count, k))
        sch.extrema_by_difference(own)
    return True


def _slid(sch: Schedule, block: Block) -> bool:
    """Writes a window so that what two neighbours share is compared in place; whether anything is."""
    over = steps_over(block, MOST_TERMS)
    if not 1 <= len(over) <= 2:
        return False
    load = _operand(block)
    rows = shared_steps(block, load, *over[0]) if len(over) > 1 else []
    columns = max(shared_steps(block, load, *over[-1]), key=len, default=[])
    count, across = over[0][1] if len(over) > 1 else 1, over[-1][1]
    own = count - sum(map(len, rows))
    if not (rows or columns) or own * across > MOST or across - len(columns) > MOST:
        return False
    sch.expand_reduction(sch.get_sblock(block.name))
    if len(over) == 1:
        _along(sch, block.name, across, columns)
        return True
    made = []
    for group in rows:
        shared = sch.share_value(sch.get_sblock(block.name), [row_path(sch, block.name, count, k) for k in group], "int32")
        row = sch.get(shared)
        assert isinstance(row, Block)
        _along(sch, row.name, across, columns)
        made.append(store_of(device_block(sch, row.name)).buffer)
    for buffer in made:
        halved(sch, block.name, buffer)
    if own:
        sch.extrema_by_difference(sch.get_sblock(block.name))
    # Where each row is shared by two alone, and no element is, it is the same without.
    return bool(columns or own or max(map(len, rows), default=0) > 2)


def _along(sch: Schedule, name: str, across: int, columns: Sequence[int]) -> None:
    """Compares those elements of a row that its neighbours have, too, in place, and the others by differences."""
    if columns:
        shared = sch.share_value(sch.get_sblock(name), [row_path(sch, name, across, k) for k in columns], "int32")
        element = sch.get(shared)
        assert isinstance(element, Block)
        halved(sch, name, store_of(element).buffer)
    if len(columns) < across:
        sch.extrema_by_difference(sch.get_sblock(name))


def halved(sch: Schedule, name: str, buffer: Buffer) -> None:
    """Lets a block read two places of a tensor that it reads at several, by stages that do so in turn."""
    while len(loads := [x for x in loads_of(device_block(sch, name)) if x.buffer is buffer]) > 2:
        value = store_of(device_block(sch, name)).value
        half = sch.get(sch.overlap_extrema(sch.get_sblock(name), [path_of(value, x) or [] for x in loads]))
        assert isinstance(half, Block)
        name = half.name


def row_path(sch: Schedule, name: str, count: int, step: int) -> list[int]:
    """Where a window that is written out has what one of its iterator's steps contributes."""
    path = [0] * (count - 1 - step) + ([1] if step else [])
    value = store_of(device_block(sch, name)).value
    # A constant that the window is compared with besides stands outermost.
    return [0, *path] if isinstance(value, BinOp) and int_value(value.b) is not None else path


def shared_steps(block: Block, load: BufferLoad, over: Var, count: int) -> list[list[int]]:
    """Which steps of an iterator several windows share: those that differ by a multiple of how far a window is from the next."""
    own = [iv.var for iv in block.iter_vars]
    for index in load.indices:
        form = linear_form(index, own)
        step = form[0].get(over) if form is not None else None
        if form is None or not isinstance(step, int):
            continue
        strides = [c for v, c in form[0].items() if v is not over and isinstance(c, int) and extents(block)[v] > 1]
        if len(strides) != 1 or strides[0] < 1:
            return []
        phases: dict[int, list[int]] = {}
        for k in range(count):
            phases.setdefault(step * k % strides[0], []).append(k)
        return [group for group in phases.values() if len(group) > 1]
    return []

