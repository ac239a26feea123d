"""Axes of a program: dimensions of tensors and iterators of blocks that always go together, and which can be lanes at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from autosched.ir.expr import BinOp, Expr, Var, int_value
from autosched.ir.functor import free_vars
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer
from space.normalise.blocks import extents, loads_of, store_of

Place = tuple[object, object]  # (buffer, dimension) or (block ident, iterator)
Names = frozenset[str]
MOST_LOOKED = 200  # parts of a choice of roles, at most, before the first one is as good as any
MOST_SETTLED = 2000  # such parts, at most, where each leaves out what others can no longer be


class Role(NamedTuple):
    """What becomes the lanes of a product.

    Args:
        column: the axis of the result's.
        depth: the axis that is summed over. Where what the product makes and what it reads are one tensor, or lie as one that
            others read, it is the same.
        weight: the factor that is the weight.
        rows: the dimension of it that is the rows.
    """

    column: Place
    depth: Place
    weight: Buffer
    rows: int


class Axes:
    """Which dimensions and iterators are one axis (union-find), and which are indexed by more than an iterator.

    Args:
        blocks: the accelerator's.
        lanes: of an element; a stage that reads whole elements further on reads along the same axis. 0: none does.
        copies: names of those of the blocks that copy what others make, to be read as a weight.
    """

    def __init__(self, blocks: Sequence[Block], lanes: int = 0, copies: Names = frozenset()) -> None:
        self.parent: dict[Place, Place] = {}
        self.sliding: set[Place] = set()
        self.extent: dict[Place, int] = {}
        self.sizes: dict[Place, int] = {}  # by axis, as long as none becomes another
        slides: list[Place] = []
        windows: list[Place] = []
        self.turned = {store_of(b).buffer: loads_of(b)[0] for b in blocks if b.name in copies}
        for load in self.turned.values():
            for d in range(load.buffer.ndim):
                self.add((load.buffer, d))  # which no other block may read or store
        self.stored: dict[Buffer, tuple[Expr, ...]] = {}
        for block in blocks:
            size = extents(block)
            self.stored[store_of(block).buffer] = store_of(block).indices
            for var, n in size.items():
                self.extent[self.add((block.ident, var))] = n
            for buffer, indices in accesses(block)[: 1 if store_of(block).buffer in self.turned else None]:
                for d, index in enumerate(indices):
                    place = self.add((buffer, d))
                    whole = _further(index, lanes) if lanes and block.init is None else None
                    if isinstance(index, Var) and index in size:
                        self.join(place, (block.ident, index))
                    elif (lane := _lane(buffer, d, index, lanes)) in size and block.init is None:
                        self.join(place, (block.ident, lane))
                    elif whole in size:
                        self.join(place, (block.ident, whole))
                    elif free_vars(index):
                        moved: list[Place] = [place, *[(block.ident, v) for v in free_vars(index)]]
                        slides += moved
                        windows += [] if _further(index, 1) is not None else moved
        self.sliding = {self.of(p) for p in slides}
        self.windows = {self.of(p) for p in windows}

    def add(self, place: Place) -> Place:
        """The place, known from now on."""
        self.parent.setdefault(place, place)
        return place

    def of(self, place: Place) -> Place:
        """The axis of a place."""
        found = place
        while (above := self.parent[found]) is not found:
            found = above
        self.parent[place] = found  # at once next time
        return found

    def join(self, a: Place, b: Place) -> None:
        """Makes two places one axis."""
        a, b = self.of(self.add(a)), self.of(self.add(b))
        if a is not b:
            self.parent[a] = b
            self.sizes.clear()

    def size(self, axis: Place) -> int:
        """The largest extent of an axis's iterators."""
        if not self.sizes:
            for p, n in self.extent.items():
                of = self.of(p)
                self.sizes[of] = max(n, self.sizes.get(of, n))
        return self.sizes[axis]


def _further(index: Expr, lanes: int) -> Var | None:
    """The iterator of an index that is it and a constant of whole elements."""
    form = linear_form(index)
    if form is None or list(form[0].values()) != [1] or (int_value(form[1]) or 0) % lanes:
        return None
    return next(iter(form[0])) if int_value(form[1]) is not None else None


def _lane(buffer: Buffer, dim: int, index: Expr, lanes: int) -> Var | None:
    """The iterator in whose lanes an index is, along a dimension of one element: the same in every element of the iterator's."""
    if not (isinstance(index, BinOp) and index.op == "%" and isinstance(index.a, Var)):
        return None
    return index.a if int_value(index.b) == lanes == int_value(buffer.shape[dim]) else None


def together(digits: Iterable[tuple[Expr, int]]) -> Expr:
    """One index of several, each with its extent, the slowest first.

    Args:
        digits: one or more.
    """
    (index, _), *rest = digits
    for digit, size in rest:
        index = index * size + digit
    return index


def accesses(block: Block) -> list[tuple[Buffer, tuple[Expr, ...]]]:
    """What a block stores, and then what it loads of other buffers, each with its indices."""
    store = store_of(block)
    return [(store.buffer, store.indices), *[(x.buffer, x.indices) for x in loads_of(block)]]


def axes_of(blocks: Sequence[Block], axes: Axes) -> set[Place]:
    """The axes of blocks' iterators."""
    return {axes.of((b.ident, v)) for b in blocks for v in extents(b)}


