"""Windows written out: a reduction as one value, parts that neighbours share, extrema of int8 as differences and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import gcd, prod

from autosched.ir.expr import BinOp, BufferLoad, Expr, IntImm, Var, binary, cast, const, int_value, is_int
from autosched.ir.functor import Mutator, expr_children, substitute, walk_expr
from autosched.ir.patterns import is_widened, loads_from, loads_in, operands, update_of
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.simplify import Analyzer, linear_form
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferStore, For, IterVar, Range, Stmt, seq
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import plain_store
from autosched.schedule.primitives.reductions.stages import part_at, stage_of

MOST_TERMS = 256  # of a value that is written out
MOST_STEPS = 64  # of one iterator: whoever reads a value goes as deep
EXTREMA = ("min", "max")
INTEGERS = tuple(f"{kind}{width}" for kind in ("int", "uint") for width in (8, 16, 32, 64))


class Windows(ScheduleBase):
    """Primitives for reductions over small windows."""

    @primitive
    def expand_reduction(self, block: BlockRV | str) -> None:
        """Writes a small reduction out: its block stores one value made of all terms, those of the first iterator grouped.

        Args:
            block: handle or name of a block with init, alone in its loops, one loop for each iterator and as long as its domain,
                that reduces integers with +, min or max over at most 256 terms, 64 of them along an iterator.

        Raises:
            ScheduleError: another body; no terms or more; loops that are not its iterators'.

        Before::

            for i, k in T.grid(16, 3):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A[vi + vk]

        After ``sch.expand_reduction("C")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] + A[vi + 1] + A[vi + 2]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            table = _expanded(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, table)

    @primitive
    def share_value(self, block: BlockRV | str, paths: Sequence[Sequence[int]], dtype: str | None = None) -> BlockRV:
        """Computes parts of a value that are equal but for a shift along an iterator once, in a stage that all of them read.

        Args:
            block: handle or name of a block alone in its loops that stores one element of each iteration.
            paths: two or more parts, each as ``decompose_value`` takes it; every one is the first that is read with one and the
                same iterator moved on, or with a multiple of it moved on that is all they read of it.
            dtype: type in which the stage keeps them, for integers one that holds all that they can be; theirs when not given.

        Returns:
            The block of the stage; its buffer is that of the block, longer by the largest shift. Where parts are less than a
            whole iteration apart, it has an element for every value of the multiple that they read.

        Raises:
            ScheduleError: no such part; parts that are no shifts of each other, that read what the block writes, or with a gap
                between them; a type that does not hold them.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(A[vi] + B[vi], A[vi + 2] + B[vi + 2])

        After ``sch.share_value("C", [[0], [1]])``::

            C_part = T.sblock_alloc_buffer((18,), "int32")
            for i in range(18):
                with T.sblock("C_part"):
                    vi = T.axis.spatial(18, i)
                    C_part[vi] = A[vi] + B[vi]
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(C_part[vi], C_part[vi + 2])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _shared(state, realize, [[int(p) for p in path] for path in paths], dtype)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)

    @primitive
    def extrema_by_difference(self, block: BlockRV | str) -> None:
        """Takes the largest (smallest) of int8 operands by comparing differences with zero: max(a, b) is max(a - b, 0) + b.

        Other operands are compared as they are, first, where an int8 can be taken from them without overflow. Differences and
        sums of int8 operands are the GEMM's, with an identity; the comparison with a constant is one cycle a vector. So an
        operand costs three cycles, and no widened copy. Of an operand and its multiple the difference is another multiple.

        Args:
            block: handle or name of a block whose value has a minimum or maximum of ``cast(int32, x)`` of int8 and something
                else.

        Raises:
            ScheduleError: it has none.

        Before::

            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = T.max(T.Cast("int32", R[vi]), T.Cast("int32", S[vi]))

        After ``sch.extrema_by_difference("D")``::

            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = T.max(T.Cast("int32", R[vi]) - T.Cast("int32", S[vi]), 0) + T.Cast("int32", S[vi])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        store = realize.block.body
        plain = isinstance(store, BufferStore) and realize.block.init is None
        values = _Differences(ValueBounds(state.func), {iv.var: iv.dom for iv in realize.block.iter_vars})
        value = values.visit_expr(store.value) if plain and isinstance(store, BufferStore) else None
        if value is None or not isinstance(store, BufferStore) or value == store.value:
            self.refuse(f"block {realize.block.name} stores no minimum or maximum of several int8 operands",
                        [realize.block.ident], "expand_reduction writes a small reduction out", state, code="form")
        new = with_access(replace(realize.block, body=BufferStore(store.buffer, store.indices, value)))
        self.commit_nodes(state, {id(realize.block): new})


