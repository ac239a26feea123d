"""What every output vector costs the compute engine at least besides its products, and which blocks only widen or compare."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, prod
from typing import TYPE_CHECKING

import numpy as np

from autosched.ir.constant import values as constants
from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Var, int_value
from autosched.ir.functor import free_vars, walk, walk_expr
from autosched.ir.patterns import has_loads
from autosched.ir.scopes import ACC, INP, WGT
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, IterVar
from autosched.ir.value_bounds import ValueBounds
from autosched.target import Target
from space.least_curve import curve_operations
from space.least_joined import MARGIN, joined_operations
from space.least_loads import widened_in, written_in
from space.nest import Nest
from space.stages import Stage

if TYPE_CHECKING:
    from space.formed import Formed
    from space.model import Model

BITS = 32  # of an accumulator
CYCLES = 6  # at least what a load of a vector takes where it is no way to bring a byte back


@dataclass(frozen=True)
class Epilogue:
    """The least that every output vector costs the compute engine besides its products.

    Args:
        initial: cycles of writing the accumulator before the first product, an addend included.
        named: the immediate operations that the result needs.
        extra: cycles of further operations, whose kinds, and how many instructions they take, are not known.
        loaded: addends that are part of the sum as they are: a load may write the accumulator with them.
    """

    initial: int
    named: tuple[str, ...]
    loaded: frozenset[str]
    extra: int = 0


def least_epilogue(
    nest: Nest, target: Target, laid_out: bool, visit: bool = False, products: int = 0, formed: Fraction = Fraction(1),
) -> Epilogue:
    """The epilogue that no program can do without; each line is proven in docs/bound.md and docs/bound/stages.md.

    A right shift, a maximum with a constant and a minimum with a constant are one operation each, the last two where the value
    ranges reach past the constant, and where no two operands are compared by their difference; the accumulator is written once
    before a product adds to it, by a reset, or under ``chisel`` by an immediate operation that reads an addend, elsewhere by a
    tensor operation (two cycles) that brings the addend in. Where several results of stages come together, only what is done to
    what they make counts: ahead of it the same function may have another form.

    Args:
        nest: the program.
        target: the machine.
        laid_out: whether the operands' layout is the space's choice, so that an addend may come in a lane that is free.
        visit: what a result needs behind the last micro-op that adds to it: of a sum that starts with 0 and is of a single one.
        products: that a sum has at least; 0 where that is not known.
        formed: the share of a sum's products that no padding makes zero, at most.
    """
    blocks = blocks_of(nest)
    values = _known(nest, blocks, target, visit, formed)
    joined, stages = _behind_joints(nest, blocks)
    found = _Chain(nest, blocks, values, stages)
    for stage in stages:
        if stage.block not in found.differences:
            found.take(stage)
    initial = _initial(nest, target, found.addend, joined or laid_out)
    if not _steps_by_one(nest, values):
        return Epilogue(initial, (), frozenset(found.loaded))
    # A free lane may bring in a constant, and one element may come in as an operand of several results.
    apart = found.spread < 2 or joined or found.differences or laid_out
    extra = 0 if apart else joined_operations(nest, blocks, values, found.bends)
    named = tuple(found.kinds)[: found.spread] if found.spread < 2 else tuple(found.kinds)
    curve = None if visit else curve_operations(nest, blocks, values, found.loaded, products)
    if curve is not None and len(curve[0]) + curve[1] > len(named) + extra:
        # Another operation may multiply, or a load bring in what was stored.
        free = target.multiplies or target.loads_widen or written_in(target) < CYCLES
        named, extra = curve[0], 0 if free else curve[1]
    return Epilogue(initial, named, frozenset(found.loaded), extra)


def _known(nest: Nest, blocks: Mapping[str, Block], target: Target, visit: bool, formed: Fraction) -> ValueBounds:
    """What values can be; see ``least_epilogue``."""
    values = ValueBounds(nest.func)
    for name in (*(w.block for w in nest.wides), nest.anchor, *nest.links):
        if name is not None:
            _know_sums(values, blocks[name])
    if nest.anchor is not None and formed < 1:
        _know_less(values, blocks[nest.anchor], formed)
    if visit and nest.anchor is not None:
        _know_visit(values, nest, blocks[nest.anchor], target.config.block_in)
    return values


def _initial(nest: Nest, target: Target, addend: bool, anywhere: bool) -> int:
    """Cycles that write an accumulator ahead of its products.

    Args:
        nest: the program.
        target: the machine.
        addend: whether something is added to the sums.
        anywhere: whether it may come in another way than by an operation of its own.
    """
    if nest.anchor is None or not nest.tensorized:
        return 0
    early = (nest.anchor, *nest.sides)
    addend = addend or any(o.scope == ACC and o.consumer in early for o in nest.operands)
    # On a wide bus a load writes a vector sooner, whatever it holds.
    write = min(1, widened_in(target), written_in(target))
    return write if not addend or target.semantics == "chisel" or anywhere else min(write + 1, written_in(target))


class _Chain:
    """What the stages of a result need, looked at one after the other.

    Args:
        nest: the program.
        blocks: its blocks, by name.
        values: what values can be.
        stages: those that will be looked at, the last ones of the chain. Ahead of them results come together, where any addend
            may be part of a sum.

    Attributes:
        kinds: of the operations that are needed, in order.
        bends: by stage, those of them that reach well past their constant.
        spread: the largest less the smallest value in between, where that is least: what has one value takes no operation, what
            has two takes one, whatever is written (a shift by 31 tells the sign).
        addend: whether a tensor is added to a sum.
        loaded: tensors that sums may start with.
        differences: stages that only compare by a difference.
    """

    def __init__(self, nest: Nest, blocks: Mapping[str, Block], values: ValueBounds, stages: Sequence[Stage]) -> None:
        self._blocks, self._values = blocks, values
        self.kinds: dict[str, None] = {}
        self.bends: dict[str, set[str]] = {}
        self.spread, self.addend = BITS, False
        self.differences = differences_of(nest)
        self._linear = len(stages) == len(nest.stages)  # whether nothing has bent the sum so far
        self._zeros: dict[Buffer, int] = {}  # low bits that are 0
        for b in blocks.values():
            if isinstance(b.body, BufferStore):
                self._zeros[b.body.buffer] = _of_weights(values, b, self._zeros) if b.init else 0
        if nest.anchor is None:
            self._zeros |= dict.fromkeys(nest.func.buffers, 0)  # what the chain begins with is no addend of it
        init = blocks[nest.anchor].init if nest.anchor is not None else None
        self.loaded = _summed(init.value) if isinstance(init, BufferStore) else set()
        ahead = nest.stages[: len(nest.stages) - len(stages)]
        self.loaded |= {o.name for o in nest.operands if o.scope == ACC and {stage.block for stage in ahead} & set(o.readers)}
        for stage in ahead:
            self._pass(stage)

    def take(self, stage: Stage) -> None:
        """Looks at the next stage."""
        block = self._blocks[stage.block]
        # One that adds a product makes the rest of its value where it starts.
        made = block.init if stage.products else block.body
        assert isinstance(made, BufferStore)
        for e in walk_expr(made.value):
            own = _on_chain(e, block)
            if own is not None:
                self._operation(e, own, block)
        self._linear = self._linear and not any(map(_bends, walk_expr(made.value)))
        self._pass(stage)

    def _pass(self, stage: Stage) -> None:
        """Takes in what is known of the low bits of what a stage makes."""
        block = self._blocks[stage.block]
        made = block.init if stage.products else block.body
        if isinstance(made, BufferStore):
            self._zeros[made.buffer] = (
                _of_weights(self._values, block, self._zeros) if stage.products else _zeros(made.value, self._zeros))

    def _operation(self, e: Expr, own: Expr, block: Block) -> None:
        """Looks at an operation on what the chain has made so far."""
        dom = {iv.var: iv.dom for iv in block.iter_vars}
        other = _other(e, own)
        constant = None if other is None else int_value(other)
        least, most = self._values.of(e, dom)
        self.spread = min(self.spread, most - least)
        low, high = self._values.of(own, dom)
        op = e.op if isinstance(e, BinOp | Call) else ""
        if op == "+" and self._linear and other is not None and not any(map(_bends, walk_expr(own))):
            self.loaded |= _summed(other)
        bent = self.bends.setdefault(block.name, set())
        if op == "shift_right" and constant and _zeros(own, self._zeros) < constant:
            self.kinds["shr"] = None
            bent.add(op)
        elif op == "max" and constant is not None and low < constant:
            self.kinds["max"] = None
            bent |= {op} if low <= constant - MARGIN else set()
        elif op == "min" and constant is not None and high > constant:
            self.kinds["min"] = None
            bent |= {op} if high >= constant + MARGIN else set()
        elif op == "+" and other is not None and has_loads(other):
            self.addend = True


def shared_epilogue(model: Model, formed: Formed | None, deep: int) -> tuple[Epilogue, int, dict[str, int]]:
    """(what a vector costs besides its products, how many have any, how many need each operation that not all of them do).

    Of sums of fewer products than others, because of a mask or a border, none may reach what a constant cuts off.
    """
    most = model.padding.ends[1]

    def of(share: Fraction) -> Epilogue:
        return least_epilogue(model.nest, model.target, bool(model.origins), products=deep, formed=share)

    if formed is None:
        return of(most), 0, {}
    c = model.config
    vectors = [-(-n // (c.batch * c.block_out)) for n in formed.results] if model.origins else formed.vectors
    fixed = {x.buffer.name for x in model.nest.func.constants}
    shares = [n / formed.every for n in formed.reach]
    if not shares or any(o.name in fixed for o in model.nest.operands if o.consumer == model.nest.anchor):
        return of(most), max(vectors, default=0), {}  # of constants some may be larger than others
    found = of(shares[-1])
    fewest = of(shares[0]) if len(shares) > 1 else found
    found, reaching = replace(found, extra=min(found.extra, fewest.extra)), {}
    for kind in set(found.named) - set(fewest.named):
        first = bisect_left(range(len(shares)), True, key=lambda n: kind in of(shares[n]).named)
        reaching[kind] = vectors[first]
    return found, vectors[0], reaching


def _zeros(e: Expr, known: Mapping[Buffer, int]) -> int:
    """By how many bits a value may be shifted to the right without a shift: as many as its scale has.

    A constant may be shifted beforehand, and so may a parameter while it comes in: what is added to ``4 v``, or compared with it,
    has no say.

    Args:
        e: the value.
        known: the same of what blocks store; of a parameter nothing is in it.
    """
    if isinstance(e, IntImm):
        return _lowest(e.value)
    if isinstance(e, BufferLoad):
        return known.get(e.buffer, 0)
    if isinstance(e, Cast):
        return _zeros(e.value, known)
    if isinstance(e, BinOp) and e.op in ("+", "-", "*", "min", "max"):
        a, b = _zeros(e.a, known), _zeros(e.b, known)
        if e.op == "*":
            return min(BITS, a + b)
        a, b = (BITS if _given(x, known) else own for x, own in ((e.a, a), (e.b, b)))
        return min(a, b) + (e.op == "+" and e.a == e.b)
    if isinstance(e, Call) and e.op in ("shift_left", "shift_right") and isinstance(e.args[1], IntImm):
        by = e.args[1].value
        return min(BITS, _zeros(e.args[0], known) + by) if e.op == "shift_left" else max(0, _zeros(e.args[0], known) - by)
    if isinstance(e, Call) and e.op == "if_then_else":
        return min(_zeros(e.args[1], known), _zeros(e.args[2], known))
    return 0


def _lowest(value: int) -> int:
    """How many of a number's lowest bits are zero."""
    return (value & -value).bit_length() - 1 if value else BITS


