"""Tensors in elements of the machine: which index becomes the lanes, extents in whole elements, and the layouts that follow.

Indices that always go together (an iterator, and the dimensions that it is the plain index of) are one axis. The axis that a
sum of products shares between its operands becomes the lanes of both, and the one that only the weight has becomes the weight's
rows and the lanes of the result; everything that has such an axis is split by it. Without a product, the lanes are an axis that
all tensors have.

A weight that the program makes is a copy of what another block stores (``turned``): there the sum's axis is the lanes, and the
weight's rows are vectors one behind the other. Nothing else of the two need agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from itertools import product as iter_product
from typing import Any

from autosched.errors import ScheduleError, together
from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, int_value
from autosched.ir.functor import expr_children, free_vars, walk_expr
from autosched.ir.host import is_move
from autosched.ir.patterns import choice_of, has_loads, update_of
from autosched.ir.printer import expr_text
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import choices, epilogue, starts, units
from space.normalise.axes import Axes, Names, Place, Role, accesses, as_weights, axes_of, consistent, parts_of
from space.normalise.blocks import (
    Product,
    device_block,
    device_blocks,
    elements_of,
    extents,
    filled,
    is_copy,
    loads_of,
    pack_blocks,
    product_of,
    readers_of,
    store_of,
    turning_point,
    writer_of,
)
from space.normalise.copies import path_of

NEEDS = "a product needs an index that only one factor and the result have, and one that both factors are summed over"
MOST_CHOICES = 16  # of lanes that are tried, for all products together
MUCH = 2  # times the lanes of a matrix product that a product by element has to fill


def _unfit(reason: str) -> ScheduleError:
    return ScheduleError("normalise", reason)


@dataclass(frozen=True)
class _Plan:
    """What becomes lanes.

    Args:
        axes: of the program.
        lanes: lanes by axis.
        weights: by weight, the axis of its rows; its other one is summed over.
        rows: axes of the vectors of which weights are made, by how many make a weight's element.
        batches: axes that are the rows of an element which has several, all of them.
        alike: tensors that are the same in all rows: factors that become weights of one row each, of a filter for each channel.
    """

    axes: Axes
    lanes: dict[Place, int]
    weights: dict[Buffer, Place]
    rows: dict[Place, int] = field(default_factory=dict)
    batches: frozenset[Place] = frozenset()
    alike: frozenset[Buffer] = frozenset()

    def of(self, owner: object, parts: Sequence[object]) -> list[int | None]:
        """Lanes per dimension of a buffer, or per iterator of a block; None for those that are none."""
        return [self.lanes.get(self.axes.of((owner, p))) if (owner, p) in self.axes.parent else None for p in parts]

    def whole(self, owner: object, parts: Sequence[object]) -> list[int | None]:
        """As ``of``, with the rows of weights: what extents are multiples of."""
        rows = [self.rows.get(self.axes.of((owner, p))) if (owner, p) in self.axes.parent else None for p in parts]
        return [a or b for a, b in zip(self.of(owner, parts), rows)]

    def order(self, buffer: Buffer) -> tuple[list[int], list[int]]:
        """The dimensions of a packed tensor in front of an element, and those inside it.

        Raises:
            ScheduleError: it has no such axis, or too many.
        """
        lanes = self.of(buffer, range(buffer.ndim))
        inner = [d for d, n in enumerate(lanes) if n is not None]
        if len(inner) != (2 if buffer in self.weights else 1):
            raise _unfit(f"{buffer.name} has no index that can be the lanes of an element" if not inner else
                         f"{len(inner)} indices of {buffer.name} would have to be lanes: what reads it wants different ones")
        batch = [d for d in range(buffer.ndim) if self.axes.of((buffer, d)) in self.batches]
        if len(batch) != (1 if self.batches and buffer not in self.weights and buffer not in self.alike else 0) or batch == inner:
            raise _unfit(f"{buffer.name} would have {len(batch)} indices that are the rows of an element")
        if buffer in self.weights:
            inner.sort(key=lambda d: self.axes.of((buffer, d)) is not self.axes.of(self.weights[buffer]))
            return [*inner, *[d for d, n in enumerate(lanes) if n is None]], inner
        # Rows of an image lie together behind the channels, and those of a weight behind all.
        last = [d for d in range(buffer.ndim) if self.axes.of((buffer, d)) in self.rows]
        slides = [d for d in range(buffer.ndim) if self.axes.of((buffer, d)) in self.axes.sliding and d not in last]
        outer = [*[d for d in range(buffer.ndim) if d not in slides and d not in last], *slides, *last]
        return [d for d in outer if d not in batch], [*batch, *inner]


def apply(
    sch: Schedule, target: Target, repeated: bool = False, copies: Names = frozenset(), fuller: bool = False,
    rows: Names = frozenset(),
) -> None:
    """Packs every tensor of the accelerator.

    Args:
        sch: of the program.
        target: the machine.
        repeated: whether a product may read elements of a parameter from a copy that has them several times.
        copies: names of blocks that copy what others make, to be read as a weight.
        fuller: whether lanes that are fuller come before those that all tensors have: what lacks them gets a tensor with lanes.
        rows: names of blocks whose results have the rows of an element last, where one has several.

    Raises:
        ScheduleError: no axis can be the lanes.
    """
    for block in device_blocks(sch.func):
        if has_loads(*[i for _, indices in accesses(block) for i in indices]):
            raise _unfit(f"block {block.name} reads at an index that is data")
    _cut(sch, target, repeated, copies, rows)
    _spread(sch, target, copies, fuller, rows)
    _zeroed(sch, target, copies, rows)
    blocks = device_blocks(sch.func)
    plan = _plan(blocks, target, copies, rows)
    # All of it is worked out before anything moves: primitives replace what the plan is about, but keep names.
    packs, pads = _packs(sch), _padding(sch, plan)
    hosts = frozenset(b.name for b in packs)
    zeros = _zeros(sch, plan, hosts) if copies else frozenset()
    layouts: dict[Buffer, tuple[str, Any]] = {}
    for block in (*packs, *blocks):
        buffer = store_of(block).buffer
        layouts[buffer] = block.name, _packed(buffer, plan)
    domains = [(b.name, _domain(b, plan)) for b in blocks]
    for name, factors in pads:
        if factors is not None:
            _pad(sch, name, factors, plan, zeros)
    if not zeros <= hosts:
        choices.apply(sch, target)  # which makes tensors that are packed as well
        epilogue.apply(sch, target)
        # All that was enlarged is in whole elements now: nothing is made zero again.
        apply(sch, target, repeated, copies, fuller, rows)
        return
    for name, mapping in layouts.values():
        sch.transform_layout(sch.get_sblock(name), ("write", 0), mapping)
    for name, mapping in domains:
        sch.transform_block_layout(sch.get_sblock(name), mapping)


def shifted(sch: Schedule, target: Target) -> None:
    """Of what a stage reads further on along the lanes of an element, the host makes a copy that lies where the stage stores."""
    plan = next(iter(_plans(device_blocks(sch.func), target)), None)
    packs = filled(sch)
    if plan is None:
        return
    for name in [b.name for b in device_blocks(sch.func) if b.init is None]:
        while True:
            block = device_block(sch, name)
            far = [x for x in loads_of(block) if x.buffer in packs and any(
                n and not isinstance(i, Var) for n, i in zip(plan.of(x.buffer, range(x.buffer.ndim)), x.indices))]
            path = path_of(store_of(block).value, far[0]) if far else None
            if path is None:
                break
            sch.host_stage(sch.decompose_value(sch.get_sblock(name), path))


def _cut(sch: Schedule, target: Target, repeated: bool, copies: Names, rows: Names) -> None:
    """Of a parameter that a product reads from an index on, the host packs what is read, so that its lanes begin at 0."""
    if _packable(device_blocks(sch.func), target, copies, rows):
        return
    packs = filled(sch)
    for block in device_blocks(sch.func):
        product = product_of(block)
        for factor in product.factors if product is not None else ():
            shifted = any(not isinstance(i, Var) and int_value(i) is None and len(set(free_vars(i))) == 1 for i in factor.indices)
            path = _path(store_of(device_block(sch, block.name)).value, {factor.buffer})
            if factor.buffer in packs and shifted and path is not None and not repeated:
                divided = [i for i in factor.indices if free_vars(i) and linear_form(i) is None]
                if divided:
                    raise _unfit(f"index {expr_text(divided[0])} of {factor.buffer.name} in block {block.name} is not affine in "
                                 "its iterators")
            if factor.buffer in packs and shifted and path is not None:
                sch.host_stage(sch.decompose_value(sch.get_sblock(block.name), path))


def _zeroed(sch: Schedule, target: Target, copies: Names, rows: Names) -> None:
    """Of what a product reads a part of, or by digits, the host makes a tensor that ends where that does: zeros are behind it."""
    plan = _plan(device_blocks(sch.func), target, copies, rows)
    padded = [b for b in device_blocks(sch.func) if product_of(b) is not None and any(
        f > 1 and extents(b)[iv.var] % f for iv, f in zip(b.iter_vars, _factors(b, plan) or []) if iv.kind == "reduce")]
    for _ in padded:
        name = _not_zeroed(sch.copy(), plan, frozenset(b.name for b in _packs(sch)) if copies else frozenset())
        product = None if name is None else product_of(device_block(sch, name))
        packs = filled(sch)
        own = [] if product is None else [f.buffer for f in product.factors if f.buffer in packs]
        path = _path(store_of(product.block).value, {min(own, key=elements_of)}) if product is not None and own else None
        if name is None or path is None:
            return
        sch.host_stage(sch.decompose_value(sch.get_sblock(name), path))
        plan = _plan(device_blocks(sch.func), target, copies, rows)


def _not_zeroed(trial: Schedule, plan: _Plan, zeros: Names = frozenset()) -> str | None:
    """The first product that would add up more than zeros in whole elements; all blocks are padded for that."""
    for name, factors in _padding(trial, plan):
        if factors is None:
            continue
        try:
            _pad(trial, name, factors, plan, zeros)
        except ScheduleError:
            return name if any(b.name == name and product_of(b) is not None for b in device_blocks(trial.func)) else None
    return None


def _pad(sch: Schedule, name: str, factors: Sequence[int], plan: _Plan, zeros: Names) -> None:
    """Enlarges a block: zeros on the host may make zeros of what the program makes of them; a maker is zero in its lanes only."""
    maker = next((b for b in device_blocks(sch.func) if b.name == name and name in zeros), None)
    if maker is None:
        sch.pad_block(sch.get_sblock(name), factors, True if name in zeros else None)
        return
    lanes = plan.of(maker.ident, [iv.var for iv in maker.iter_vars])
    sch.pad_block(sch.get_sblock(name), [f if lane else 1 for f, lane in zip(factors, lanes)], True)
    sch.pad_block(sch.get_sblock(name), [1 if lane else f for f, lane in zip(factors, lanes)])


def _zeros(sch: Schedule, plan: _Plan, zeros: Names) -> Names:
    """The blocks that store zeros where elements are filled up: those of the host, and makers of weights that need it."""
    for _ in plan.axes.turned:
        name = _not_zeroed(sch.copy(), plan, zeros)
        product = None if name is None else product_of(device_block(sch, name))
        loads = [plan.axes.turned[f.buffer] for f in product.factors if f.buffer in plan.axes.turned] if product else []
        maker = writer_of(sch.func, loads[0].buffer) if loads else None
        if maker is None or maker.init is not None:
            break
        zeros |= {maker.name}
    return zeros


def _padding(sch: Schedule, plan: _Plan) -> list[tuple[str, list[int] | None]]:
    """By block, those of the host first, the factors that make its domain whole elements."""
    return [(b.name, _factors(b, plan)) for b in (*_packs(sch), *device_blocks(sch.func))]


def _packs(sch: Schedule) -> list[Block]:
    """The blocks by which the host fills what the accelerator reads."""
    touched = {buffer for block in device_blocks(sch.func) for buffer, _ in accesses(block)}
    return [b for b in pack_blocks(sch) if store_of(b).buffer in touched]


def _packable(blocks: Sequence[Block], target: Target, copies: Names, rows: Names) -> bool:
    """Whether every product, if there are any, has lanes, and all tensors have them once."""
    axes = Axes(blocks, copies=copies)
    products = [p for b in blocks if (p := product_of(b)) is not None]
    if products and not any(_roles(p, axes, target) for p in products):
        return False
    try:
        _plan(blocks, target, copies, rows)
    except ScheduleError:
        return False
    return True


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


def _spread(sch: Schedule, target: Target, copies: Names, fuller: bool, rows: Names) -> None:
    """What a stage reads at the same place for all lanes becomes a tensor with lanes, made by the host."""
    joined(sch)
    packs = filled(sch)
    blocks = device_blocks(sch.func)
    found: tuple[_Plan, set[Buffer]] | None = None
    if any(product_of(block) is not None for block in blocks):
        try:
            plan = _plan(blocks, target, copies, rows)
        except ScheduleError:
            pass  # with what the host spreads there may be one
        else:
            found = _spreadable(blocks, packs, target, copies, rows, plan) if fuller else None
            if found is None:
                for block in blocks:
                    if readers_of(sch.func, store_of(block).buffer) and is_copy(block, packs) and _cuts(block, plan, surely=True):
                        sch.host_stage(sch.get_sblock(block.name))
                return
    found = found or _spreadable(blocks, packs, target, copies, rows)
    if found is None:
        found = _plan(blocks, target, copies, rows), set()  # says why there is none
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
        if _path(store_of(block).value, alone) is not None:
            raise _no_lanes(sch, block)
        try:
            starts.changed(sch, block.name, partial(_spread_in, alone=alone))
        except ScheduleError as error:
            raise _no_lanes(sch, block) from error


def _spreadable(
    blocks: Sequence[Block], packs: set[Buffer], target: Target, copies: Names, rows: Names = frozenset(),
    other: _Plan | None = None,
) -> tuple[_Plan, set[Buffer]] | None:
    """The most promising lanes that all tensors have but for some that the host fills, and these.

    Args:
        blocks: of the accelerator.
        packs: what the host fills.
        target: the machine.
        copies: as for ``apply``.
        rows: as for ``apply``.
        other: lanes that all tensors have: only such count as fill more of these, and with nothing spread that sums start with.
    """
    found: tuple[_Plan, set[Buffer]] | None = None
    for plan in _plans(blocks, target, copies, rows):
        if other is not None and (plan.lanes == other.lanes or _empty(plan) >= _empty(other)):
            return None  # what comes later is less promising
        lacking = [buffer for block in blocks for buffer, _ in accesses(block) if not _fits(plan, buffer)]
        alone = {b for b in lacking if b in packs and not any(plan.of(b, range(b.ndim)))}
        if alone == set(lacking):
            spread = all(block.init is None or _path(store_of(block).value, alone) is None for block in blocks)
            found = (plan, alone) if (found is None and other is None) or spread else found
            if spread:
                break
    return found


def _empty(plan: _Plan) -> int:
    """Per mille of lanes that stay empty, of all axes together."""
    return sum(_waste(plan.axes.size(axis), n) for axis, n in plan.lanes.items())


def emptiness(sch: Schedule, target: Target, fuller: bool = False) -> int | None:
    """Per mille of lanes that stay empty where a program's tensors are packed, of all axes together; None where none are.

    Args:
        sch: of the program.
        target: the machine.
        fuller: as for ``apply``.
    """
    blocks, packs = device_blocks(sch.func), filled(sch)
    try:
        plan = _plan(blocks, target, frozenset())
    except ScheduleError:
        found = _spreadable(blocks, packs, target, frozenset())
    else:
        found = (_spreadable(blocks, packs, target, frozenset(), other=plan) if fuller else None) or (plan, set())
    return None if found is None else _empty(found[0])


def _spread_in(sch: Schedule, name: str, alone: set[Buffer]) -> None:
    """Makes tensors with lanes of what a stage loads of some that have none."""
    path = _path(store_of(device_block(sch, name)).value, alone)
    if path is None:
        raise _no_lanes(sch, device_block(sch, name))
    while path is not None:
        sch.host_stage(sch.decompose_value(sch.get_sblock(name), path))
        path = _path(store_of(device_block(sch, name)).value, alone)


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
            return _unfit(f"block {block.name} reduces {what}, whose lanes move with what it goes over; windows over a plane are "
                          f"written out, of {units.MOST} places at most")
        return _unfit(f"block {block.name} sums up {what}, which is no product of two int8 elements; only sums of these are the "
                      f"GEMM's, and the ALU takes in what has all indices of the result{instead}")
    sums = {iv.var for iv in block.iter_vars if iv.kind == "reduce"}
    apart = any(i in sums for x in loads_of(block) for i in x.indices)
    return _unfit(f"block {block.name} sums up what it reads at no plain index of its own; {NEEDS}: " + (
        "who has one kernel for all planes gives the kernel an index of the planes" if apart else
        "give the program one factor laid out by the block's own indices, its elements repeated"))


def _cuts(block: Block, plan: _Plan, surely: bool = False) -> bool:
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


def _path(value: Expr, buffers: set[Buffer]) -> list[int] | None:
    """Where in a value one of some tensors is read."""
    if isinstance(value, BufferLoad):
        return [] if value.buffer in buffers else None
    for k, child in enumerate(expr_children(value)):
        path = _path(child, buffers)
        if path is not None:
            return [k, *path]
    return None


def _fits(plan: _Plan, buffer: Buffer) -> bool:
    try:
        plan.order(buffer)
    except ScheduleError:
        return False
    return True


def _plans(blocks: Sequence[Block], target: Target, copies: Names = frozenset(), rows: Names = frozenset()) -> Iterator[_Plan]:
    """What may become lanes, the most promising first."""
    config = target.config
    axes = Axes(blocks, config.block_out, copies)
    batches = frozenset(axes.of((s.buffer, s.buffer.ndim - 1)) for b in blocks if b.name in rows for s in (store_of(b),))
    products = [p for b in blocks if (p := product_of(b)) is not None]
    alike = frozenset(f.buffer for p in products if rows for f in p.factors if not any(
        axes.of((f.buffer, d)) in batches for d in range(f.buffer.ndim)))
    # A filter of each channel by itself has no lanes of its own: it takes those of what it reads.
    roles = [found for p in products if (found := _roles(p, axes, target))]
    own = {a for found in roles for column, depth, _ in found for a in (column, depth)}
    rest = [part for part in parts_of(blocks, axes) if not axes_of(part, axes) & own]
    if not roles and len(rest) == 1:
        for axis in _stored_axes(rest[0], axes, config.block_out):
            yield _Plan(axes, {axis: config.block_out}, {}, {}, batches, alike)
        return
    # Parts of a program that have no axis in common have lanes each, whatever those of the others.
    others = [axis for part in rest for axis in _own_lanes(part, axes, config.block_out)]
    chosen = consistent(roles, axes, blocks, config.block_out) if copies else iter_product(*roles)
    for choice in islice(chosen, MOST_CHOICES):
        lanes: dict[Place, int] = dict.fromkeys(others, config.block_out)
        for column, depth, _ in choice:
            for axis, size in ((column, config.block_out), (depth, config.block_in)):
                lanes[axis] = size if lanes.get(axis, size) == size else 0
        turned = as_weights(choice, axes, lanes, config.block_out)
        if all(lanes.values()):
            yield _Plan(axes, lanes, {weight: column for column, _, weight in choice}, turned, batches, alike)


def _own_lanes(part: Sequence[Block], axes: Axes, lanes: int) -> list[Place]:
    """The axis that becomes the lanes of a part without products: the most promising that all its tensors have once."""
    choices = _stored_axes(part, axes, lanes)
    buffers = {buffer for block in part for buffer, _ in accesses(block)}
    fitting = [a for a in choices if all(_fits(_Plan(axes, {a: lanes}, {}), b) for b in buffers)]
    return (fitting or choices)[:1]


def _plan(blocks: Sequence[Block], target: Target, copies: Names, rows: Names = frozenset()) -> _Plan:
    reasons = [_unfit(NEEDS)]
    for plan in _plans(blocks, target, copies, rows):
        try:
            for block in blocks:
                for buffer, _ in accesses(block):
                    plan.order(buffer)
                if store_of(block).buffer in plan.weights and store_of(block).buffer not in plan.axes.turned:
                    raise _unfit(f"block {block.name} makes a weight; the machine stores vectors")
        except ScheduleError as error:
            reasons.append(error)
            continue
        return plan
    raise reasons[min(1, len(reasons) - 1)]


def _roles(product: Product, axes: Axes, target: Target) -> list[Role]:
    """What may be the axes of the result's lanes and of the sum's, and the weight; the most promising first."""
    block = product.block
    store = store_of(block)
    found: list[tuple[tuple[int, ...], Role]] = []
    for _, weight, columns, depths in sides_of(product):
        if by_element(product, columns, depths, target):
            continue
        for column in columns:
            for depth in depths:
                pair = axes.of((block.ident, column)), axes.of((block.ident, depth))
                waste = [_waste(axes.size(p), n) for p, n in zip(pair, (target.config.block_out, target.config.block_in))]
                slides = sum(p in axes.sliding for p in pair)
                last = store.indices.index(column)
                key = (slides, sum(waste), -last, -axes.size(pair[1]))
                found.append((key, (*pair, weight.buffer)))
    return [choice for _, choice in sorted(found, key=lambda f: f[0])]


def sides_of(product: Product) -> Iterator[tuple[BufferLoad, BufferLoad, list[Var], list[Var]]]:
    """The factors of a product as data and weight, both ways, with the iterators of the weight's rows and of what is summed over.

    Args:
        product: it.
    """
    kinds = {iv.var: iv.kind for iv in product.block.iter_vars}
    stored = store_of(product.block).indices
    for data, weight in (product.factors, product.factors[::-1]):
        around = {v for i in data.indices for v in free_vars(i)}
        plain = [i for i in weight.indices if isinstance(i, Var)]
        columns = [i for i in plain if kinds.get(i) == "spatial" and i not in around and i in stored]
        yield data, weight, columns, [i for i in plain if kinds.get(i) == "reduce" and i in data.indices]


def by_element(product: Product, columns: Sequence[Var], depths: Sequence[Var], target: Target) -> bool:
    """Whether a product had better be no matrix product: its result's lanes are those of both factors, and a weight diagonal.

    That uses one lane of each element of the weight, as a filter for each channel does. A few filters for each channel fill less.

    Args:
        product: of an index that its result and both factors have, or of none.
        columns: iterators that could be the lanes of the result alone.
        depths: iterators that could be the lanes of what is summed over.
        target: the machine.
    """
    lanes, deep = target.config.block_out, target.config.block_in
    size = extents(product.block)
    data, weight = (set(f.indices) for f in product.factors)
    both = [size[v] for v in data & weight & set(store_of(product.block).indices) if v in size]
    if lanes != deep or not both:
        return False
    filled = max([(1000 - _waste(size[c], lanes)) * (1000 - _waste(size[d], deep)) for c in columns for d in depths], default=0)
    return MUCH * filled < max(1000 - _waste(n, lanes) for n in both) * 1000 // lanes


def _waste(extent: int, lanes: int) -> int:
    """Per mille of the lanes that stay empty."""
    return 1000 - 1000 * extent // (-(-extent // lanes) * lanes)


def _stored_axes(blocks: Sequence[Block], axes: Axes, lanes: int) -> list[Place]:
    """The axes of what is stored last, at plain indices: those that leave fewest lanes empty first.

    Axes along which windows lie come later, and of two others that which something reads further on: the host cuts it out. One
    of a single index comes last: what the host lays out otherwise has all lanes.
    """
    out = store_of(blocks[-1])
    order = [axes.of((out.buffer, d)) for d in range(out.buffer.ndim)]
    rest = [a for a in order if order.count(a) == 1 and any(axes.of(p) is a for p in axes.extent)]

    def least(a: Place) -> tuple[bool, bool, int, bool, int]:
        return axes.size(a) == 1, a in axes.windows, _waste(axes.size(a), lanes), a in axes.sliding, -order.index(a)

    return sorted(rest, key=least)


def _factors(block: Block, plan: _Plan) -> list[int] | None:
    """Factors that make a block's domain whole elements, or None where it is already."""
    store = store_of(block)
    by_index = dict(zip(store.indices, plan.whole(store.buffer, range(len(store.indices)))))
    known = plan.whole(block.ident, [iv.var for iv in block.iter_vars])
    factors = [own or by_index.get(iv.var) or 1 for own, iv in zip(known, block.iter_vars)]
    sizes = [int_value(iv.dom.extent) or 1 for iv in block.iter_vars]
    return factors if any(n % f for n, f in zip(sizes, factors)) else None