def _expanded(state: State, realize: BlockRealize) -> dict[int, Stmt | None]:
    block = realize.block
    store = block.body
    op, term = reduction_of(block)
    start = block.init
    assert isinstance(store, BufferStore)
    if not isinstance(start, BufferStore) or start.buffer is not store.buffer or start.indices != store.indices:
        raise Refusal(f"the init of block {block.name} is not one store to the element that it reduces into", [block.ident],
                      code="form")
    if loads_from(start.value, store.buffer):
        raise Refusal(f"the init of block {block.name} reads {store.buffer.name}, which the block writes", [block.ident],
                      code="writer")
    over = [iv for iv in block.iter_vars if iv.kind == "reduce"]
    for iv in over:
        if any(e is iv.var for part in (*store.indices, start.value) for e in walk_expr(part)):
            raise Refusal(f"block {block.name} reduces over {iv.var.name}, and where it stores or starts from depends on it",
                          [block.ident], code="reduction")
    counts = [_count(block, iv) for iv in over]
    if not all(counts):
        raise Refusal(f"block {block.name} reduces no term at all", [block.ident], code="range")
    if prod(counts) > MOST_TERMS:
        raise Refusal(f"block {block.name} reduces {prod(counts)} terms; {MOST_TERMS} are the most that are written out",
                      [block.ident], code="range")
    if (longest := max(counts, default=0)) > MOST_STEPS:
        raise Refusal(f"block {block.name} reduces {longest} terms along {over[counts.index(longest)].var.name}; {MOST_STEPS} "
                      "are the most that are written out", [block.ident], code="range")
    known = Analyzer({})  # an index stays the iterator that it is, also where that has one value only

    def fold(rest: Sequence[tuple[IterVar, int]], at: dict[Var, Expr]) -> Expr:
        if not rest:
            return known.simplify(substitute(term, at))
        (iv, count), inner = rest[0], rest[1:]
        parts = [fold(inner, {**at, iv.var: IntImm(n, iv.var.dtype)}) for n in range(count)]
        total = parts[0]
        for part in parts[1:]:
            total = binary(op, total, part)
        return total

    value = fold(list(zip(over, counts)), {})
    low, high = ValueBounds(state.func).of(term, {iv.var: iv.dom for iv in block.iter_vars})
    at = int_value(start.value)
    neutral = at is not None and ((op == "+" and at == 0) or (op == "max" and at <= low) or (op == "min" and at >= high))
    value = value if neutral else binary(op, value, start.value)
    kept = [(iv, v) for iv, v in zip(block.iter_vars, realize.iter_values) if iv.kind != "reduce"]
    own = {v for iv, v in zip(block.iter_vars, realize.iter_values) if iv.kind == "reduce"}
    new = with_access(replace(block, iter_vars=tuple([iv for iv, _ in kept]), init=None,
                               body=BufferStore(store.buffer, store.indices, value)))
    top, loops = _loops(state, realize)
    nest: Stmt = BlockRealize(tuple([v for _, v in kept]), TRUE, new)
    for loop in reversed(loops):
        if loop.var not in own:
            nest = replace(loop, body=nest)
    return {id(top): nest}


def reduction_of(block: Block) -> tuple[str, Expr]:
    """The operation of a reduction of integers, and its term; refuses any other block."""
    store = block.body
    if block.init is not None and isinstance(store, BufferStore) and is_int(store.value.dtype):
        update = update_of(store)
        if update is not None:
            return update
    raise Refusal(f"block {block.name} is no reduction of integers with +, min or max", [block.ident], code="form")


def _count(block: Block, iv: IterVar) -> int:
    extent = int_value(iv.dom.extent)
    if extent is None or int_value(iv.dom.min) != 0:
        raise Refusal(f"iterator {iv.var.name} of block {block.name} has no constant extent from 0", [block.ident],
                      code="symbolic")
    return extent


