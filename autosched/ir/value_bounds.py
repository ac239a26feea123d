"""What values integer expressions can take: interval arithmetic from declared ranges and from what stages store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from autosched.ir.expr import BinOp, BufferData, BufferLoad, Call, Cast, Expr, IntImm, Select, Var, bits, is_int
from autosched.ir.functor import stmt_children, stmt_exprs, walk_expr
from autosched.ir.patterns import update_of
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, PrimFunc, Range, Stmt

Interval = tuple[int, int]
OWN_STORES = 2  # of a reduction: where it starts, and at each of its steps


def dtype_bounds(dtype: str) -> Interval:
    """The lowest and highest value of an integer type (bool: 0 and 1)."""
    if dtype == "bool":
        return 0, 1
    width = bits(dtype)
    return (0, (1 << width) - 1) if dtype.startswith("uint") else (-(1 << (width - 1)), (1 << (width - 1)) - 1)


def neutral(op: str, dtype: str) -> int:
    """What changes no integer of a type that it is joined with.

    Args:
        op: ``+``, ``min`` or ``max``.
        dtype: the type.
    """
    low, high = dtype_bounds(dtype)
    return {"+": 0, "min": high, "max": low}[op]


@dataclass
class ValueBounds:
    """Intervals of the values of a function's expressions; what is not known has its type's range.

    Args:
        func: the function; the promised ranges of its parameters count, as do the expressions that its blocks store.
    """

    func: PrimFunc
    _buffers: dict[Buffer, Interval] = field(default_factory=dict)
    _stores: dict[Buffer, list[tuple[Expr, Mapping[Var, Range]]]] | None = None

    def copy(self) -> ValueBounds:
        """One that knows the same; what either gets to know is not the other one's."""
        return ValueBounds(self.func, dict(self._buffers), self._stored())

    def of(self, expr: Expr, dom: Mapping[Var, Range]) -> Interval:
        """The lowest and highest value of an integer expression.

        Args:
            expr: the expression.
            dom: ranges of variables, with constant ends; others have their type's range.
        """
        whole = dtype_bounds(expr.dtype)
        found = self._of(expr, dom)
        # A result outside the type wraps, and then anything is possible.
        return found if found is not None and whole[0] <= found[0] and found[1] <= whole[1] else whole

    def _of(self, expr: Expr, dom: Mapping[Var, Range]) -> Interval | None:
        if isinstance(expr, IntImm):
            return expr.value, expr.value
        if isinstance(expr, Var):
            r = dom.get(expr)
            if r is None or not (isinstance(r.min, IntImm) and isinstance(r.extent, IntImm)):
                return None
            return r.min.value, r.min.value + r.extent.value - 1
        if isinstance(expr, BufferLoad):
            return self.of_buffer(expr.buffer)
        if isinstance(expr, Cast):
            return self.of(expr.value, dom) if is_int(expr.value.dtype) or expr.value.dtype == "bool" else None
        if isinstance(expr, Select):
            return hull(self.of(expr.true_value, dom), self.of(expr.false_value, dom))
        if isinstance(expr, Call):
            if expr.op == "if_then_else":
                return hull(self.of(expr.args[1], dom), self.of(expr.args[2], dom))
            if expr.op in ("shift_left", "shift_right") and isinstance(expr.args[1], IntImm):
                low, high = self.of(expr.args[0], dom)
                by = expr.args[1].value
                if not 0 <= by < bits(expr.dtype):
                    return None
                return (low << by, high << by) if expr.op == "shift_left" else (low >> by, high >> by)
            if expr.op == "bitwise_and" and isinstance(expr.args[1], IntImm) and expr.args[1].value >= 0:
                return 0, expr.args[1].value
            return None
        if isinstance(expr, BinOp) and is_int(expr.dtype):
            return _binary(expr.op, self.of(expr.a, dom), self.of(expr.b, dom))
        return None

    def of_buffer(self, buffer: Buffer) -> Interval:
        """The lowest and highest value of a buffer's elements."""
        known = self._buffers.get(buffer)
        if known is None:
            # While it is being worked out (a buffer that is updated in place) it may hold anything.
            self._buffers[buffer] = dtype_bounds(buffer.dtype)
            known = self._buffers[buffer] = self._elements(buffer)
        return known

    def know(self, buffer: Buffer, interval: Interval) -> None:
        """Takes for granted between what a buffer's elements are, where its type holds that; else they may be anything.

        Args:
            buffer: one that the function writes.
            interval: lowest and highest value, proven elsewhere.
        """
        whole = dtype_bounds(buffer.dtype)
        self._buffers[buffer] = interval if whole[0] <= interval[0] and interval[1] <= whole[1] else whole

    def know_reduction(self, block: Block) -> None:
        """Takes for granted what a block with init that takes its terms in by +, min or max can make; says nothing of others.

        Nor of what other blocks write as well: what those store, nobody has bounded.

        Args:
            block: of the function; it runs for all of its iterators.
        """
        store, init = block.body, block.init
        update = update_of(store) if isinstance(store, BufferStore) else None
        extents = [iv.dom.extent for iv in block.iter_vars if iv.kind == "reduce"]
        if update is None or not (isinstance(store, BufferStore) and isinstance(init, BufferStore)):
            return
        if not all(isinstance(e, IntImm) for e in extents) or len(self._stored().get(store.buffer, ())) > OWN_STORES:
            return
        dom = {iv.var: iv.dom for iv in block.iter_vars}
        op, term = update
        first, (low, high) = self.of(init.value, dom), self.of(term, dom)
        if op == "+":
            steps = prod(e.value for e in extents if isinstance(e, IntImm))
            made = first[0] + min(0, steps * low), first[1] + max(0, steps * high)
        else:
            pick = min if op == "min" else max
            made = pick(first[0], low), pick(first[1], high)
        promised = None if _is_whole(store, dom) else self._promised(store.buffer)
        # Elements of a parameter that the block does not come to hold what came in.
        self.know(store.buffer, made if promised is None else hull(made, promised))

    def _stored(self) -> dict[Buffer, list[tuple[Expr, Mapping[Var, Range]]]]:
        """What is stored into every buffer."""
        if self._stores is None:
            self._stores = {}
            _collect(self.func.body, {}, self._stores)
        return self._stores

    def _elements(self, buffer: Buffer) -> Interval:
        stores = self._stored().get(buffer, [])
        promised = self._promised(buffer)
        if promised is None and not stores:
            return self._constant(buffer) or dtype_bounds(buffer.dtype)
        for value, dom in stores:
            promised = self.of(value, dom) if promised is None else hull(promised, self.of(value, dom))
        assert promised is not None
        return promised

    def _promised(self, buffer: Buffer) -> Interval | None:
        """What a parameter can hold when the function starts; None of other buffers."""
        if buffer not in self.func.params:
            return None
        index = self.func.params.index(buffer)
        given = self.func.value_ranges[index] if index < len(self.func.value_ranges) else None
        return dtype_bounds(buffer.dtype) if given is None else given

    def _constant(self, buffer: Buffer) -> Interval | None:
        from autosched.ir.constant import values

        found = next((values(c) for c in self.func.constants if c.buffer is buffer), None)
        return None if found is None or not found.size else (int(found.min()), int(found.max()))