def parts_of(blocks: Sequence[Block], axes: Axes) -> list[list[Block]]:
    """The blocks of a program, those together that have an axis or a tensor in common."""
    parts: list[tuple[set[object], list[Block]]] = []
    for block in blocks:
        uses: set[object] = {*axes_of([block], axes), *[buffer for buffer, _ in accesses(block)]}
        near = [part for part in parts if part[0] & uses]
        for part in near:
            uses |= part[0]
        before = [b for part in near for b in part[1]]
        parts = [*[part for part in parts if part not in near], (uses, [*before, block])]
    return [own for _, own in parts]


def consistent(roles: Sequence[list[Role]], axes: Axes, blocks: Sequence[Block], size: int) -> Iterator[tuple[Role, ...]]:
    """The choices of roles that give no tensor more lanes than an element has, in order; the first of all where none does.

    Args:
        roles: by product, those that it can have.
        axes: of the program.
        blocks: the accelerator's.
        size: lanes of an element.
    """
    able = {role.weight for found in roles for role in found}
    buffers = {buffer: range(buffer.ndim) for block in blocks for buffer, _ in accesses(block)}
    looked = 0

    def fits(chosen: Sequence[Role]) -> bool:
        nonlocal looked
        looked += 1
        lanes = dict.fromkeys((axis for role in chosen for axis in (role.column, role.depth)), size)
        as_weights(chosen, axes, lanes, size)
        return all(sum(axes.of((b, d)) in lanes for d in dims) <= 1 + (b in able) for b, dims in buffers.items())

    def ahead(chosen: tuple[Role, ...]) -> Iterator[tuple[Role, ...]]:
        if len(chosen) == len(roles):
            yield chosen
            return
        for role in roles[len(chosen)]:
            if looked < MOST_LOOKED and fits((*chosen, role)):
                yield from ahead((*chosen, role))

    found = ahead(())
    yield next(found, tuple([of[0] for of in roles]))
    yield from found


def as_weights(choice: Sequence[Role], axes: Axes, lanes: dict[Place, int], size: int) -> dict[Place, int]:
    """Gives what weights are made of the lanes that these sum over; the axes of their rows, with how many make an element.

    Args:
        choice: a role for each product.
        axes: of the program.
        lanes: by axis; gets more of them.
        size: lanes of an element.
    """
    rows: dict[Place, int] = {}
    for column, depth, weight, _ in choice:
        load = axes.turned.get(weight)
        for d, index in enumerate(load.indices if load is not None else ()):
            assert load is not None
            own = {axes.of((weight, k)) for k, i in enumerate(axes.stored[weight]) if i in free_vars(index)}
            if depth in own:
                lanes[axes.of((load.buffer, d))] = size if lanes.get(depth) == size else 0
            elif column in own:
                rows[axes.of((load.buffer, d))] = size
    return rows


def settled(roles: Sequence[Sequence[Role]], axes: Axes, tensors: Collection[Buffer], size: int) -> Iterator[tuple[Role, ...]]:
    """The choices of roles that give none of some tensors more lanes than an element has, however many products there are.

    What a product can no longer be, once others are decided, is left out everywhere before any other one is chosen for; then
    comes that with the fewest roles left. Where even that takes too long, the first of all choices is as good as any.

    Args:
        roles: by product, those that it can have, one at least.
        axes: of the program.
        tensors: of which lanes are counted.
        size: lanes of an element.
    """
    dims = {buffer: [axes.of((buffer, d)) for d in range(buffer.ndim) if (buffer, d) in axes.parent] for buffer in tensors}
    having: dict[Place, dict[Buffer, None]] = {}
    for buffer, own in dims.items():
        for axis in own:
            having.setdefault(axis, {})[buffer] = None
    brings = {role: _lanes_of(role, axes, size) for found in roles for role in found}
    looked = 0

    def over(lanes: Collection[Place], able: Collection[Buffer], where: Iterable[Buffer]) -> bool:
        return any(sum(axis in lanes for axis in dims[b]) > 1 + (b in able) for b in where)

    def narrowed(left: list[list[Role]]) -> list[list[Role]] | None:
        """What products can be beside those that are decided; None where one cannot be anything."""
        nonlocal looked
        while True:
            looked += 1
            lanes = {axis for found in left if len(found) == 1 for axis in brings[found[0]]}
            able = {role.weight for found in left for role in found}
            if over(lanes, able, dims):
                return None
            fitting = [found if len(found) == 1 else [
                role for role in found if not over(
                    lanes | brings[role], able, {b: None for axis in brings[role] - lanes for b in having.get(axis, ())})
            ] for found in left]
            if not all(fitting):
                return None
            if fitting == left:
                return left
            left = fitting

    def ahead(left: list[list[Role]]) -> Iterator[tuple[Role, ...]]:
        fitting = narrowed(left) if looked < MOST_SETTLED else None
        if fitting is None:
            return
        open_ = [k for k, found in enumerate(fitting) if len(found) > 1]
        if not open_:
            yield tuple([found[0] for found in fitting])
            return
        first = min(open_, key=lambda k: len(fitting[k]))
        for role in fitting[first]:
            yield from ahead([*fitting[:first], [role], *fitting[first + 1 :]])

    yield from ahead([[*found] for found in roles])
    if looked >= MOST_SETTLED:
        yield tuple([found[0] for found in roles])


def _lanes_of(role: Role, axes: Axes, size: int) -> frozenset[Place]:
    """The axes that have lanes where a product has a role, those of what its weight is a copy of as well."""
    lanes: dict[Place, int] = dict.fromkeys((role.column, role.depth), size)
    as_weights([role], axes, lanes, size)
    return frozenset(lanes)
