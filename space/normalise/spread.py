"""What lies in no lanes, as what a stage reads at the same place for all of them, gets a tensor with lanes from the host."""

from __future__ import annotations

from functools import partial

from autosched.errors import ScheduleError, together
from autosched.ir.expr import BinOp, Expr, Var
from autosched.ir.functor import free_vars, substitute, walk_expr
from autosched.ir.host import is_move
from autosched.ir.patterns import choice_of, update_of
from autosched.ir.printer import expr_text
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from space.normalise import starts, units
from space.normalise.blocks import (
    device_block,
    device_blocks,
    extents,
    filled,
    is_copy,
    joins_by,
    loads_of,
    pack_blocks,
    product_of,
    readers_of,
    store_of,
    turning_point,
    unfit,
)
from space.normalise.copies import path_to
from space.normalise.layouts import NEEDS, Plan, Way, plan_of, spreadable


def joined(sch: Schedule) -> None:
    """Lets the host make the copies of several tensors: a load takes elements of one, or zeros.

    Args:
        sch: of the program.
    """
    blocks = device_blocks(sch.func)
    packs = filled(sch)
    for block in blocks:
        tensors = {x.buffer for x in loads_of(block)}
        between = len({x.indices for x in loads_of(block)}) > 1 and bool(readers_of(sch.func, store_of(block).buffer))
        if (len(tensors) > 1 or between) and is_copy(block, packs):
            sch.host_stage(sch.get_sblock(block.name))
            packs.add(store_of(block).buffer)


def apply(sch: Schedule, way: Way) -> None:
    """What a stage reads at the same place for all lanes becomes a tensor with lanes, made by the host.

    Args:
        sch: of the program.
        way: how it is to be packed.

    Raises:
        ScheduleError: no axis can be the lanes, or a sum is over what lies in none.
    """
    joined(sch)
    packs = filled(sch)
    blocks = device_blocks(sch.func)
    found: tuple[Plan, set[Buffer]] | None = None
    if any(product_of(block) is not None for block in blocks):
        try:
            plan = plan_of(blocks, way)
        except ScheduleError:
            pass  # with what the host spreads there may be one
        else:
            found = spreadable(blocks, packs, way, plan) if way.fuller else None
            if found is None:
                for block in blocks:
                    if readers_of(sch.func, store_of(block).buffer) and is_copy(block, packs) and _cuts(block, plan, surely=True):
                        sch.host_stage(sch.get_sblock(block.name))
                return
    found = found or spreadable(blocks, packs, way)
    if found is None:
        found = plan_of(blocks, way), set()  # says why there is none
    plan, alone = found
    for block in blocks:
        choice = choice_of(store_of(block).value) is not None and is_copy(block, packs)
        if choice and (any(x.buffer in alone for x in loads_of(block)) or _cuts(block, plan)):
            sch.host_stage(sch.get_sblock(block.name))
            continue
        if not any(x.buffer in alone for x in loads_of(block)):
            continue
        if block.init is None:
            _spread_in(sch, block.name, alone)
            continue
        taken = path_to(store_of(block).value, alone) is not None
        # What sums take in is a product's, or a sum by itself; an extremum has no other way to take in what lies in no lanes.
        if taken and (joins_by(block) not in ("min", "max") or units.over_plane(block)):
            raise _no_lanes(sch, block)
        try:
            if taken:
                _repeated_in(sch, block.name, alone, plan)
            else:
                starts.changed(sch, block.name, partial(_spread_in, alone=alone))
        except ScheduleError as error:
            raise _no_lanes(sch, block) from error


def _spread_in(sch: Schedule, name: str, alone: set[Buffer]) -> None:
    """Makes tensors with lanes of what a stage loads of some that have none."""
    path = path_to(store_of(device_block(sch, name)).value, alone)
    if path is None:
        raise _no_lanes(sch, device_block(sch, name))
    while path is not None:
        sch.host_stage(sch.decompose_value(sch.get_sblock(name), path))
        path = path_to(store_of(device_block(sch, name)).value, alone)


def _repeated_in(sch: Schedule, name: str, alone: set[Buffer], plan: Plan) -> None:
    """Lets the host repeat, along the lanes, what a reduction takes in of tensors that have none.

    Raises:
        ScheduleError: a primitive refuses.
    """
    for load in loads_of(device_block(sch, name)):
        if load.buffer not in alone:
            continue
        size = extents(device_block(sch, name))
        own, used = list(size), {v for i in load.indices for v in free_vars(i)}
        kept = [k for k, (v, lanes) in enumerate(zip(own, plan.of(device_block(sch, name).ident, own))) if v in used or lanes]
        sch.host_stage(sch.repeat_read(
            sch.get_sblock(name), load.buffer.name, lambda *i, kept=kept: tuple([i[k] for k in kept]),
            lambda *p, kept=kept, own=own, load=load: tuple(
                [substitute(i, {own[k]: at for k, at in zip(kept, p)}) for i in load.indices]),
        ))


def _no_lanes(sch: Schedule, block: Block) -> ScheduleError:
    """Why a block that sums up what lies in no lanes has no schedule."""
    update = update_of(store_of(block))
    if block.init is not None and product_of(block) is None and update is not None:
        read = {x.buffer for x in loads_of(block)}
        made = [b for b in pack_blocks(sch) if store_of(b).buffer in read]
        # Of what has been made negative, say, the term as it is now is not the user's.
        own = len(made) == len(read) and all(is_move(store_of(b).value) for b in made)
        what = expr_text(update[1]) if own else f"what it makes of {together(sorted(b.name for b in read))}"
        products = any(isinstance(e, BinOp) and e.op == "*" for e in walk_expr(update[1]))
        instead = (": store a product's factors as int8 in blocks before, and sum up what is added to products in a block of its "
                   "own" if products else "")
        if units.over_plane(block):
            return unfit(f"block {block.name} reduces {what}, whose lanes move with what it goes over; windows over a plane are "
                         f"written out, of {units.MOST} places at most")
        return unfit(f"block {block.name} sums up {what}, which is no product of two int8 elements; only sums of these are the "
                     f"GEMM's, and the ALU takes in what has all indices of the result{instead}")
    sums = {iv.var for iv in block.iter_vars if iv.kind == "reduce"}
    apart = any(i in sums for x in loads_of(block) for i in x.indices)
    return unfit(f"block {block.name} sums up what it reads at no plain index of its own; {NEEDS}: " + (
        "who has one kernel for all planes gives the kernel an index of the planes" if apart else
        "give the program one factor laid out by the block's own indices, its elements repeated"))


def _cuts(block: Block, plan: Plan, surely: bool = False) -> bool:
    """Whether a block chooses inside an element: what it moves there no load does.

    Args:
        block: it moves elements.
        plan: what becomes lanes.
        surely: whether only conditions count of which it is plain how they move along an element.
    """
    size = extents(block)
    lanes = dict(zip(size, plan.of(block.ident, list(size))))

    def cut(condition: Expr) -> bool:
        if not any(lanes.get(v) for v in free_vars(condition) if isinstance(v, Var)):
            return False
        if isinstance(condition, BinOp) and condition.op in ("and", "or"):
            return cut(condition.a) or cut(condition.b)
        found = turning_point(condition)
        if found is not None:
            return bool(found[1] % (lanes.get(found[0]) or 1))
        return not surely or (isinstance(condition, BinOp) and linear_form(condition.a - condition.b) is not None)

    return any(cut(c[0]) for e in walk_expr(store_of(block).value) if (c := choice_of(e)) is not None)