def _loops(state: State, realize: BlockRealize) -> tuple[Stmt, list[For]]:
    """(the outermost loop, the loops) of a block that is alone in plain loops, one for each of its iterators, over its domain."""
    block = realize.block
    loops = state.loops_above(realize)
    top: Stmt = realize
    for loop in reversed(loops):
        if loop.body is not top or loop.kind != "serial" or loop.annotations:
            raise Refusal(f"loop {loop.var.name} holds more than block {block.name}, or is marked", [loop.var, block.ident],
                          code="place")
        top = loop
    if realize.predicate != TRUE or [loop.var for loop in loops] != list(realize.iter_values):
        raise Refusal(f"the loops around block {block.name} are not its iterators, one for each", [block.ident], "renest",
                      code="loop")
    for loop, iv in zip(loops, block.iter_vars):
        if (loop.min, loop.extent) != (iv.dom.min, iv.dom.extent):
            raise Refusal(f"loop {loop.var.name} is not the domain of iterator {iv.var.name} of block {block.name}, "
                          f"{expr_text(iv.dom.extent)} from {expr_text(iv.dom.min)}", [loop.var, block.ident], code="domain")
    return top, loops


def _shared(state: State, realize: BlockRealize, paths: list[list[int]], dtype: str | None) -> tuple[Stmt, Block]:
    parts = Shifted(state, realize, paths, finer=True)
    stage = parts.base
    if dtype is not None and dtype != stage.dtype:
        stage = _kept(state, parts.block, stage, dtype, parts.domain(max(parts.shifts)))
    table = {tuple(path): shift for path, shift in zip(paths, parts.shifts)}
    return parts.staged(stage, parts.shifts, lambda read: _replaced(parts.store.value, table, read))


class Shifted:
    """Parts of what a block stores that are one part, shifted along one iterator.

    Args:
        state: the program.
        realize: the block, alone in its loops, which stores one element of each iteration.
        paths: of two parts or more, as ``decompose_value`` takes them.
        finer: whether they may also be shifted by less than an iteration, where all that they read of the iterator is a multiple.

    Attributes:
        step: that multiple; 1 where they are shifted by whole iterations.
        shifts: by how much each is moved on, in units of the multiple; one of them is not.
        base: that one, with the iterator in place of the multiple.

    Raises:
        Refusal: no such part; parts that are no shifts of each other, or that read what the block writes.
    """

    def __init__(self, state: State, realize: BlockRealize, paths: list[list[int]], finer: bool = False) -> None:
        self.state, self.realize, self.block = state, realize, realize.block
        block = realize.block
        self.store = plain_store(block, alone=True)
        self.top, self.loops = _loops(state, realize)
        if len(paths) < 2:
            raise Refusal("to be shared there are two parts at least", [block.ident], "decompose_value takes one",
                          code="argument")
        known = Analyzer({})
        parts = [known.simplify(part_at(block, self.store.value, path)) for path in paths]
        self.moved, self.step, self.shifts, self.base = _shifts(block, parts, known, finer)
        if loads_from(self.base, self.store.buffer):
            raise Refusal(f"{expr_text(self.base)} in block {block.name} reads {self.store.buffer.name}, which the block writes",
                          [block.ident], code="writer")
        dims = [d for d, i in enumerate(self.store.indices) if i is self.moved]
        if len(dims) != 1:
            raise Refusal(f"{self.moved.name} is not the plain index of one dimension of {self.store.buffer.name}", [block.ident],
                          code="index")
        self.dim = dims[0]
        self.count = _count(block, next(iv for iv in block.iter_vars if iv.var is self.moved))

    def domain(self, most: int) -> dict[Var, Range]:
        """Over what a stage runs whose elements are read up to so far on."""
        return {self.moved: Range(const(0, self.moved.dtype), const(self._length(most), self.moved.dtype))}

    def _length(self, most: int) -> int:
        return (self.count - 1) * self.step + 1 + most

    def staged(self, stage: Expr, shifts: Sequence[int], value: Callable[[Callable[[int], Expr]], Expr]) -> tuple[Stmt, Block]:
        """The program with a stage, and its block.

        Args:
            stage: what it stores, where the block stores its first element.
            shifts: how far on the block reads it, at which places.
            value: what the block stores then, from what it reads so far on.

        Raises:
            Refusal: there are elements of the stage that nobody reads.
        """
        block, store, moved = self.block, self.store, self.moved
        scope, longer = scope_of(self.state, block), self._length(max(shifts))
        if len({n * self.step + shift for n in range(self.count) for shift in shifts}) < longer:
            # What nobody reads may be out of bounds, or divided by zero.
            raise Refusal(f"between parts of block {block.name} there are elements that none of them is; {moved.name} is one of "
                          f"{self.count}, and the parts are at {', '.join(map(str, sorted(set(shifts))))}", [block.ident],
                          code="index")
        shape = tuple([const(longer, "int32") if d == self.dim else s for d, s in enumerate(store.buffer.shape)])
        buffer = Buffer(fresh_name(f"{store.buffer.name}_part", self.state.buffer_names(scope)), shape, stage.dtype)
        name = fresh_name(f"{block.name}_part", set(self.state.block_names()))
        made, nest = stage_of(block, name, buffer, stage, self.domain(max(shifts)))

        def read(shift: int) -> Expr:
            here = moved * const(self.step, moved.dtype) if self.step > 1 else moved
            at = tuple([here + const(shift, moved.dtype) if d == self.dim else i for d, i in enumerate(store.indices)])
            return cast(self.base.dtype, BufferLoad(buffer, at, buffer.dtype))

        new = with_access(replace(block, body=BufferStore(store.buffer, store.indices, value(read))))
        changed: Stmt = BlockRealize(self.realize.iter_values, TRUE, new)
        for loop in reversed(self.loops):
            changed = replace(loop, body=changed)
        allocs = {id(scope): (*scope.alloc_buffers, buffer)}
        return self.state.rewrite({id(self.top): seq(nest, changed)}, allocs), made