def _given(e: Expr, known: Mapping[Buffer, int]) -> bool:
    """Whether a value is made of constants and parameters alone."""
    return not any(isinstance(x, BufferLoad) and x.buffer in known for x in walk_expr(e))


def _of_weights(values: ValueBounds, block: Block, known: Mapping[Buffer, int]) -> int:
    """The same of a sum of products with constants, and of products that it has several times."""
    assert isinstance(block.init, BufferStore) and isinstance(block.body, BufferStore)
    if not isinstance(block.body.value, BinOp) or block.body.value.op != "+":
        return 0
    tiles = {c.buffer: constants(c) for c in values.func.constants}
    loads = [e for e in walk_expr(block.body.value) if isinstance(e, BufferLoad) and e.buffer is not block.body.buffer]
    found = sum(min(_lowest(int(x)) for x in np.unique(tiles[e.buffer])) for e in loads if e.buffer in tiles)
    read = {v for e in loads for index in e.indices for v in free_vars(index)}
    for iv in block.iter_vars:
        if iv.kind == "reduce" and iv.var not in read:
            found += _lowest(int_value(iv.dom.extent) or 1)
    return min(_zeros(block.init.value, known), found, BITS)


def _steps_by_one(nest: Nest, values: ValueBounds) -> bool:
    """Whether parameters that are multiplied may be 0, and 1 or -1: else sums leave values out, and may need no clip for that."""
    given = {b.name: values.of_buffer(b) for b in nest.func.buffers}
    ranges = [given[o.name] for o in nest.operands if o.scope in (INP, WGT) and nest.anchor in o.readers and o.name in given]
    return nest.anchor is None or all(low <= 0 <= high and low < high for low, high in ranges)


