"""Which index becomes the lanes of elements, and which others are rows of a weight or of an element.

Indices that always go together (an iterator, and the dimensions that it is the plain index of) are one axis. The axis that a
sum of products shares between its operands becomes the lanes of both, and the one that only the weight has becomes the weight's
rows and the lanes of the result; everything that has such an axis is split by it. Without a product, the lanes are an axis that
all tensors have.

A weight that the program makes is a copy of what another block stores (``turned``): there the sum's axis is the lanes, and the
weight's rows are vectors one behind the other. Nothing else of the two need agree.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from itertools import product as iter_product

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Var
from autosched.ir.functor import free_vars
from autosched.ir.patterns import loads_in
from autosched.ir.stmt import Block, Buffer
from autosched.target import Target
from space.normalise.axes import Axes, Names, Place, Role, accesses, as_weights, axes_of, consistent, parts_of, settled
from space.normalise.blocks import Product, extents, product_of, store_of, unfit

NEEDS = "a product needs an index that only one factor and the result have, and one that both factors are summed over"
MOST_CHOICES = 16  # of lanes that are tried, for all products together
KEPT = 32  # plans of programs that are remembered: what cuts, spreads and pads asks for the same one before anything moves
MUCH = 2  # times the lanes of a matrix product that a product by element has to fill


@dataclass(frozen=True)
class Way:
    """How a program is to be packed.

    Args:
        target: the machine.
        repeated: whether a product may read elements of a parameter from a copy that has them several times.
        copies: names of blocks that copy what others make, to be read as a weight.
        fuller: whether lanes that are fuller come before those that all tensors have: what lacks them gets a tensor with lanes.
        rows: names of blocks whose results have the rows of an element last, where one has several.
        given: whether only what the host lays out is a weight, or a copy: a product that has no other factor is by element.
        settled: whether lanes that all products agree on are looked for to the end, however many products there are.
    """

    target: Target
    repeated: bool = False
    copies: Names = frozenset()
    fuller: bool = False
    rows: Names = frozenset()
    given: bool = False
    settled: bool = False


@dataclass(frozen=True)
class Plan:
    """What becomes lanes.

    Args:
        axes: of the program.
        lanes: lanes by axis.
        weights: by weight, the dimension of its rows; its other one with lanes is summed over.
        rows: axes of the vectors of which weights are made, by how many make a weight's element.
        batches: axes that are the rows of an element which has several, all of them.
        alike: tensors that are the same in all rows: factors that become weights of one row each, of a filter for each channel.
    """

    axes: Axes
    lanes: dict[Place, int]
    weights: dict[Buffer, int]
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
            raise unfit(f"{buffer.name} has no index that can be the lanes of an element" if not inner else
                        f"{len(inner)} indices of {buffer.name} would have to be lanes: what reads it wants different ones")
        batch = [d for d in range(buffer.ndim) if self.axes.of((buffer, d)) in self.batches]
        if len(batch) != (1 if self.batches and buffer not in self.weights and buffer not in self.alike else 0) or batch == inner:
            raise unfit(f"{buffer.name} would have {len(batch)} indices that are the rows of an element")
        if buffer in self.weights:
            inner.sort(key=lambda d: d != self.weights[buffer])
            return [*inner, *[d for d, n in enumerate(lanes) if n is None]], inner
        # Rows of an image lie together behind the channels, and those of a weight behind all.
        last = [d for d in range(buffer.ndim) if self.axes.of((buffer, d)) in self.rows]
        slides = [d for d in range(buffer.ndim) if self.axes.of((buffer, d)) in self.axes.sliding and d not in last]
        outer = [*[d for d in range(buffer.ndim) if d not in slides and d not in last], *slides, *last]
        return [d for d in outer if d not in batch], [*batch, *inner]


# By the addresses of blocks, which are kept, and how they are packed: the plan, or why there is none.
_PLANS: OrderedDict[tuple[object, ...], tuple[tuple[Block, ...], Plan | str]] = OrderedDict()


def plans(blocks: Sequence[Block], way: Way) -> Iterator[Plan]:
    """What may become lanes, the most promising first.

    Args:
        blocks: of the accelerator.
        way: how they are to be packed.
    """
    config = way.target.config
    axes = Axes(blocks, config.block_out, way.copies)
    batches = frozenset(axes.of((s.buffer, s.buffer.ndim - 1)) for b in blocks if b.name in way.rows for s in (store_of(b),))
    products = [p for b in blocks if (p := product_of(b)) is not None]
    alike = frozenset(f.buffer for p in products if way.rows for f in p.factors if not any(
        axes.of((f.buffer, d)) in batches for d in range(f.buffer.ndim)))
    # A filter of each channel by itself has no lanes of its own: it takes those of what it reads.
    roles = [found for p in products if (found := roles_of(p, axes, way.target, _vectors(blocks, axes, way)))]
    own = {a for found in roles for role in found for a in (role.column, role.depth)}
    rest = [part for part in parts_of(blocks, axes) if not axes_of(part, axes) & own]
    if not roles and len(rest) == 1:
        for axis in _stored_axes(rest[0], axes, config.block_out):
            yield Plan(axes, {axis: config.block_out}, {}, {}, batches, alike)
        return
    # Parts of a program that have no axis in common have lanes each, whatever those of the others.
    others = [axis for part in rest for axis in _own_lanes(part, axes, config.block_out)]
    if way.settled:
        chosen = settled(roles, axes, {buffer for block in blocks for buffer, _ in accesses(block)}, config.block_out)
    elif way.copies:
        chosen = consistent(roles, axes, blocks, config.block_out)
    else:
        chosen = iter_product(*roles)
    for choice in islice(chosen, MOST_CHOICES):
        lanes: dict[Place, int] = dict.fromkeys(others, config.block_out)
        for role in choice:
            for axis, size in ((role.column, config.block_out), (role.depth, config.block_in)):
                lanes[axis] = size if lanes.get(axis, size) == size else 0
        turned = as_weights(choice, axes, lanes, config.block_out)
        if all(lanes.values()):
            yield Plan(axes, lanes, {role.weight: role.rows for role in choice}, turned, batches, alike)


def plan_of(blocks: Sequence[Block], way: Way) -> Plan:
    """The most promising lanes that all tensors have once.

    Args:
        blocks: of the accelerator.
        way: how they are to be packed.

    Raises:
        ScheduleError: there are none; it says why not the most promising ones.
    """
    key = (*map(id, blocks), way)
    known = _PLANS.get(key)
    if known is None:
        known = _PLANS[key] = tuple(blocks), _plan_of(blocks, way)
        if len(_PLANS) > KEPT:
            _PLANS.popitem(last=False)
    if isinstance(known[1], str):
        raise unfit(known[1])
    return known[1]


def _plan_of(blocks: Sequence[Block], way: Way) -> Plan | str:
    """As ``plan_of``, or why there is none."""
    reasons = [NEEDS]
    for plan in plans(blocks, way):
        try:
            for block in blocks:
                for buffer, _ in accesses(block):
                    plan.order(buffer)
                if store_of(block).buffer in plan.weights and store_of(block).buffer not in plan.axes.turned:
                    raise unfit(f"block {block.name} makes a weight; the machine stores vectors")
        except ScheduleError as error:
            reasons.append(error.reason)
            continue
        return plan
    return reasons[min(1, len(reasons) - 1)]


def packable(blocks: Sequence[Block], way: Way) -> bool:
    """Whether a product, if there are any, has lanes, and all tensors have them once.

    Args:
        blocks: of the accelerator.
        way: how they are to be packed.
    """
    axes = Axes(blocks, copies=way.copies)
    products = [p for b in blocks if (p := product_of(b)) is not None]
    if products and not any(roles_of(p, axes, way.target, _vectors(blocks, axes, way)) for p in products):
        return False
    try:
        plan_of(blocks, way)
    except ScheduleError:
        return False
    return True


def spreadable(
    blocks: Sequence[Block], packs: set[Buffer], way: Way, other: Plan | None = None
) -> tuple[Plan, set[Buffer]] | None:
    """The most promising lanes that all tensors have but for some that the host fills, and these.

    Args:
        blocks: of the accelerator.
        packs: what the host fills.
        way: how they are to be packed.
        other: lanes that all tensors have: only such count as fill more of these, and with nothing spread that sums start with.
    """
    found: tuple[Plan, set[Buffer]] | None = None
    for plan in plans(blocks, way):
        if other is not None and (plan.lanes == other.lanes or _empty(plan) >= _empty(other)):
            return None  # what comes later is less promising
        lacking = [buffer for block in blocks for buffer, _ in accesses(block) if not _fits(plan, buffer)]
        alone = {b for b in lacking if b in packs and not any(plan.of(b, range(b.ndim)))}
        if alone == set(lacking):
            read = [x.buffer for block in blocks if block.init is not None for x in loads_in(store_of(block).value)]
            spread = not alone & {*read}
            found = (plan, alone) if (found is None and other is None) or spread else found
            if spread:
                break
    return found


def _fits(plan: Plan, buffer: Buffer) -> bool:
    try:
        plan.order(buffer)
    except ScheduleError:
        return False
    return True


def _own_lanes(part: Sequence[Block], axes: Axes, lanes: int) -> list[Place]:
    """The axis that becomes the lanes of a part without products: the most promising that all its tensors have once."""
    choices = _stored_axes(part, axes, lanes)
    buffers = {buffer for block in part for buffer, _ in accesses(block)}
    fitting = [a for a in choices if all(_fits(Plan(axes, {a: lanes}, {}), b) for b in buffers)]
    return (fitting or choices)[:1]


def _empty(plan: Plan) -> int:
    """Per mille of lanes that stay empty, of all axes together."""
    return sum(_waste(plan.axes.size(axis), n) for axis, n in plan.lanes.items())


def _vectors(blocks: Sequence[Block], axes: Axes, way: Way) -> set[Buffer]:
    """What is no weight because a block stores it, in vectors; nothing where that is to be seen from lanes only."""
    return {store_of(b).buffer for b in blocks} - {*axes.turned} if way.given or way.settled else set()


def roles_of(product: Product, axes: Axes, target: Target, vectors: Collection[Buffer]) -> list[Role]:
    """What may be the axes of the result's lanes and of the sum's, and the weight, none of the vectors; the best ones first."""
    block = product.block
    store = store_of(block)
    found: list[tuple[tuple[int, ...], Role]] = []
    for _, weight, columns, depths in sides_of(product):
        if weight.buffer in vectors or by_element(product, columns, depths, target):
            continue
        for column in columns:
            for depth in depths:
                pair = axes.of((block.ident, column)), axes.of((block.ident, depth))
                waste = [_waste(axes.size(p), n) for p, n in zip(pair, (target.config.block_out, target.config.block_in))]
                slides = sum(p in axes.sliding for p in pair)
                last = store.indices.index(column)
                key = (slides, sum(waste), -last, -axes.size(pair[1]))
                found.append((key, Role(*pair, weight.buffer, weight.indices.index(column))))
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