def _kept(state: State, block: Block, base: Expr, dtype: str, longer: Mapping[Var, Range]) -> Expr:
    """A part in another integer type, which holds it wherever the stage computes it."""
    if not is_int(base.dtype) or dtype not in INTEGERS:
        raise Refusal(f"{expr_text(base)} in block {block.name} is {base.dtype}; it cannot be kept as {dtype}", [block.ident],
                      f"integers can, as one of {', '.join(INTEGERS)}", code="argument")
    low, high = ValueBounds(state.func).of(base, {**{iv.var: iv.dom for iv in block.iter_vars}, **longer})
    least, most = dtype_bounds(dtype)
    if low < least or high > most:
        raise Refusal(f"{expr_text(base)} in block {block.name} is from {low} to {high}, more than {dtype} holds", [block.ident],
                      code="range")
    return cast(dtype, base)


def _shifts(block: Block, parts: list[Expr], known: Analyzer, finer: bool) -> tuple[Var, int, list[int], Expr]:
    """The iterator by which parts are shifted, the multiple of it that is, by how much each, and the first of them."""
    own = [iv.var for iv in block.iter_vars]
    for iv in block.iter_vars:
        step = _step_of(iv.var, own, parts) if finer else 1
        # Whole iterations first: then a stage has no more than what is read.
        for by, moved in [(1, parts), *([(step, [_rescaled(p, iv.var, step, own, known) for p in parts])] if step > 1 else [])]:
            first = [loads_in(part)[:1] for part in moved]
            found = [_shift(iv.var, own, first[0], loads) for loads in first]
            if any(s is None for s in found):
                continue
            least = min(s for s in found if s is not None)
            shifts = [s - least for s in found if s is not None]
            base = moved[shifts.index(0)]
            if len(set(shifts)) > 1 and all(
                known.simplify(substitute(base, {iv.var: iv.var + const(s, iv.var.dtype)})) == part
                for s, part in zip(shifts, moved)
            ):
                return iv.var, by, shifts, base
    raise Refusal(f"the parts of block {block.name} are not one part, shifted along one iterator", [block.ident],
                  code="index")


def _step_of(var: Var, own: list[Var], parts: list[Expr]) -> int:
    """The largest multiple of an iterator that is all that parts read of it; 1 where they read it otherwise."""
    found = 0
    for part in parts:
        loads = loads_in(part)
        inside = sum(e is var for load in loads for i in load.indices for e in walk_expr(i))
        for form in (linear_form(i, own) for load in loads for i in load.indices):
            c = None if form is None else form[0].get(var, 0)
            if not isinstance(c, int) or c < 0:
                return 1
            found = gcd(found, c)
        if inside != sum(e is var for e in walk_expr(part)):
            return 1
    return max(found, 1)


def _rescaled(part: Expr, var: Var, step: int, own: list[Var], known: Analyzer) -> Expr:
    """A part with an iterator in place of a multiple of it, as ``_step_of`` has found it."""
    return known.simplify(_Rescaled(var, step, own).visit_expr(part))