def _bends(e: Expr) -> bool:
    """Whether an operation is more than a sum: what is added behind it is no part of the sum of products."""
    return isinstance(e, BinOp | Call) and e.op not in ("+", "-", "*")


def _summed(value: Expr) -> set[str]:
    """Tensors that a value is a sum of, as they are; of anything else none."""
    if isinstance(value, Cast):
        return _summed(value.value)
    if isinstance(value, BinOp) and value.op == "+":
        return _summed(value.a) | _summed(value.b)
    return {value.buffer.name} if isinstance(value, BufferLoad) else set()


def _behind_joints(nest: Nest, blocks: Mapping[str, Block]) -> tuple[bool, tuple[Stage, ...]]:
    """(whether results of the chain come together somewhere, the stages behind the last place where they do)."""
    chain = {store.buffer for name in (nest.anchor, *(s.block for s in nest.stages)) if name is not None
             if isinstance(store := blocks[name].body, BufferStore)}
    last = -1
    for n, stage in enumerate(nest.stages):
        block = blocks[stage.block]
        stores = [s for s in (block.init, block.body) if isinstance(s, BufferStore)]
        own = {s.buffer for s in stores}
        read = [x for s in stores for x in walk_expr(s.value) if isinstance(x, BufferLoad) and x.buffer in chain - own]
        last = n if len(read) > 1 or stage.fresh else last
    return last >= 0, nest.stages[last + 1 :]