def _packed(buffer: Buffer, plan: _Plan) -> Callable[..., tuple[Expr, ...]]:
    """The index map of a tensor's layout."""
    lanes = [n or 1 for n in plan.of(buffer, range(buffer.ndim))]
    outer, inner = plan.order(buffer)

    def packed(*i: Expr) -> tuple[Expr, ...]:
        if buffer in plan.weights:
            return (*[i[d] // lanes[d] for d in outer], *[i[d] % lanes[d] for d in inner])
        *rows, lane = inner
        return (*[i[d] // lanes[d] for d in outer], *([i[d] for d in rows] or [i[lane] % 1]), i[lane] % lanes[lane])

    return packed


def _domain(block: Block, plan: _Plan) -> Callable[..., tuple[Expr, ...]]:
    """The index map of a block's iterators: as what it stores lies, then what it reduces over."""
    store = store_of(block)
    names = [iv.var for iv in block.iter_vars]
    lanes = [n or 1 for n in plan.of(block.ident, names)]
    outer, inner = plan.order(store.buffer)
    at = {index: k for k, index in enumerate(names)}
    if store.buffer in plan.weights:
        place = [at[i] for i in store.indices if i in at]
        if len(place) != len(names) or len(place) != store.buffer.ndim:
            raise _unfit(f"block {block.name} does not copy a weight at its plain iterators")
        return lambda *i: (*[i[place[d]] // lanes[place[d]] for d in outer], *[i[place[d]] % lanes[place[d]] for d in inner])
    first = [at[store.indices[d]] for d in outer if store.indices[d] in at]  # type: ignore[index]
    last = [at[store.indices[d]] for d in inner[-1:] if store.indices[d] in at]  # type: ignore[index]
    rows = [at[store.indices[d]] for d in inner[:-1] if store.indices[d] in at]  # type: ignore[index]
    needed = {k for k, iv in enumerate(block.iter_vars) if iv.kind != "reduce" and int_value(iv.dom.extent) != 1}
    if not needed <= {*first, *rows} or len(last) != 1:
        raise _unfit(f"block {block.name} does not store at its plain iterators: give what it stores a dimension for each of "
                     "them, and let the block that stores the result put them together")
    sums = [k for k, iv in enumerate(block.iter_vars) if iv.kind == "reduce"]
    deep = [k for k in sums if lanes[k] > 1]
    # What fits one element has no loop in front of it.
    single = [lanes[k] > 1 and (int_value(iv.dom.extent) or 0) <= lanes[k] for k, iv in enumerate(block.iter_vars)]
    first = [k for k in first if not single[k]]
    order = [k for k in [*deep, *[k for k in sums if k not in deep]] if not single[k]]

    def packed(*i: Expr) -> tuple[Expr, ...]:
        return (
            *[i[k] // lanes[k] for k in first], *([i[k] for k in rows] or [i[last[0]] % 1]), i[last[0]] % lanes[last[0]],
            *[i[k] // lanes[k] for k in order], *[i[k] % lanes[k] for k in deep],
        )

    return packed
