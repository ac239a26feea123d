"""Geometry of many points at once, in NumPy: regions, footprints and traffic at every depth, without building a schedule.

It knows what a program needs (its nest) and what a plan says; it decides nothing. Who reads a column is the rule that owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import permutations
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.ir.scopes import ACC, SRAM_SCOPES
from autosched.ir.stmt import PrimFunc
from autosched.lower.capacity import Held, copies_of, fits
from autosched.target import Target
from sim import timing
from space import borders, tails
from space.figures import Floats, Loads, Shape
from space.nest import Nest
from space.operands import Operand
from space.padding import Padding
from space.plan import Figures, Mask, Part, Plan, along, columns, once, stacked, times, turned
from space.rule import Column, Ints, NumericRule, Points

LAID_OUT = "laid out"  # the original of a nest that makes a weight of what another one has stored


class Model:
    """Vectorised arithmetic on the points of one sketch on one target.

    Figures of a part have the shape that is said; of a plan's ``stack`` they have one more dimension in front, the parts.

    Args:
        nest: the program.
        target: the machine.
        rules: the numeric rules, in the order in which their columns are decided.
        nests: how many nests the program has, this one included.
        origins: where the operands' layout is the space's choice, of which of the program's tensors the host makes each; by name.
        laid: the stages of the host that make operands, whoever chooses their layout.
        original: the block that stores first what this nest stores again, for a reader that wants another layout; ``LAID_OUT``
            where it stores as a weight what is there already; or "".
        unpacked: of what the host takes as it is from tensors that are stored, how many elements at most, by name.
        unpacking: the stages of the host that take them.
        early: whether a block of the nest stands where another nest runs.
    """

    def __init__(
        self, nest: Nest, target: Target, rules: Sequence[NumericRule] = (), nests: int = 1,
        origins: Mapping[str, frozenset[str]] = MappingProxyType({}), laid: Sequence[PrimFunc] = (),
        original: str = "", unpacked: Mapping[str, int] = MappingProxyType({}), unpacking: Sequence[PrimFunc] = (),
        early: bool = False,
    ) -> None:
        self.nest = nest
        self.nests = nests
        self.origins = origins
        self.original = original
        self.early = early
        self.unpacked = unpacked
        self.unpacking = tuple(unpacking)
        self.laid = tuple(laid)
        self.target = target
        self.config = target.config
        self.extents = np.array([a.extent for a in nest.axes], dtype=np.int64)
        spatial = nest.spatial
        self.n_spatial = len(spatial)
        movable = [i for i in spatial if nest.axes[i].extent > 1]
        fixed = [i for i in spatial if nest.axes[i].extent == 1]
        self.orders = [(*p, *fixed) for p in permutations(movable)]
        # position of every axis' outer loop for every order
        self.position = np.zeros((len(self.orders), len(nest.axes)), dtype=np.int64)
        for n, order in enumerate(self.orders):
            for place, axis in enumerate(order):
                self.position[n, axis] = place
            for place, axis in enumerate(nest.reduce):
                self.position[n, axis] = self.n_spatial + place
        self.depths = {scope: target.capacity(scope) for scope in SRAM_SCOPES}
        self.bytes_of = {scope: memory.element_bytes for scope, memory in target.memories.items()}
        self._stores: npt.NDArray[np.float64] = np.zeros(0)  # cycles of a store, by its elements in a row; -1 as yet unknown
        self.least_tables: dict[tuple[int, int, bool], tuple[Ints, list[Ints]]] = {}  # of ``least_elements``
        self.out_elements = int(np.prod([nest.axes[i].extent for i in spatial]))
        self.products = int(self.extents.prod())
        self.padding = Padding(nest, self.extents)
        self.cut = borders.cut_of(nest)
        most = 0 if self.cut is None else nest.halos[0].dims[self.cut.dim][1]
        self.parts_of = borders.divisors(most)
        self.imm_ops = sum(s.imm_ops for s in nest.stages)
        self.tensor_ops = sum(s.tensor_ops for s in nest.stages)
        self.added = sum(s.products for s in nest.stages)  # products that stages add to every element
        self.rules = tuple(rules)
        self._once: dict[object, Any] = {}
        self._owned = {rule: rule.columns(self) for rule in self.rules}
        self._places: dict[tuple[str, ...], Ints] = {}
        self._drawn: dict[NumericRule, tuple[Ints, Ints, Ints, Points]] = {}
        self.columns: tuple[Column, ...] = tuple(c for columns in self._owned.values() for c in columns)
        self.index = {c.name: n for n, c in enumerate(self.columns)}
        self.values = tuple(np.array(c.choices, dtype=np.int32) for c in self.columns)

    @property
    def cuts(self) -> bool:
        """Whether the parts of a nest may differ, and what else follows from that."""
        return any(rule.name == "cuts" for rule in self.rules)

    @cached_property
    def uses(self) -> npt.NDArray[np.bool_]:
        """Which axes move the region of which operand, shape (operands, axes)."""
        return self._by_axis(Operand.uses)

    @cached_property
    def read_along(self) -> npt.NDArray[np.bool_]:
        """Which axes move what is read of which operand, also within what one load brings; shape (operands, axes)."""
        return self._by_axis(Operand.read_along)

    @cached_property
    def even(self) -> npt.NDArray[np.bool_]:
        """Which axes move it equally far by every iteration, shape (operands, axes)."""
        return self._by_axis(Operand.steps)

    def _by_axis(self, asked: Callable[[Operand, int], bool]) -> npt.NDArray[np.bool_]:
        """What holds of every operand and axis, shape (operands, axes)."""
        axes = range(len(self.nest.axes))
        rows = [[asked(operand, a) for a in axes] for operand in self.nest.operands]
        return np.array(rows, dtype=np.bool_).reshape(len(rows), len(axes))

    @property
    def packing(self) -> tuple[PrimFunc, ...]:
        """The stages of the host that make operands, where their layout is the space's choice."""
        return self.laid if self.unpacking else ()

    @cached_property
    def order_keys(self) -> tuple[Ints, Ints, Ints]:
        """(weights of the spatial axes' places, ascending sums of weighted places, which order has each)."""
        weights = (self.n_spatial + 1) ** np.arange(self.n_spatial)
        keys = self.position[:, : self.n_spatial] @ weights
        by_key = np.argsort(keys, kind="stable")
        return weights, keys[by_key], by_key

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Of every operand what the geometry asks again and again."""
        return tuple(Shape.of(self, k) for k in range(len(self.nest.operands)))

    # -- columns and plans --------------------------------------------------------------------------------------------

    def owned(self, rule: NumericRule) -> tuple[Column, ...]:
        """The columns that a rule has made."""
        return self._owned[rule]

    def drawn(self, rule: NumericRule) -> tuple[Ints, Ints, Ints, Points]:
        """Of a rule's columns with a choice: where they stand, how many values each has, where these begin, and all values."""
        if rule not in self._drawn:
            own = [self.index[c.name] for c in self._owned[rule] if len(c.choices) > 1]
            counts = np.array([len(self.values[at]) for at in own], dtype=np.int64)
            values = np.concatenate([np.zeros(0, np.int32), *(self.values[at] for at in own)])
            self._drawn[rule] = np.array(own, dtype=np.int64), counts, counts.cumsum() - counts, values
        return self._drawn[rule]

    def column(self, points: Points, name: str, default: int = 0) -> Ints:
        """A column by name, shape (n,); the default where no rule makes it."""
        at = self.index.get(name)
        return np.full(len(points), default, dtype=np.int64) if at is None else points[:, at].astype(np.int64)

    def places(self, names: tuple[str, ...]) -> Ints:
        """Where columns of some names stand, -1 where no rule makes one; shape (names,)."""
        if names not in self._places:
            self._places[names] = np.array([self.index.get(name, -1) for name in names], dtype=np.int64)
        return self._places[names]

    def overriding(self, method: str) -> tuple[NumericRule, ...]:
        """The rules that have a method of their own, in order."""
        neutral = getattr(NumericRule, method)
        return self.once(method, lambda: tuple([rule for rule in self.rules if getattr(type(rule), method) is not neutral]))

    def owned_at(self, rule: NumericRule) -> Ints:
        """Where the columns stand that a rule has made, shape (its columns,)."""
        return self.once((rule, "columns"), lambda: np.array([self.index[c.name] for c in self._owned[rule]], dtype=np.int64))

    def once(self, key: object, made: Callable[[], Figures]) -> Figures:
        """What a rule works out of the sketch alone, by a key of its own; worked out once, and not to be changed."""
        if key not in self._once:
            self._once[key] = made()
        found: Figures = self._once[key]
        return found

    def neutral(self, n: int) -> Plan:
        """What ``n`` points mean before any rule has spoken: one tile, everything loaded once, one bank."""
        # A column's figures stand side by side, and so in all that is worked out of them: arithmetic goes by columns.
        extents = self.extents[:, None].repeat(n, axis=1).T
        zero = np.zeros(n, dtype=np.int64)
        operands = range(len(self.nest.operands))
        every = np.full(n, self.n_spatial, dtype=np.int64)
        body = Part(
            extents, extents.copy("K"), np.ones(n, dtype=np.bool_), np.zeros_like(extents), zero, np.ones_like(zero), every,
            every,
        )
        body.take_outer(np.ones_like(extents))
        position = np.broadcast_to(self.position[0], extents.shape)
        never = np.zeros(n, dtype=np.bool_)
        return Plan(
            [body], position, [zero for _ in operands], [zero for _ in operands], zero, never, never, [never for _ in operands]
        )

    def plan(self, points: Points) -> Plan:
        """What points mean."""
        plan = self.neutral(len(points))
        points = np.asfortranarray(points)  # as compiled code takes them
        for rule in self.rules:
            rule.plan(self, points, plan)
        plan.complete()
        return plan

    def repair(self, points: Points, settle: bool = True) -> Points:
        """The representatives of points' twins: columns that change nothing in a point are reset; shape as given.

        Args:
            points: the rows.
            settle: also what only later rules' columns show to change nothing; without it rows mean something, but have twins.
        """
        return np.ascontiguousarray(self.repaired(points)[0] if settle else self._in_order(points)[0])

    def repaired(self, points: Points) -> tuple[Points, Mask, Plan]:
        """As ``repair``; which rows settling has left alone, and would again, shape (n,); a plan, which says what those mean."""
        fixed, plan = self._in_order(points)
        before = fixed.copy("K")
        for rule in self.rules:
            rule.settle(self, fixed, plan)
        return fixed, np.asarray((fixed == before).all(axis=1), dtype=np.bool_), plan

    def _in_order(self, points: Points) -> tuple[Points, Plan]:
        """Rule after rule: rows that each has repaired, with what the ones before it say, and what they mean."""
        fixed = points.copy("F")  # as compiled code takes them
        plan = self.neutral(len(fixed))
        for rule in self.rules:
            rule.repair(self, fixed, plan)
            rule.plan(self, fixed, plan)
        return fixed, plan

    # -- geometry -----------------------------------------------------------------------------------------------------

    @cached_property
    def behind(self) -> frozenset[int]:
        """The operands that stages read, by number: they are loaded outside of the sum's own loops."""
        stages = {stage.block for stage in self.nest.stages}
        return frozenset(k for k, operand in enumerate(self.nest.operands) if stages & set(operand.readers))

    @cached_property
    def starting(self) -> frozenset[int]:
        """The operands that the initial values are made of, by number: they are loaded in front of them."""
        return frozenset(k for k, operand in enumerate(self.nest.operands) if self.nest.begins_with(operand))

    @cached_property
    def tied(self) -> list[int]:
        """The spatial axes that move a block of padding, or of what a stride leaves out, index by index.

        Of what such a block has to write for the last of several tiles nothing is known unless they are all alike.
        """
        found = set()
        for operand in self.nest.operands:
            for d, (coeffs, _) in enumerate(operand.dims):
                skips = max(coeffs, default=0) > 1
                if operand.producer is not None and (skips or not operand.inside or not all(operand.inside[d])):
                    found |= {a for a, c in enumerate(coeffs) if c and a < self.n_spatial}
        return sorted(found)

    @cached_property
    def uneven(self) -> Mask:
        """Along which axes the last tile may be smaller than the others, where nothing is cut off the axis; shape (axes,).

        What stages read at several places, and what is widened for a tile, is made for tiles that are all alike; so are pieces
        of many a reduction (``tails.uneven``).
        """
        still, axes = not self.nest.halos and not self.nest.wides, self.nest.axes
        found = [still and (not own.reduce or tails.uneven(self, a)) for a, own in enumerate(axes)]
        return np.array([one and (bool(self.padding.taps) or a not in self.tied) for a, one in enumerate(found)], dtype=np.bool_)

    @cached_property
    def dense(self) -> Mask:
        """As ``tails.dense``."""
        return tails.dense(self)

    @cached_property
    def slices_leave(self) -> bool:
        """Whether slices of a tile need not divide it: windows or padding that stages read would be cut apart."""
        return not self.nest.halos and all(self.nest.operands[k].producer is None for k in self.behind)

    def depth(self, plan: Plan, part: Part, operand: int) -> Ints:
        """Outer loops of a part around an operand's load, shape (n,)."""
        depth = plan.attach[operand]
        for around in self._outside(operand):
            depth = np.minimum(depth, getattr(part, around))
        return depth

    def _outside(self, operand: int) -> tuple[str, ...]:
        """Which of a part's figures its load of an operand stands no deeper than."""
        return *(("init",) if operand in self.starting else ()), *(("out",) if operand in self.behind else ())

    def ranges(self, plan: Plan, part: Part, depth: Ints) -> Ints:
        """Iterations of every axis inside the first ``depth`` outer loops of a part, shape (n, axes)."""
        return np.where(plan.position >= depth[..., None], part.extents, part.tiles)

    def trips(self, plan: Plan, part: Part, depth: Ints) -> Ints:
        """Iterations of the first ``depth`` outer loops of a part together, shape (n,)."""
        return times(np.where(plan.position < depth[..., None], part.outer, 1))

    def extent_of(self, plan: Plan, part: Part, operand: int) -> Ints:
        """Extent of the region of every dimension of an operand that one load brings, shape (n, dims).

        A load outside all loops copies the whole tensor for all parts, also what a stride never reaches.
        """
        return self._load(plan, part, operand).region

    def padded_extent(self, plan: Plan, part: Part, operand: int) -> Ints:
        """That of the region with the padding in it, also where a load leaves it out, shape (n, dims)."""
        return self._load(plan, part, operand).padded

    def _load(self, plan: Plan, part: Part, operand: int) -> Loads:
        """What the fills of an operand in a part of a plan bring, or in all at once; worked out once of a complete plan."""
        at = None if plan.memo is None else plan.place_of(part)
        if plan.memo is None or at is None:
            alone = self._loads(plan, part, operand, 1)
            return alone.of(0, len(self.nest.operands[operand].dims), None if part.on.ndim > 1 else 0)
        known: Loads | None = plan.memo.get(("load", operand, at))
        if known is None:
            known = self._every_load(plan, plan.memo).of(operand, len(self.nest.operands[operand].dims), None if at < 0 else at)
            plan.memo["load", operand, at] = known
        return known

    def regions(self, plan: Plan, part: Part) -> Ints:
        """What a fill of every operand brings, as compiled code takes it, shape (operands, parts, dims, n); not to be changed."""
        at = None if plan.memo is None else plan.place_of(part)
        if plan.memo is None or at is None:
            return np.array(self._loads(plan, part, 0, len(self.nest.operands)).region.swapaxes(2, 3))
        every = self._every_load(plan, plan.memo).region
        return once(plan, part, "regions", lambda: np.array((every if at < 0 else every[:, at, None]).swapaxes(2, 3)))

    def _every_load(self, plan: Plan, memo: dict[object, Any]) -> Loads:
        """What the fills of all operands in all parts bring; worked out once."""
        if "loads" not in memo:
            memo["loads"] = self._loads(plan, plan.stack, 0, len(self.nest.operands))
        every: Loads = memo["loads"]
        return every

    def _loads(self, plan: Plan, part: Part, first: int, count: int) -> Loads:
        """Those of ``count`` operands, in a part or in the stack of all."""
        from space._loads_kernel import loads

        n, most = len(plan), self.dims[1].shape[1]
        _, tiles, outer = turned(plan, part)
        placed = self.placed(plan, part)
        around = columns(self.loops_outside(plan)) if placed[1].any() else np.zeros((0, 0), dtype=np.bool_)
        less = np.array(np.atleast_2d(borders.shorter(self, plan, part)))
        shape = count, len(outer), most, n
        padded, region = np.ones(shape, dtype=np.int64), np.ones(shape, dtype=np.int64)
        counts = np.zeros((3, count, len(outer), n), dtype=np.int64)
        loads(
            first, outer, tiles, around, columns(plan.position), *placed, np.array(plan.drops), *self.dims, self._cut_along,
            less, padded, region, counts, np.zeros(most, dtype=np.int64),
        )
        for found in (padded, region, counts):
            # Whoever asks next gets the same array.
            found.flags.writeable = False
        return Loads(padded.swapaxes(2, 3), region.swapaxes(2, 3), *counts)

    def placed(self, plan: Plan, part: Part) -> tuple[Ints, Mask, Mask, Ints, Ints]:
        """``attach``, ``keep``, ``outside``, ``init`` and ``out`` of a part, or of all, as ``_loads_kernel.fills`` takes them."""
        every = len(self.nest.operands), len(plan)
        init, out = (own if own.ndim > 1 else own[None] for own in (part.init, part.out))
        attach: Ints = np.array(plan.attach, dtype=np.int64).reshape(every)
        keep: Mask = np.array(plan.keep, dtype=np.bool_).reshape(every)
        return attach, keep, self._outside_of, init, out

    @cached_property
    def _outside_of(self) -> Mask:
        """Per operand, whether its load stands no deeper than the initial values, and than the stages; shape (operands, 2)."""
        some = [[k in self.starting, k in self.behind] for k in range(len(self.nest.operands))]
        return np.array(some, dtype=np.bool_).reshape(len(some), 2)

    @cached_property
    def dims(self) -> tuple[Ints, Ints, Ints]:
        """The dimensions of all operands, as ``_loads_kernel.loads`` takes them."""
        operands = self.nest.operands
        most = max([1, *(len(o.dims) for o in operands)])
        dims = np.array([(len(o.dims), o.producer is not None) for o in operands], dtype=np.int64).reshape(len(operands), 2)
        moving = [[[(a, c) for a, c in enumerate(coeffs) if c] for coeffs, _ in o.dims] for o in operands]
        movers = np.full((len(operands), most, max([1, *(len(m) for own in moving for m in own)]), 2), -1, dtype=np.int64)
        sizes = np.zeros((len(operands), most, 6), dtype=np.int64)
        for k, shape in enumerate(self.shapes):
            for d, pairs in enumerate(moving[k]):
                movers[k, d, : len(pairs)] = np.array(pairs, dtype=np.int64).reshape(len(pairs), 2)
            own = shape.least, shape.sizes, shape.source, shape.spans, shape.strides, shape.often
            sizes[k, : dims[k, 0]] = np.stack(own, axis=1)
        return dims, movers, sizes

    @cached_property
    def _cut_along(self) -> Ints:
        """The dimension along which every operand comes strip by strip, or -1; shape (operands,)."""
        found = np.full(len(self.nest.operands), -1, dtype=np.int64)
        if self.cut is not None:
            found[self.cut.operand] = self.cut.along
        return found

    @cached_property
    def halo_floor(self) -> int:
        """As ``borders.floor``: every bound asks for it."""
        return borders.floor(self)

    def span(self, operand: int, dim: int) -> int:
        """Indices of a dimension of an operand from the first to the last that is used."""
        op = self.nest.operands[operand]
        return sum((int(e) - 1) * c for e, c in zip(self.extents, op.dims[dim][0])) + 1 + op.reach(dim)

    def plain(self, plan: Plan, operand: int) -> Mask:
        """Whether an operand is loaded without padding, shape (n,)."""
        if self.nest.operands[operand].producer is None:
            return np.ones(len(plan), dtype=np.bool_)
        return plan.drops

    def shared(self, plan: Plan, operand: int) -> Mask:
        """Whether one load serves all parts: outside all loops, or piece by piece in the first part, shape (n,)."""
        return np.asarray((plan.attach[operand] == 0) | plan.keep[operand], dtype=np.bool_)

    def around(self, plan: Plan, operand: int) -> Mask:
        """Which axes have a loop of several iterations around an operand's load in the first part, shape (n, axes)."""
        return np.asarray((plan.position < plan.attach[operand][:, None]) & self.loops_outside(plan), dtype=np.bool_)

    def loops_outside(self, plan: Plan) -> Mask:
        """Along which axes the first part that there is has several tiles, shape (n, axes)."""
        first = plan.parts[0]
        return np.asarray(np.where(first.on[:, None], first.outer, plan.body.outer) > 1, dtype=np.bool_)

    def around_products(self, plan: Plan) -> Ints:
        """Outer loops around the matrix products: those of the output, and those around what is loaded for them; shape (n,)."""
        depth = np.full(len(plan), self.n_spatial, dtype=np.int64)
        for k, operand in enumerate(self.nest.operands):
            if operand.scope != ACC:
                depth = np.maximum(depth, plan.attach[k])
        return depth

    def kept_order(self, plan: Plan, operand: int) -> list[int]:
        """In which order the dimensions of an operand that stays lie on chip, outermost first; of a plan's first row.

        Those that the loops around its load move come first: then every piece is as dense as it can be. What is padded lies
        as the program has it.
        """
        from space._loads_kernel import in_order

        dims, movers, _ = self.dims
        order = np.zeros(movers.shape[1], dtype=np.int64)
        in_order(
            operand, int(dims[operand, 0]), bool(dims[operand, 1]), int(plan.attach[operand][0]),
            columns(self.loops_outside(plan)), columns(plan.position), movers, 0, order,
        )
        return [int(d) for d in order[: dims[operand, 0]]]

    def footprint(self, plan: Plan, part: Part, operand: int) -> Ints:
        """Elements of one bank of an operand, shape (n,); what stays for later parts is held whole."""
        return self._load(plan, part, operand).footprint

    def fills(self, plan: Plan, part: Part, operand: int) -> Ints:
        """How often an operand is loaded in a part of the plan, shape (n,); what is loaded for all parts counts for the first."""
        every = self.every_fill(plan)
        return np.asarray(every[operand] if part.on.ndim > 1 else every[operand, plan.place_of(part)], dtype=np.int64)

    def every_fill(self, plan: Plan) -> Ints:
        """How often each operand is loaded in each part, shape (operands, parts, n)."""
        known: Ints | None = None if plan.memo is None else plan.memo.get("fills")
        if known is None:
            from space._loads_kernel import fills

            known = np.zeros((len(self.nest.operands), len(plan.parts), len(plan)), dtype=np.int64)
            fills(*self.loops(plan), known)
            if self.cut is not None:
                known[self.cut.operand] *= borders.strips(self, plan, plan.stack)
            if plan.memo is not None:
                # Whoever asks next gets the same array.
                known.flags.writeable = False
                plan.memo["fills"] = known
        return known

    def loops(self, plan: Plan) -> tuple[Any, Any, Any, Any, Any, Any, Any, Any]:
        """The loops of all parts and what they are around, as ``_loads_kernel.fills`` takes them."""
        return *self.around_parts(plan), *self.placed(plan, plan.stack)

    def around_parts(self, plan: Plan) -> tuple[Ints, Mask, Ints]:
        """Of all parts the tiles along every axis, which there are, and every loop's place, as compiled code takes them."""
        every = plan.stack
        return columns(every.outer), every.on, columns(plan.position)

    def wide_elements(self, part: Part) -> Ints:
        """Elements that are widened for one visit of a part's innermost nest, shape (n,)."""
        total = np.zeros(part.on.shape, dtype=np.int64)
        for wide in self.nest.wides:
            spans = [((part.tiles - 1) * np.array(c, dtype=np.int64)).sum(axis=-1) + 1 for c, _ in wide.dims]
            total += times(np.stack([np.minimum(s, size) for s, (_, size) in zip(spans, wide.dims)], axis=-1))
        return total

    def wide_room(self, part: Part) -> Ints:
        """Elements that these take, shape (n,): also those that none reads where nothing is cut and no loop says which are."""
        alone = (times(part.outer) == 1) & (part.extents == self.extents).all(axis=-1)
        return np.where(alone, sum(prod(n for _, n in wide.dims) for wide in self.nest.wides), self.wide_elements(part))

    def widened(self, part: Part) -> Ints:
        """Elements that are widened in all of a part, shape (n,)."""
        return np.where(part.on, self.wide_elements(part) * times(part.outer), 0)

    def steps_ahead(self, plan: Plan, part: Part) -> Ints:
        """Steps of an ALU reduction inside the loops around it that something else is in, too, shape (n,)."""
        if self.nest.wides:
            return times(part.tiles)
        loads = [plan.attach[k] for k, operand in enumerate(self.nest.operands) if operand.consumer == self.nest.anchor]
        return times(self.ranges(plan, part, np.maximum.reduce([part.init, part.out, *loads])))

    def tile_elements(self, part: Part) -> Ints:
        """Accumulator elements of one output tile of a part, shape (n,)."""
        return times(part.tiles[..., : self.n_spatial])

    def out_tiles(self, plan: Plan, part: Part) -> Ints:
        """Iterations of every spatial axis that stages and the store go through at once, shape (n, spatial axes)."""
        return once(plan, part, "out tiles", lambda: self.ranges(plan, part, part.out)[..., : self.n_spatial])

    def outs_run(self, plan: Plan, part: Part) -> Ints:
        """How often a part's stages run and store, shape (n,)."""
        return np.where(part.on, self.trips(plan, part, part.out), 0)

    def init_elements(self, plan: Plan, part: Part) -> Ints:
        """Accumulator elements that get their initial values at once, those of a tile or of several; shape (n,)."""
        return once(plan, part, "init", lambda: times(self.ranges(plan, part, part.init)[..., : self.n_spatial]))

    def inits_run(self, plan: Plan, part: Part) -> Ints:
        """How often a part writes initial values, shape (n,)."""
        return np.where(part.on, self.trips(plan, part, part.init), 0)

    def leads(self, plan: Plan, part: Part) -> Mask:
        """Whether a part of several tiles writes all its initial values in front of these, shape (n,)."""
        return np.asarray((self.tiles_run(plan, part) > 1) & (self.inits_run(plan, part) == 1))

    def tiles_run(self, plan: Plan, part: Part) -> Ints:
        """Output tiles of a part, shape (n,)."""
        return np.where(part.on, times(part.outer[..., : self.n_spatial]), 0)

    def slices(self, plan: Plan, part: Part) -> Ints:
        """In how many slices the stages after the GEMM and the store go over what they take at once of a part, shape (n,)."""
        return -(-along(self.out_tiles(plan, part), part.slices - 1) // part.thick)

    # -- memory -------------------------------------------------------------------------------------------------------

    def copies(self, plan: Plan, part: Part, operand: int, banks: Ints | None = None) -> Ints:
        """Copies of an operand that a part fills in turn, with its further banks or others; shape (n,)."""
        wanted = 1 + (plan.banks[operand] if banks is None else banks)
        return np.asarray(copies_of(wanted, np.maximum(self.fills(plan, part, operand), 1)), dtype=np.int64)

    def tile_copies(self, plan: Plan, part: Part) -> Ints:
        """Copies of the accumulators of an output tile, or of several, that a part makes in turn; shape (n,)."""
        return np.asarray(copies_of(1 + plan.acc_banks, np.maximum(self.inits_run(plan, part), 1)), dtype=np.int64)

    def held(self, plan: Plan, since: int = 0, fronts: Mapping[int, tuple[int, int]] = MappingProxyType({})) -> list[Held]:
        """What every buffer takes of its memory, and in which of the parts; what a part has not is of no elements.

        All that a part has counts as alive for the whole of it, and every stage without a sum has a place of its own, although
        lowering may find that some is not: shared memory costs overlap. It is what a point can do with: where there is room,
        lowering gives results that would wait for a store places of their own, which are not counted.

        Args:
            plan: of the points.
            since: parts of the nests that run before this one, which its own parts are counted behind.
            fronts: by operand, behind so many parts stands its load where that is outside all loops: as it is, and padded.
        """
        nest, last = self.nest, since + len(plan.parts) - 1
        tensors = nest.live + nest.begun if nest.anchor is not None or nest.within else max(1, len(nest.stages))
        found, parts = [], plan.stack
        for k, operand in enumerate(nest.operands):
            shared, made = self.shared(plan, k), int(operand.consumer in nest.sides)  # what is made of it has a place of its own
            if shared.any():
                spans = [(shared, since)]
                if fronts.get(k, (since, since)) != (since, since):
                    root, plain = plan.attach[k] == 0, self.plain(plan, k)
                    spans = [(shared & ~root, since), *((shared & root & own, at) for own, at in zip((plain, ~plain), fronts[k]))]
                stays, name = self.footprint(plan, plan.body, k), operand.name
                found += [Held(operand.scope, np.where(when, stays, 0), 1 + made, first, last, name) for when, first in spans]
            own = np.where(parts.on & ~shared, self.footprint(plan, parts, k), 0)
            # A result may take the place of an addend, and then its copies are the addend's too.
            taken = operand.scope == ACC and (nest.anchor is None or operand.leads)
            copies = self.copies(plan, parts, k, np.maximum(plan.banks[k], plan.acc_banks) if taken else None) + made
            found += [Held(operand.scope, size, turns, n, n, operand.name)
                      for n, (size, turns) in enumerate(zip(own, copies), since)]
        tile = np.where(parts.on, self.init_elements(plan, parts) + times(self.out_tiles(plan, parts)) * (tensors - 1), 0)
        for n, (part, size, turns) in enumerate(zip(plan.parts, tile, self.tile_copies(plan, parts)), since):
            if not nest.stands:
                # What a second part holds of those before the main one is written in front of the first.
                found.append(Held(ACC, size, turns, min(n, since) if n < since + plan.main else n, n, nest.out))
            if nest.wides:
                found.append(Held(ACC, np.where(part.on, self.wide_room(part), 0), 1, n, n, nest.wides[0].block))
            if nest.ahead:
                found.append(Held(ACC, np.where(part.on, nest.ahead * self.steps_ahead(plan, part), 0), 1, n, n, nest.out))
            if nest.halos:
                border = np.where(part.on[:, None], borders.elements(self, part) * [halo.live for halo in nest.halos], 0)
                found += [Held(ACC, border[:, k], turns if nest.stands and k == nest.place else 1, n, n, nest.out)
                          for k in range(len(nest.halos))]
        return found

    def capacity(self, plan: Plan) -> Mask:
        """Whether all buffers of every part fit their memories, copies included."""
        return np.array(np.broadcast_to(fits(self.held(plan), self.target), len(plan)), dtype=np.bool_)

    # -- traffic ------------------------------------------------------------------------------------------------------

    def transfer(self, plan: Plan, part: Part, operand: int) -> tuple[Ints | Floats, Ints]:
        """(cycles of the memory, DMA instructions) of one fill, shape (n,) each."""
        load, op = self._load(plan, part, operand), self.nest.operands[operand]
        return load.beats(self.shapes[operand], self.bytes_of[op.scope], self.config), load.transfers

    def store_cycles(self, plan: Plan, part: Part) -> npt.NDArray[np.float64]:
        """Store cycles of a part; rows shorter than a burst pay for more bursts, and slices cut rows."""
        rows, _ = self._stored(plan, part)
        longest = int(rows.max(initial=0))
        if longest >= len(self._stores):
            self._stores = np.concatenate([self._stores, np.full(longest + 1 - len(self._stores), -1.0)])
        cost = self._stores[rows]
        if bool((cost < 0).any()):
            new = np.unique(rows[cost < 0]).tolist()
            self._stores[new] = timing.store_cycles(0, 1, new, new, config=self.config)
            cost = self._stores[rows]
        return np.asarray(self.nest.stores * cost * (times(part.extents[..., : self.n_spatial]) / rows), dtype=np.float64)

    def store_transfers(self, plan: Plan, part: Part) -> Ints:
        """STORE instructions of a slice of a part's whole tile, shape (n,): two dimensions of what lies together on chip."""
        return np.asarray(self.nest.stores * self._stored(plan, part)[1], dtype=np.int64)

    def _stored(self, plan: Plan, part: Part) -> Ints:
        """Elements in a row of what a part stores, and STOREs of a slice, shape (2, n)."""
        from space._draft_kernel import stores

        def rows() -> Ints:
            found = np.zeros((2, *np.atleast_2d(part.on).shape), dtype=np.int64)
            slices, thick = (np.array(own).reshape(found.shape[1:]) for own in (part.slices, part.thick))
            tiles = stacked(columns(self.out_tiles(plan, part)))
            stores(tiles, self.extents, slices, thick, bool(self.nest.stages), self.n_spatial, found)
            return found if part.on.ndim > 1 else found[:, 0]

        return once(plan, part, "stored", rows)