def _know_less(values: ValueBounds, block: Block, formed: Fraction) -> None:
    """Tells that sums have no more than a share of their products."""
    if isinstance(block.body, BufferStore) and isinstance(block.init, BufferStore):
        start = values.of(block.init.value, {iv.var: iv.dom for iv in block.iter_vars})
        low, high = ((whole - first) * formed + first for whole, first in zip(values.of_buffer(block.body.buffer), start))
        values.know(block.body.buffer, (floor(low), ceil(high)))


def _know_sums(values: ValueBounds, block: Block) -> None:
    """Tells what a sum of products can be: from the ranges of its factors, and more narrowly with constant weights."""
    if not (isinstance(block.body, BufferStore) and isinstance(block.init, BufferStore)):
        return
    dom = {iv.var: iv.dom for iv in block.iter_vars}
    value = block.body.value
    loads = [e for e in walk_expr(value) if isinstance(e, BufferLoad) and e.dtype == "int8"]
    tiles = {c.buffer: constants(c) for c in values.func.constants}
    weight = next((x for x in loads if x.buffer in tiles), None)
    data = [x for x in loads if x.buffer not in tiles]
    values.know_reduction(block)
    if weight is None or len(data) != 1:
        return
    iters = {iv.var: iv for iv in block.iter_vars}
    tile = tiles[weight.buffer].astype(np.int64)
    own: list[IterVar | None] = []
    for index in reversed(weight.indices):
        iv, at = iters.get(index) if isinstance(index, Var) else None, int_value(index)
        if (iv is None and at is None) or (iv is not None and iv in own):
            return  # what of it is read, and how often, is not plain
        start, extent = (at or 0, 1) if iv is None else (int_value(iv.dom.min) or 0, int_value(iv.dom.extent) or 1)
        tile = np.take(tile, range(start, start + extent), axis=len(weight.indices) - 1 - len(own))
        own.append(iv)
    own.reverse()
    count = prod(int_value(iv.dom.extent) or 1 for iv in block.iter_vars if iv.kind == "reduce" and iv not in own)
    summed = tuple(d for d, iv in enumerate(own) if iv is not None and iv.kind == "reduce")
    low, high = values.of(data[0], dom)
    ends = np.stack([tile * low, tile * high])
    first = values.of(block.init.value, dom)
    least = first[0] + count * int(ends.min(axis=0).sum(axis=summed).min())
    most = first[1] + count * int(ends.max(axis=0).sum(axis=summed).max())
    values.know(block.body.buffer, (least, most))


