"""Tensors in elements of the machine: extents in whole elements, and the layouts that follow from what the lanes are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.errors import ScheduleError
from autosched.ir.expr import Expr, Var, int_value
from autosched.ir.functor import free_vars
from autosched.ir.patterns import has_loads
from autosched.ir.printer import expr_text
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import choices, epilogue, gathers, repeats, spread
from space.normalise.axes import Names, accesses
from space.normalise.blocks import (
    Product,
    device_block,
    device_blocks,
    elements_of,
    extents,
    filled,
    loads_of,
    pack_blocks,
    product_of,
    store_of,
    unfit,
    writer_of,
)
from space.normalise.copies import path_of, path_to
from space.normalise.layouts import Plan, Way, packable, plan_of, plans


def apply(sch: Schedule, way: Way) -> None:
    """Packs every tensor of the accelerator.

    Args:
        sch: of the program.
        way: how.

    Raises:
        ScheduleError: no axis can be the lanes.
    """
    for block in device_blocks(sch.func):
        if has_loads(*[i for _, indices in accesses(block) for i in indices]):
            raise unfit(f"block {block.name} reads at an index that is data")
    _cut(sch, way)
    spread.apply(sch, way)
    padded = _zeroed(sch, way)
    blocks = device_blocks(sch.func)
    plan = plan_of(blocks, way)
    # All of it is worked out before anything moves: primitives replace what the plan is about, but keep names.
    packs, pads = _packs(sch), _padding(sch, plan)
    hosts = frozenset(b.name for b in packs)
    zeros = frozenset() if not way.copies else hosts if padded is not None else _zeros(sch, plan, hosts)
    layouts: dict[Buffer, tuple[str, Any]] = {}
    for block in (*packs, *blocks):
        buffer = store_of(block).buffer
        layouts[buffer] = block.name, _packed(buffer, plan)
    domains = [(b.name, _domain(b, plan)) for b in blocks]
    if padded is not None:
        sch.adopt(padded)
    else:
        for name, factors in pads:
            if factors is not None:
                _pad(sch, name, factors, plan, zeros)
    if not zeros <= hosts:
        choices.apply(sch, way.target)  # which makes tensors that are packed as well
        epilogue.apply(sch, way.target)
        # All that was enlarged is in whole elements now: nothing is made zero again.
        apply(sch, way)
        return
    for name, mapping in layouts.values():
        sch.transform_layout(sch.get_sblock(name), ("write", 0), mapping)
    for name, mapping in domains:
        sch.transform_block_layout(sch.get_sblock(name), mapping)


def shifted(sch: Schedule, target: Target) -> None:
    """Of what a stage reads further on along the lanes of an element, the host makes a copy that lies where the stage stores."""
    plan = next(iter(plans(device_blocks(sch.func), Way(target))), None)
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


def _cut(sch: Schedule, way: Way) -> None:
    """Of a parameter that a product reads from an index on, the host packs what is read, so that its lanes begin at 0."""
    blocks = device_blocks(sch.func)
    if packable(blocks, way):
        plan = plan_of(blocks, way)
        for block in blocks:
            _realigned(sch, block, plan)
        return
    repeats.along_one(sch)
    packs = filled(sch)
    for block in device_blocks(sch.func):
        product = product_of(block)
        for factor in product.factors if product is not None else ():
            shifted = any(not isinstance(i, Var) and int_value(i) is None and len(set(free_vars(i))) == 1 for i in factor.indices)
            path = path_to(store_of(device_block(sch, block.name)).value, {factor.buffer})
            if factor.buffer in packs and shifted and path is not None and not way.repeated:
                divided = [i for i in factor.indices if free_vars(i) and linear_form(i) is None]
                if divided:
                    raise unfit(f"index {expr_text(divided[0])} of {factor.buffer.name} in block {block.name} is not affine in "
                                "its iterators")
            if factor.buffer not in packs or not shifted or path is None:
                continue
            if gathers.strided(factor):
                # What lies between the elements that are read would be in their lanes.
                gathers.reindexed(sch, block.name, factor.buffer.name)
            else:
                sch.host_stage(sch.decompose_value(sch.get_sblock(block.name), path))


def _realigned(sch: Schedule, block: Block, plan: Plan) -> None:
    """Lets the host lay out what a product reads of a parameter from the middle of an element on."""
    product = product_of(block)
    for factor in product.factors if product is not None else ():
        lanes = plan.of(factor.buffer, range(factor.buffer.ndim))
        forms = [linear_form(i) if n else None for n, i in zip(lanes, factor.indices)]
        first = [(n or 1, int_value(form[1]) or 0) for n, form in zip(lanes, forms) if form is not None and form[0]]
        path = path_to(store_of(device_block(sch, block.name)).value, {factor.buffer})
        if factor.buffer in filled(sch) and any(at % n for n, at in first) and path is not None:
            sch.host_stage(sch.decompose_value(sch.get_sblock(block.name), path))


def _zeroed(sch: Schedule, way: Way) -> Schedule | None:
    """Of what a product reads a part of, or by digits, the host makes a tensor that ends where that does: zeros are behind it.

    Returns:
        The program with all blocks enlarged, where that has been seen to do.
    """
    plan = plan_of(device_blocks(sch.func), way)
    padded = [b for b in device_blocks(sch.func) if product_of(b) is not None and any(
        f > 1 and extents(b)[iv.var] % f for iv, f in zip(b.iter_vars, _factors(b, plan) or []) if iv.kind == "reduce")]
    for _ in padded:
        trial = sch.copy()
        name = _refusing(trial, plan, frozenset(b.name for b in _packs(sch)) if way.copies else frozenset())
        if name is None:
            return trial
        product = _product(sch, name)
        packs = filled(sch)
        own = [] if product is None else [f.buffer for f in product.factors if f.buffer in packs]
        path = path_to(store_of(product.block).value, {min(own, key=elements_of)}) if product is not None and own else None
        if path is None:
            return None
        sch.host_stage(sch.decompose_value(sch.get_sblock(name), path))
        plan = plan_of(device_blocks(sch.func), way)
    return None


def _refusing(trial: Schedule, plan: Plan, zeros: Names) -> str | None:
    """The first block that cannot be enlarged, as a product that would add up more than zeros; None where all are."""
    for name, factors in _padding(trial, plan):
        if factors is None:
            continue
        try:
            _pad(trial, name, factors, plan, zeros)
        except ScheduleError:
            return name
    return None


def _product(sch: Schedule, name: str | None) -> Product | None:
    return next((product_of(b) for b in device_blocks(sch.func) if b.name == name), None)


def _pad(sch: Schedule, name: str, factors: Sequence[int], plan: Plan, zeros: Names) -> None:
    """Enlarges a block: zeros on the host may make zeros of what the program makes of them; a maker is zero in its lanes only."""
    maker = next((b for b in device_blocks(sch.func) if b.name == name and name in zeros), None)
    if maker is None:
        sch.pad_block(sch.get_sblock(name), factors, True if name in zeros else None)
        return
    lanes = plan.of(maker.ident, [iv.var for iv in maker.iter_vars])
    sch.pad_block(sch.get_sblock(name), [f if lane else 1 for f, lane in zip(factors, lanes)], True)
    sch.pad_block(sch.get_sblock(name), [1 if lane else f for f, lane in zip(factors, lanes)])


def _zeros(sch: Schedule, plan: Plan, zeros: Names) -> Names:
    """The blocks that store zeros where elements are filled up: those of the host, and makers of weights that need it."""
    for _ in plan.axes.turned:
        product = _product(sch, _refusing(sch.copy(), plan, zeros))
        loads = [plan.axes.turned[f.buffer] for f in product.factors if f.buffer in plan.axes.turned] if product else []
        maker = writer_of(sch.func, loads[0].buffer) if loads else None
        if maker is None or maker.init is not None:
            break
        zeros |= {maker.name}
    return zeros


def _padding(sch: Schedule, plan: Plan) -> list[tuple[str, list[int] | None]]:
    """By block, those of the host first, the factors that make its domain whole elements."""
    return [(b.name, _factors(b, plan)) for b in (*_packs(sch), *device_blocks(sch.func))]


def _packs(sch: Schedule) -> list[Block]:
    """The blocks by which the host fills what the accelerator reads."""
    touched = {buffer for block in device_blocks(sch.func) for buffer, _ in accesses(block)}
    return [b for b in pack_blocks(sch) if store_of(b).buffer in touched]


def _factors(block: Block, plan: Plan) -> list[int] | None:
    """Factors that make a block's domain whole elements, or None where it is already."""
    store = store_of(block)
    by_index = dict(zip(store.indices, plan.whole(store.buffer, range(len(store.indices)))))
    known = plan.whole(block.ident, [iv.var for iv in block.iter_vars])
    factors = [own or by_index.get(iv.var) or 1 for own, iv in zip(known, block.iter_vars)]
    sizes = [int_value(iv.dom.extent) or 1 for iv in block.iter_vars]
    return factors if any(n % f for n, f in zip(sizes, factors)) else None


