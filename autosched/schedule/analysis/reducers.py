"""Reductions that may be done in any order: how they combine, what they start from, and recognising them in a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, binary, const, eq, logical_and, select
from autosched.ir.functor import expr_children
from autosched.ir.limits import max_value, min_value
from autosched.ir.stmt import Block, BufferStore, LetStmt, SeqStmt, Stmt
from autosched.schedule.kit.refusal import Refusal

Values = Sequence[Expr]
Combine = Callable[[Values, Values], list[Expr]]


@dataclass(frozen=True)
class Reducer:
    """A commutative and associative way to combine tuples of values.

    Args:
        combine: gives, of two tuples, the combined one.
        identity: gives, of the types, the tuple that changes nothing.
        size: length of the tuples.
    """

    combine: Combine
    identity: Callable[[Sequence[str]], list[Expr]]
    size: int = 1


def _elementwise(op: str, start: Callable[[str], Expr], size: int = 1) -> Reducer:
    return Reducer(
        lambda x, y: [binary(op, a, b) for a, b in zip(x, y)], lambda dtypes: [start(d) for d in dtypes], size
    )


def _arg(op: str, strict: bool, worst: Callable[[str], Expr]) -> Reducer:
    """(index, value) of the extreme value; strict: of equal ones that of the lowest index, else the first."""

    def combine(x: Values, y: Values) -> list[Expr]:
        better = binary(op, x[1], y[1])
        first = better
        if strict:
            first = binary("or", better, logical_and(eq(x[1], y[1]), binary("<", x[0], y[0])))
        return [select(first, x[0], y[0]), select(better, x[1], y[1])]

    return Reducer(combine, lambda dtypes: [const(-1, dtypes[0]), worst(dtypes[1])], 2)


REDUCERS: tuple[Reducer, ...] = (
    _elementwise("+", lambda d: const(0, d)),
    _elementwise("*", lambda d: const(1, d)),
    _elementwise("min", max_value),
    _elementwise("max", min_value),
    _elementwise("+", lambda d: const(0, d), 2),
    _arg(">=", False, min_value),
    _arg(">", True, min_value),
    _arg("<=", False, max_value),
    _arg("<", True, max_value),
)


@dataclass(frozen=True)
class Reduction:
    """What a reduction block does.

    Args:
        reducer: how it combines.
        stores: the element of each buffer that it updates.
        terms: what is combined into each of them.
    """

    reducer: Reducer
    stores: tuple[BufferStore, ...]
    terms: tuple[Expr, ...]


def recognise(block: Block) -> Reduction:
    """The reduction that a block does.

    Args:
        block: with an init; its body stores one value, or binds several by ``let`` and stores them.

    Raises:
        Refusal: another form, or a combination that is not known to be associative.
    """
    starts = _stores(block, block.init)
    lets: dict[Var, Expr] = {}
    body = block.body
    while isinstance(body, LetStmt):
        lets[body.var] = body.value
        body = body.body
    stores = _stores(block, body)
    if lets:
        stores = _bound(block, lets, stores)
    elif len(stores) > 1:
        raise Refusal(f"block {block.name} updates several buffers one after another", [block.ident],
                      "bind all new values by T.let first", code="reduction")
    if {s.buffer for s in starts} != {s.buffer for s in stores} or len(starts) != len(stores):
        raise Refusal(f"block {block.name} does not initialise exactly what it updates", [block.ident], code="reduction")
    if any(s.indices != stores[0].indices or s.buffer.shape != stores[0].buffer.shape for s in (*stores, *starts)):
        raise Refusal(f"block {block.name} updates buffers at different indices or of different shapes", [block.ident],
                      code="index")
    by_buffer = {s.buffer: s.value for s in starts}
    own = [BufferLoad(s.buffer, s.indices, s.buffer.dtype) for s in stores]
    dtypes = [s.buffer.dtype for s in stores]
    values = [s.value for s in stores]
    for reducer in REDUCERS:
        if reducer.size != len(stores) or [by_buffer[s.buffer] for s in stores] != reducer.identity(dtypes):
            continue
        terms = _match(reducer, own, values, dtypes)
        if terms is not None:
            return Reduction(reducer, tuple(stores), tuple(terms))
    raise Refusal(
        f"block {block.name} does not combine by a known reducer from its neutral value: sum, product, min, max, argmax, "
        "argmin", [block.ident], code="reduction",
    )


def _stores(block: Block, stmt: Stmt | None) -> list[BufferStore]:
    stmts = list(stmt.stmts) if isinstance(stmt, SeqStmt) else [stmt]
    found = [s for s in stmts if isinstance(s, BufferStore)]
    if len(found) != len(stmts):
        raise Refusal(f"the init and the body of block {block.name} are not stores alone", [block.ident], code="reduction")
    if len({s.buffer for s in found}) != len(found):
        raise Refusal(f"block {block.name} stores a buffer twice", [block.ident], code="writer")
    return found


def _bound(block: Block, lets: Mapping[Var, Expr], stores: Sequence[BufferStore]) -> list[BufferStore]:
    """The stores with the values that were bound, in the order of the bindings."""
    by_var = {s.value: s for s in stores if isinstance(s.value, Var)}
    if set(by_var) != set(lets) or len(stores) != len(lets):
        raise Refusal(f"block {block.name} does not store each of the values that it binds, once", [block.ident], code="form")
    return [BufferStore(by_var[v].buffer, by_var[v].indices, value) for v, value in lets.items()]


def _match(reducer: Reducer, own: Sequence[Expr], values: Sequence[Expr], dtypes: Sequence[str]) -> list[Expr] | None:
    """What the values combine with the old ones, if that is how they combine."""
    x, y = [Var("x", d) for d in dtypes], [Var("y", d) for d in dtypes]
    pattern = reducer.combine(x, y)
    for value_list in (values, [_swapped(v) for v in values]):
        found: dict[Var, Expr] = {}
        if all(_unify(p, v, {*x, *y}, found) for p, v in zip(pattern, value_list)) and all(
            found.get(a) == o for a, o in zip(x, own)
        ) and all(b in found for b in y):
            return [found[b] for b in y]
    return None


def _swapped(value: Expr) -> Expr:
    """``b op a`` of ``a op b`` where the order does not matter."""
    if isinstance(value, BinOp) and value.op in ("+", "*", "min", "max"):
        return BinOp(value.op, value.b, value.a, value.dtype)
    return value


def _unify(pattern: Expr, value: Expr, holes: set[Var], found: dict[Var, Expr]) -> bool:
    if isinstance(pattern, Var) and pattern in holes:
        if pattern.dtype != value.dtype:
            return False
        return found.setdefault(pattern, value) == value
    if type(pattern) is not type(value) or getattr(pattern, "op", None) != getattr(value, "op", None):
        return False
    mine, theirs = expr_children(pattern), expr_children(value)
    if not mine:
        return pattern == value
    return len(mine) == len(theirs) and all(_unify(p, v, holes, found) for p, v in zip(mine, theirs))