def _know_visit(values: ValueBounds, nest: Nest, block: Block, lanes: int) -> None:
    """Tells what one micro-op adds to a sum, and that nothing else is added: addends may be 0."""
    assert isinstance(block.body, BufferStore)
    dom = {iv.var: iv.dom for iv in block.iter_vars}
    ranges = [values.of(e, dom) for e in walk_expr(block.body.value) if isinstance(e, BufferLoad) and e.dtype == "int8"]
    ends = [a * b for a in ranges[0] for b in ranges[-1]]
    values.know(block.body.buffer, (lanes * min(ends), lanes * max(ends)))
    for operand in nest.operands:
        for buffer in nest.func.buffers if operand.scope == ACC else ():
            if buffer.name == operand.name:
                low, high = values.of_buffer(buffer)
                values.know(buffer, (0, 0) if low <= 0 <= high else (low, high))


def _on_chain(e: Expr, block: Block) -> Expr | None:
    """The operand of an operation that comes from the stage before: the one that reads at the very place that is written."""
    assert isinstance(block.body, BufferStore)
    parts = (e.a, e.b) if isinstance(e, BinOp) else e.args if isinstance(e, Call) else ()
    for part in parts:
        if any(isinstance(x, BufferLoad) and x.indices == block.body.indices for x in walk_expr(part)):
            return part
    return None


def _other(e: Expr, own: Expr) -> Expr | None:
    parts = (e.a, e.b) if isinstance(e, BinOp) else e.args if isinstance(e, Call) else ()
    found = next((p for p in parts if p is not own), None)
    return found.value if isinstance(found, Cast) else found


def blocks_of(nest: Nest) -> dict[str, Block]:
    """The program's blocks, by name."""
    return {r.block.name: r.block for r in walk(nest.func.body) if isinstance(r, BlockRealize)}


def identities_of(nest: Nest) -> set[str]:
    """The blocks that multiply by one constant matrix everywhere: they widen what they read."""
    constant = {x.buffer.name for x in nest.func.constants}
    return {b for o in nest.operands if o.scope == WGT and o.name in constant and not o.dims for b in o.readers}


def differences_of(nest: Nest) -> set[str]:
    """Stages that compare two operands, each with the one before it that takes an operand away and the one after that adds it."""
    inputs = {s.block: {o.name for o in nest.operands if o.scope == INP and s.block in o.readers} for s in nest.stages}
    identities = identities_of(nest)
    found: set[str] = set()
    for before, stage, after in zip(nest.stages, nest.stages[1:], nest.stages[2:]):
        if {before.block, after.block} <= identities and not stage.products and inputs[before.block] & inputs[after.block]:
            found |= {before.block, stage.block, after.block}
    return found