def _packed(buffer: Buffer, plan: Plan) -> Callable[..., tuple[Expr, ...]]:
    """The index map of a tensor's layout."""
    lanes = [n or 1 for n in plan.of(buffer, range(buffer.ndim))]
    outer, inner = plan.order(buffer)

    def packed(*i: Expr) -> tuple[Expr, ...]:
        if buffer in plan.weights:
            return (*[i[d] // lanes[d] for d in outer], *[i[d] % lanes[d] for d in inner])
        *rows, lane = inner
        return (*[i[d] // lanes[d] for d in outer], *([i[d] for d in rows] or [i[lane] % 1]), i[lane] % lanes[lane])

    return packed


def _domain(block: Block, plan: Plan) -> Callable[..., tuple[Expr, ...]]:
    """The index map of a block's iterators: as what it stores lies, then what it reduces over."""
    store = store_of(block)
    names = [iv.var for iv in block.iter_vars]
    lanes = [n or 1 for n in plan.of(block.ident, names)]
    outer, inner = plan.order(store.buffer)
    at = {index: k for k, index in enumerate(names)}
    if store.buffer in plan.weights:
        place = [at[i] for i in store.indices if i in at]
        if len(place) != len(names) or len(place) != store.buffer.ndim:
            raise unfit(f"block {block.name} does not copy a weight at its plain iterators")
        return lambda *i: (*[i[place[d]] // lanes[place[d]] for d in outer], *[i[place[d]] % lanes[place[d]] for d in inner])
    first = [at[store.indices[d]] for d in outer if store.indices[d] in at]  # type: ignore[index]
    last = [at[store.indices[d]] for d in inner[-1:] if store.indices[d] in at]  # type: ignore[index]
    rows = [at[store.indices[d]] for d in inner[:-1] if store.indices[d] in at]  # type: ignore[index]
    needed = {k for k, iv in enumerate(block.iter_vars) if iv.kind != "reduce" and int_value(iv.dom.extent) != 1}
    if not needed <= {*first, *rows} or len(last) != 1:
        raise unfit(f"block {block.name} does not store at its plain iterators: give what it stores a dimension for each of "
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
