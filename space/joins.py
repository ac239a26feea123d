"""What brings elements of int32 together at least, where no product makes a sum; proven in docs/bound/joins.md."""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import prod

import numpy as np

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import has_loads, update_of
from autosched.ir.stmt import Buffer, BufferStore
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from space.least_epilogue import blocks_of
from space.model import Model
from space.nest import Nest

WHOLE = dtype_bounds("int32")
SUMS = ("+", "-")
STEADY = ("min", "max", "shift_right")  # with a constant: the result grows with the value, by at most as much


def joins_of_windows(model: Model, used: int, apart: int, compared: bool, worked: bool) -> int:
    """Cycles that bring the elements of windows together.

    Args:
        model: of a nest that reduces on the ALU, of int32.
        used: elements, in vectors.
        apart: groups of them that no window connects.
        compared: whether windows take the largest or smallest.
        worked: whether something that is no sum is done to the results.
    """
    steps = max(used - apart, 0)
    nest = model.nest
    values = ValueBounds(nest.func)
    names = {o.name for o in nest.operands}
    if compared or (worked and all(values.of_buffer(b) == WHOLE for b in nest.func.buffers if b.name in names)):
        return 2 * steps
    # The more elements a group has, the more of them may come back as bytes, one cycle each.
    largest = int(prod(model.extents[a] for a in nest.reduce)) if apart == model.out_elements else used
    return steps + -(-steps // max(largest - 1, 1))


def joins_of_stages(model: Model, elements: Mapping[str, int], given: Set[str], worked: bool) -> int:
    """Cycles that bring the operands of int32 of a chain of stages together, of which no product is a part.

    Args:
        model: of a nest.
        elements: of each operand in the accumulator those that are used, in vectors.
        given: tensors of the program that every program of the machine has to load. Sums that others are part of, too, count not.
        worked: whether something that is no sum is done to the results.
    """
    nest = model.nest
    if nest.anchor is not None or nest.reduce or model.origins:
        return 0
    values = ValueBounds(nest.func)
    constant = {x.buffer.name for x in nest.func.constants}
    ranges = {b.name: values.of_buffer(b) for b in _added_up(nest, values)}
    if not ranges.keys() <= given:
        return 0
    names = [name for name, (low, high) in ranges.items() if low < high and name in elements and name not in constant]
    # Every result has an element of its own of these.
    own = sum(elements[name] == model.out_elements for name in names)
    if len(names) < 2 or not own:
        return 0
    wide = worked and all(ranges[name] == WHOLE for name in names)
    return model.out_elements * (2 * max(own - 1, 1) if wide else own)


def _added_up(nest: Nest, values: ValueBounds) -> list[Buffer]:
    """Tensors of int32 that every result is the sum of, or of what grows with that sum; none where something else is done."""
    blocks = blocks_of(nest)
    made: set[Buffer] = set()
    found: list[Buffer] = []
    plain = True
    for stage in nest.stages:
        block = blocks[stage.block]
        if stage.products or stage.fresh or block.init is not None or not isinstance(block.body, BufferStore):
            return []
        value = block.body.value
        own = _terms(value, made, values)
        low, high = values.of_buffer(block.body.buffer)
        if own is None or (own and not plain) or low == high:
            return []
        plain = plain and _is_plain(value)
        found += own
        made.add(block.body.buffer)
    return found if len(set(found)) == len(found) else []


def _terms(value: Expr, made: Set[Buffer], values: ValueBounds) -> list[Buffer] | None:
    """What a stage's value is the sum of, results of earlier stages aside, or grows with the sum of; None where it is neither.

    Or what it is the largest or smallest of, where each may be that.
    """
    if isinstance(value, Cast):  # what is narrowed on the way says no more than its low byte
        return _terms(value.value, made, values) if value.dtype == value.value.dtype == "int32" else None
    if isinstance(value, IntImm):
        return []
    if isinstance(value, BufferLoad):
        return [] if value.buffer in made else [value.buffer] if value.dtype == "int32" else None
    parts = (value.a, value.b) if isinstance(value, BinOp) else value.args if isinstance(value, Call) else ()
    op = value.op if isinstance(value, BinOp | Call) else ""
    if op in STEADY and len(parts) == 2 and int_value(parts[1]) is not None:
        return _terms(parts[0], made, values)
    if op in ("min", "max"):
        compared = _compared(value, op) or []
        fits = all(b not in made and b.dtype == "int32" for b in compared)
        return compared if fits and len({values.of_buffer(b) for b in compared}) == 1 else None
    if op not in SUMS or (has_loads(parts[0]) and has_loads(parts[1]) and not _is_plain(value)):
        return None
    found = [_terms(part, made, values) for part in parts]
    return None if found[0] is None or found[1] is None else [*found[0], *found[1]]


def _compared(value: Expr, op: str) -> list[Buffer] | None:
    """The tensors that a value is the minimum or maximum of; None where it is of something else."""
    if isinstance(value, BufferLoad):
        return [value.buffer]
    if not isinstance(value, BinOp) or value.op != op:
        return None
    one, two = _compared(value.a, op), _compared(value.b, op)
    return None if one is None or two is None else [*one, *two]


def _is_plain(value: Expr) -> bool:
    """Whether a value is a sum of int32 and nothing else."""
    nodes = [e for e in walk_expr(value) if isinstance(e, BinOp | Call | Cast)]
    return value.dtype == "int32" and all(isinstance(e, BinOp) and e.op in SUMS for e in nodes)


def groups_of(model: Model, operand: int) -> int:
    """Groups of an operand's elements such that no window has elements of two of them: those are what windows connect.

    Along every dimension indices are connected that one step of the output reads; a window is a box, so the groups of all
    dimensions multiply. Where an axis moves two dimensions a window is none, and every output counts as a group.

    Args:
        model: of the nest.
        operand: its number.
    """
    op, n = model.nest.operands[operand], model.n_spatial
    moved = [a for coeffs, _ in op.dims for a, c in enumerate(coeffs) if c]
    if len(moved) != len(set(moved)):
        return model.out_elements
    groups = 1
    for d, (coeffs, size) in enumerate(op.dims):
        row = np.array(op.inside[d] if op.inside else [True] * size)
        places = np.zeros(1, dtype=np.int64)
        window = np.array(op.within[d] if op.within else [0])
        for a, c in enumerate(coeffs):
            steps = c * np.arange(model.extents[a])
            if c and a < n:
                places = np.add.outer(places, steps).ravel()
            elif c:
                window = np.add.outer(window, steps).ravel()
        read = np.add.outer(places, window)
        group = np.arange(read.max() + 1)
        for one in read:
            inside = one[row[one]]
            if len(inside):
                known = np.unique(group[inside])
                group[np.isin(group, known)] = known[0]
        groups *= len(np.unique(group[np.unique(read[row[read]])])) or 1
    return groups


def is_extremum(nest: Nest) -> bool:
    """Whether what a nest reduces by is a minimum or maximum."""
    body = blocks_of(nest)[nest.anchor or nest.out].body
    update = update_of(body) if isinstance(body, BufferStore) else None
    return update is not None and update[0] in ("min", "max")


def compares_all(nest: Nest) -> bool:
    """Whether results are the extrema of int8 that can be anything, with nothing done to them: of others less may say enough."""
    blocks = blocks_of(nest)
    anchor, values, whole = blocks[nest.anchor or nest.out], ValueBounds(nest.func), dtype_bounds("int8")
    assert isinstance(anchor.body, BufferStore)
    value = anchor.body.value
    if any(s.imm_ops or s.tensor_ops or s.products for s in nest.stages):
        return False
    if not (isinstance(value, BinOp) and value.op in ("min", "max") and isinstance(anchor.init, BufferStore)):
        return False
    own = [isinstance(e, BufferLoad) and e.buffer is anchor.body.buffer for e in (value.a, value.b)]
    term: Expr = value.b if own[0] else value.a
    bounds = [int_value(anchor.init.value)]
    if isinstance(term, Call) and term.op == "if_then_else":
        bounds, term = [*bounds, int_value(term.args[2])], term.args[1]
    neutral = all(b is not None and (b <= whole[0] if value.op == "max" else b >= whole[1]) for b in bounds)
    given = {c.buffer for c in nest.func.constants}
    made = [blocks[w.block].body for w in nest.wides]
    read = [e.buffer for body in made if isinstance(body, BufferStore) for e in walk_expr(body.value)
            if isinstance(e, BufferLoad) and e.dtype == "int8" and e.buffer not in given]
    return sum(own) == 1 and isinstance(term, BufferLoad) and neutral and all(values.of_buffer(b) == whole for b in read)