class _Rescaled(Mutator):
    """Loads at indices in which an iterator stands for a multiple of it."""

    def __init__(self, var: Var, step: int, own: list[Var]) -> None:
        self.var, self.step, self.own = var, step, own

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, BufferLoad):
            return BufferLoad(expr.buffer, tuple([self._index(i) for i in expr.indices]), expr.dtype)
        return super().visit_expr(expr)

    def _index(self, index: Expr) -> Expr:
        form = linear_form(index, self.own)
        c = form[0].get(self.var, 0) if form is not None else 0
        assert isinstance(c, int)
        return index - self.var * const(c - c // self.step, self.var.dtype)


def _shift(var: Var, own: list[Var], one: list[BufferLoad], other: list[BufferLoad]) -> int | None:
    """By how much an iterator moves on from one load to another, or None."""
    if not one or not other or one[0].buffer is not other[0].buffer:
        return None
    found = set()
    for a, b in zip(one[0].indices, other[0].indices):
        difference, form = linear_form(b - a, own), linear_form(a, own)
        if difference is None or form is None or difference[0]:
            return None
        by, step = int_value(difference[1]), form[0].get(var, 0)
        if by is None or not isinstance(step, int) or (by and (not step or by % step)):
            return None
        if step:
            found.add(by // step)
    return found.pop() if len(found) == 1 else None


def _replaced(
    value: Expr, table: dict[tuple[int, ...], int], read: Callable[[int], Expr], path: tuple[int, ...] = ()
) -> Expr:
    """A value with loads of the stage in place of the parts at paths, each so far on."""
    if path in table:
        return read(table[path])
    if not any(p[: len(path)] == path for p in table):
        return value
    children = expr_children(value)
    return _Children(children, [_replaced(c, table, read, (*path, n)) for n, c in enumerate(children)]).visit_expr(value)


class _Children(Mutator):
    """An expression with other operands, which are told apart by identity."""

    def __init__(self, old: Sequence[Expr], new: Sequence[Expr]) -> None:
        self.pairs = list(zip(old, new))
        self.top = True

    def visit_expr(self, expr: Expr) -> Expr:
        if self.top:
            self.top = False
            return super().visit_expr(expr)
        return next((b for a, b in self.pairs if a is expr), expr)


def _taken(value: Expr, operand: Expr) -> Expr:
    """A value without an operand: of a multiple of that, another one, which is one product with an identity and no two."""
    factor = None
    if isinstance(value, BinOp) and value.op == "*" and operand in (value.a, value.b):
        factor = int_value(value.b if value.a == operand else value.a)
    elif isinstance(value, BinOp) and value.op == "-" and value.b == operand and int_value(value.a) == 0:
        factor = -1
    held, (low, high) = 0 if factor is None else factor - 1, dtype_bounds("int8")
    return operand * const(held, "int32") if factor is not None and held and low <= held <= high else value - operand


class _Differences(Mutator):
    """Extrema of int8 operands as differences that are compared with zero; what else there is is compared as it is, before.

    Args:
        values: what values can be; a difference must not leave its type.
        dom: of the block's iterators.
    """

    def __init__(self, values: ValueBounds, dom: Mapping[Var, Range]) -> None:
        self.values, self.dom = values, dom

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, BinOp) and expr.op in EXTREMA and expr.dtype == "int32":
            leaves = list(dict.fromkeys(operands(expr, expr.op)))
            narrow = [e for e in leaves if is_widened(e)]
            wide = [e for e in leaves if not is_widened(e) and int_value(e) is None]
            if narrow and len(narrow) + len(wide) > 1 and all(self._small(e) for e in wide):
                value, *others = [*map(self.visit_expr, wide), *narrow]
                for operand in others[: max(0, len(wide) - 1)]:
                    value = binary(expr.op, value, operand)
                for operand in others[max(0, len(wide) - 1) :]:
                    value = binary(expr.op, _taken(value, operand), const(0, "int32")) + operand
                for constant in (e for e in leaves if int_value(e) is not None):
                    value = binary(expr.op, value, constant)
                return value
        return super().visit_expr(expr)

    def _small(self, value: Expr) -> bool:
        """Whether an int8 operand can be taken from a value."""
        low, high = self.values.of(value, self.dom)
        least, most = dtype_bounds("int32")
        return least + 127 <= low and high <= most - 128
