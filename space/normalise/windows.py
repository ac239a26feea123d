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

A load pads with zeros only. Other padding leaves the window, whose elements are then compared one by one; or it is added to what
is padded with zeros, which takes a product more for an element, and windows share that as any other.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import prod

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, Var, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import choice_of, is_widened, operands
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.windows import MOST_STEPS, MOST_TERMS
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, extents, loads_of, readers_of, store_of, writer_of
from space.normalise.copies import path_of
from space.normalise.widening import computed

MOST = 16  # operands of a chain; longer windows stay loops
MOST_ALONE = 48  # of all chains of a window whose neighbours are compared in place: what nobody shares takes a stage each


def applies(func: PrimFunc) -> bool:
    """Whether any block takes the largest or smallest of int8 operands, which this rule could change."""
    return any(_kind(block) or _written_out(store_of(block).value) for block in device_blocks(func))


def pads(func: PrimFunc) -> bool:
    """Whether anything is padded with something else than zeros, as windows may be that ``bordered`` is for.

    Args:
        func: the program, in form or not.
    """
    every = (choice_of(e) for b in device_blocks(func) for e in walk_expr(store_of(b).value))
    return any(int_value(choice[2]) not in (None, 0) for choice in every if choice is not None)


def apply(sch: Schedule, target: Target, kept: bool = False, slid: bool = False, bordered: bool = False) -> bool:
    """Writes every such window as a chain of differences; whether there was one.

    Args:
        sch: the program, with packed tensors.
        target: the machine.
        kept: what several windows share stays in the accumulator; whether anything does is what is answered then.
        slid: besides, what two neighbours share is compared in place; whether anything is is what is answered then.
        bordered: besides, so is what they share of what is padded otherwise than with zeros; whether any of that is is what is
            answered then.
    """
    config = target.config
    if config.block_in != config.block_out:
        return False
    done = around = False
    for name in [b.name for b in device_blocks(sch.func)]:
        block, made = device_block(sch, name), computed(sch)
        loads = [e for e in walk_expr(store_of(block).value) if isinstance(e, BufferLoad) and e.dtype == "int8"]
        if not loads or any(e.buffer.name in made for e in loads):
            continue
        if any(_pads_otherwise(sch, e.buffer) for e in loads):
            around |= bordered and _bordered(sch, block)
            continue
        if _kind(block):
            done |= _slid(sch, block) if slid else _reduction(sch, block, kept, target)
        elif block.init is None and _written_out(store_of(block).value) and store_of(block).buffer.dtype == "int32":
            try:
                sch.extrema_by_difference(sch.get_sblock(block.name))
                done |= not kept
            except ScheduleError:
                continue  # no range proves that a difference stays in its type
    return around if bordered else done


def _bordered(sch: Schedule, block: Block) -> bool:
    """As ``_slid``, of all windows of a tensor that is padded otherwise, where they share all that they read; whether they do.

    It is padded with zeros then, and what was there is added to an element where it is widened: a product more, of a border that
    the host makes once for all channels. A difference would take both twice, and none is made.
    """
    buffer = _operand(block).buffer if _kind(block) else None
    readers = [] if buffer is None else readers_of(sch.func, buffer)
    plans = [plan for b in readers if _kind(b) and (plan := _plan(b)) is not None]
    writer = None if buffer is None else writer_of(sch.func, buffer)
    if buffer is None or writer is None or len(plans) < len(readers):
        return False
    with suppress(ScheduleError), sch.all_or_none():  # where it cannot be, the padding leaves the window
        for reader in readers:  # first, while it is known that no element is beyond what windows start with
            sch.expand_reduction(sch.get_sblock(reader.name))
        sch.host_stage(sch.add_padding(sch.get_sblock(writer.name), [buffer.ndim - 2, buffer.ndim - 1]))
        for reader, plan in zip(readers, plans):
            _written(sch, reader.name, plan)
        return True
    return False


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


@dataclass(frozen=True)
class _Plan:
    """How a window is written so that what two neighbours share is compared in place.

    Args:
        count: steps of its first iterator, of two; else 1.
        across: those of its last.
        rows: the steps of the first that windows share, those together that the same ones do.
        columns: those of the last that most do.
    """

    count: int
    across: int
    rows: list[list[int]]
    columns: list[int]

    @property
    def own(self) -> list[int]:
        """The steps of the first iterator that no other window has."""
        return [] if self.count == 1 else sorted(set(range(self.count)) - {k for group in self.rows for k in group})


def _plan(block: Block) -> _Plan | None:
    """How a window's neighbours are compared; None where they are not."""
    over = steps_over(block, MOST_TERMS)
    if not 1 <= len(over) <= 2:
        return None
    load = _operand(block)
    rows = shared_steps(block, load, *over[0]) if len(over) > 1 else []
    columns = max(shared_steps(block, load, *over[-1]), key=len, default=[])
    found = _Plan(over[0][1] if len(over) > 1 else 1, over[-1][1], rows, columns)
    across = found.across - len(columns)
    if not (rows or columns) or len(found.own) * found.across > MOST or across > MOST:
        return None
    if len(rows) * across + len(found.own) * found.across > MOST_ALONE:
        return None
    return found


def _slid(sch: Schedule, block: Block) -> bool:
    """Writes a window so that what two neighbours share is compared in place; whether anything is."""
    plan = _plan(block)
    if plan is None:
        return False
    sch.expand_reduction(sch.get_sblock(block.name))
    return _written(sch, block.name, plan)


def _written(sch: Schedule, name: str, plan: _Plan) -> bool:
    """Writes a window that has been written out as planned; whether anything is compared in place."""
    if plan.count == 1:
        _along(sch, name, plan)
        return True
    made = []
    for group in plan.rows:
        shared = sch.share_value(sch.get_sblock(name), [row_path(sch, name, plan.count, k) for k in group], "int32")
        row = sch.get(shared)
        assert isinstance(row, Block)
        _along(sch, row.name, plan)
        made.append(store_of(device_block(sch, row.name)).buffer)
    for buffer in made:
        halved(sch, name, buffer)
    if plan.own:
        sch.extrema_by_difference(sch.get_sblock(name))
    # Where each row is shared by two alone, and no element is, it is the same without.
    return bool(plan.columns or plan.own or max(map(len, plan.rows), default=0) > 2)


def _along(sch: Schedule, name: str, plan: _Plan) -> None:
    """Compares those elements of a row that its neighbours have, too, in place, and the others by differences."""
    if plan.columns:
        paths = [row_path(sch, name, plan.across, k) for k in plan.columns]
        shared = sch.share_value(sch.get_sblock(name), paths, "int32")
        element = sch.get(shared)
        assert isinstance(element, Block)
        halved(sch, name, store_of(element).buffer)
    if len(plan.columns) < plan.across:
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