def _is_whole(store: BufferStore, dom: Mapping[Var, Range]) -> bool:
    """Whether a store by iterators comes to every element of its buffer."""
    found: set[Var] = set()
    for index, extent in zip(store.indices, store.buffer.shape):
        r = dom.get(index) if isinstance(index, Var) and index not in found else None
        if r is None or r.extent != extent or not (isinstance(r.min, IntImm) and r.min.value == 0):
            return False
        found |= {index} if isinstance(index, Var) else set()
    return True


def _collect(
    stmt: Stmt, dom: Mapping[Var, Range], found: dict[Buffer, list[tuple[Expr, Mapping[Var, Range]]]]
) -> None:
    if isinstance(stmt, BufferStore):
        found.setdefault(stmt.buffer, []).append((stmt.value, dom))
    if isinstance(stmt, BlockRealize):
        dom = {**dom, **{iv.var: iv.dom for iv in stmt.block.iter_vars}}
    if isinstance(stmt, Block):
        for view in stmt.match_buffers:
            # What is written through a view or an address is not followed: such a buffer may hold anything.
            for b in (view.buffer, view.source.buffer):
                found.setdefault(b, []).append((BufferLoad(b, (), b.dtype), {}))
    for expr in stmt_exprs(stmt):
        for e in walk_expr(expr):
            if isinstance(e, BufferData):
                found.setdefault(e.buffer, []).append((BufferLoad(e.buffer, (), e.buffer.dtype), {}))
    for child in stmt_children(stmt):
        _collect(child, dom, found)


def hull(a: Interval, b: Interval) -> Interval:
    """The smallest interval that holds two."""
    return min(a[0], b[0]), max(a[1], b[1])


def _binary(op: str, a: Interval, b: Interval) -> Interval | None:
    if op == "+":
        return a[0] + b[0], a[1] + b[1]
    if op == "-":
        return a[0] - b[1], a[1] - b[0]
    if op == "*":
        products: Sequence[int] = [x * y for x in a for y in b]
        return min(products), max(products)
    if op == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    if op == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    if op in ("//", "%") and b[0] == b[1] > 0:
        return (a[0] // b[0], a[1] // b[0]) if op == "//" else (0, b[0] - 1)
    return None
