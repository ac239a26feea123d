"""Statements as machine code: loops, blocks with bindings and initial values, views, external calls by description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.errors import NotSupportedError, ProgramError
from autosched.ir import interp_machine as m
from autosched.ir.expr import BufferData, BufferLoad, Call, Expr, IntImm, StringImm, Var, int_value
from autosched.ir.functor import free_vars
from autosched.ir.interp import Extern
from autosched.ir.interp_code import ITEMSIZE, Emitter, Val, constant, linear
from autosched.ir.interp_expr import ExprCompiler, View, vector_lanes
from autosched.ir.stmt import (
    TRUE,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)

_IGNORED = frozenset({"tvm_storage_sync", "assume", "ret", "tvm_thread_invariant", "undef", "start_profile_intrinsic"})
ALIGN = 64  # bytes; every buffer starts on such a boundary of the arena


class Compiler(ExprCompiler):
    """Compiles statements.

    Args:
        externs: meaning of external functions by name.
    """

    def __init__(self, externs: Mapping[str, Extern]) -> None:
        super().__init__(Emitter(), {}, {})
        self.externs = externs
        self.size = 0  # bytes of arena used so far
        self.roots: list[tuple[int, int, str]] = []  # offset, bytes and dtype per storage
        self.root_of: dict[Buffer, int] = {}
        self.calls: list[str] = []

    def allocate(self, buffer: Buffer) -> View:
        """Gives a buffer storage of its own (the same one when its block is compiled again)."""
        known = self.views.get(buffer)
        if known is not None:
            return known
        shape = []
        for k, extent in enumerate(buffer.shape):
            value = self.expr(extent).value
            if value is None or value < 0:
                raise ProgramError(
                    f"dimension {k} of buffer {buffer.name} has no constant extent when the program runs"
                )
            shape.append(value)
        return self.place(buffer, shape)

    def place(self, buffer: Buffer, shape: Sequence[int]) -> View:
        """Storage for a buffer of known shape."""
        item = ITEMSIZE.get(buffer.dtype)
        if item is None:
            raise NotSupportedError(f"elements of type {buffer.dtype} cannot be interpreted (buffer {buffer.name})")
        strides, count = [], 1
        for extent in reversed(shape):
            strides.append(count)
            count *= extent
        offset = self.size
        self.size += -(-count * item // ALIGN) * ALIGN
        self.roots.append((offset, count * item, buffer.dtype))
        root = len(self.roots) - 1
        view = View(
            root,
            buffer.dtype,
            constant(offset // item),
            tuple(map(constant, shape)),
            tuple(map(constant, reversed(strides))),
        )
        self.define(buffer, view)
        return view

    def define(self, buffer: Buffer, view: View) -> None:
        """Makes a view known, and the variables in its declared strides and offset."""
        self.views[buffer] = view
        start = self.roots[view.root][0] // ITEMSIZE[view.dtype]
        for declared, actual in zip(buffer.strides, view.strides):
            if isinstance(declared, Var):
                self.env[declared] = actual
        if isinstance(buffer.elem_offset, Var):
            self.env[buffer.elem_offset] = linear([(view.base, 1)], -start)

    # -- statements --------------------------------------------------------------------------------------------------

    def stmt(self, s: Stmt) -> None:
        """One statement.

        Raises:
            ProgramError: the program is malformed where it matters to its meaning.
            NotSupportedError: a statement or a call without a meaning here.
        """
        if isinstance(s, For):
            self.loop(s)
        elif isinstance(s, SeqStmt):
            for x in s.stmts:
                self.stmt(x)
        elif isinstance(s, BlockRealize):
            self.realize(s)
        elif isinstance(s, Block):
            self.block(s, None)
        elif isinstance(s, BufferStore):
            self.store_stmt(s)
        elif isinstance(s, IfThenElse):
            self.branch(self.expr(s.condition), s.then_case, s.else_case)
        elif isinstance(s, LetStmt):
            self.env[s.var] = self.cast(self.expr(s.value), s.value.dtype, s.var.dtype)
            self.stmt(s.body)
        elif isinstance(s, AttrStmt):
            self.attr(s)
        elif isinstance(s, Evaluate):
            self.evaluate(s.value)
        elif isinstance(s, AssertStmt):
            self.em.check(self.expr(s.condition), 1, 2, f"{self.where}: assertion failed: {s.message}")
            self.stmt(s.body)
        elif isinstance(s, While):
            self.while_loop(s)
        else:
            raise NotSupportedError(f"no meaning for a {type(s).__name__} in {self.where}")

    def store_stmt(self, s: BufferStore) -> None:
        """A store; a vector one reads all its lanes before it writes the first."""
        lanes = vector_lanes((*s.indices, s.value))
        if lanes is None:
            self.store(s.buffer, s.indices, self.expr(s.value), s.value.dtype)
            return
        values = []
        dtype = s.value.dtype.split("x")[0]
        for lane in range(lanes):
            self.lane = lane
            values.append(self.expr(s.value))
            self.em.reg(values[-1])
        for lane, value in enumerate(values):
            self.lane = lane
            self.store(s.buffer, s.indices, value, dtype)
        self.lane = None

    def branch(self, condition: Val, yes: Stmt, no: Stmt | None) -> None:
        """A conditional statement."""
        known = condition.value
        if known is not None:
            if known:
                self.stmt(yes)
            elif no is not None:
                self.stmt(no)
            return
        test = self.em.reg(condition)
        sides = []
        for side in (yes, no):
            self.em.push(False)
            if side is not None:
                self.stmt(side)
            sides.append(self.em.pop())
        self._join(test, *sides)

    def _join(self, test: int, yes: list[list[int]], no: list[list[int]]) -> None:
        self.em.emit(m.JZ, test, len(yes) + (2 if no else 1))
        self.em.extend(yes)
        if no:
            self.em.emit(m.JUMP, 0, len(no) + 1)
            self.em.extend(no)

    def while_loop(self, s: While) -> None:
        """A loop while a condition holds."""
        self.em.push(True)
        test = self.em.reg(self.expr(s.condition))
        head = self.em.scopes[-1].rows
        self.em.scopes[-1].rows = []
        self.stmt(s.body)
        body = self.em.pop()
        self.em.extend(head)
        self.em.emit(m.JZ, test, len(body) + 2)
        self.em.extend(body)
        self.em.emit(m.JUMP, 0, -(len(head) + len(body) + 1))

    def attr(self, s: AttrStmt) -> None:
        """An attribute; a thread extent is the loop that it stands for, all others mean nothing."""
        if s.key in ("thread_extent", "virtual_thread"):
            var = s.node.var if isinstance(s.node, IterVar) else s.node
            if isinstance(var, Var):
                self.loop(For(var, IntImm(0, var.dtype), s.value, "serial", s.body))
                return
        self.stmt(s.body)

    def loop(self, s: For) -> None:
        """A loop of any kind, in order of its variable; initial values leave the innermost loop where they can."""
        body = s.body
        if isinstance(body, BlockRealize) and body.block.init is not None:
            self.init_loop(s, body)
        else:
            self.plain_loop(s, lambda: self.stmt(body))

    def plain_loop(self, s: For, body: object) -> None:
        """A loop around what ``body`` emits."""
        assert callable(body)
        low, extent = self.expr(s.min), self.expr(s.extent)
        count = extent.value
        if count is not None and count <= 0:
            return
        if count == 1:
            self.env[s.var] = low
            body()
            return
        self.em.push(True)
        var = self.em.atom(low.lo, low.hi + extent.hi - 1, coef=1)
        self.env[s.var] = var
        body()
        rows = self.em.pop()
        first, stop, trips = self.em.reg(low), self.em.reg(linear([(low, 1), (extent, 1)])), self.em.reg(extent)
        fused = self.em.fused(var, rows, trips)
        whole = [[m.MOV, var.reg, first, 0, 0, 0, 0, 0]]
        if fused is not None:
            whole += fused
        else:
            whole += [*rows, [m.LOOP, var.reg, stop, -len(rows), 0, 0, 0, 0]]
        if extent.lo <= 0:
            test = self.em.reg(self.int_binary("<", constant(0), extent, "int64"))
            self.em.emit(m.JZ, test, len(whole) + 1)
        self.em.extend(whole)

    def init_loop(self, s: For, body: BlockRealize) -> None:
        """A loop directly around a reduction block: the test for its first instance moves out of the loop.

        Where the loop is not part of the reduction, one test chooses between two loops; where the first instance can
        only be in the loop's first iteration, that one writes the initial values before the loop. Anything else tests
        in every iteration.
        """
        reduces = [(iv, v) for iv, v in zip(body.block.iter_vars, body.iter_values) if iv.kind == "reduce"]
        varying = [(iv, v) for iv, v in reduces if s.var in free_vars(v)]
        if not varying:
            first = self.first_instance(body)
            if first.value is not None:
                self.plain_loop(s, lambda: self.realize(body, "always" if first.value else "never"))
                return
            test = self.em.reg(first)
            sides = []
            for mode in ("always", "never"):
                self.em.push(False)
                self.plain_loop(s, lambda mode=mode: self.realize(body, mode))
                sides.append(self.em.pop())
            self._join(test, *sides)
        elif any(self.only_first(s, iv, v) for iv, v in varying):
            self.plain_loop(replace(s, extent=IntImm(1)), lambda: self.realize(body, "only"))
            self.plain_loop(s, lambda: self.realize(body, "never"))
        else:
            self.plain_loop(s, lambda: self.realize(body))

    def only_first(self, s: For, iv: IterVar, value: Expr) -> bool:
        """Whether ``value`` is above the iterator's minimum in every iteration after the first."""
        extent = int_value(s.extent)
        low, lowest = self.expr(s.min), self.expr(iv.dom.min)
        if extent is None or extent < 1 or low.value is None or lowest.value is None:
            return False
        self.em.push(True)
        var = self.em.atom(low.value, low.value + extent - 1, coef=1)
        self.env[s.var] = var
        val = self.expr(value)
        self.em.pop()
        slope = val.terms.get(var.reg, (var, 0))[1]
        rest = linear([(val, 1), (var, -slope)])
        return slope > 0 and var.reg not in rest.terms and rest.lo + slope * (low.value + 1) > lowest.value

    def first_instance(self, s: BlockRealize) -> Val:
        """Whether all reduction iterators are at their minimum."""
        result = constant(1)
        for iv, value in zip(s.block.iter_vars, s.iter_values):
            if iv.kind == "reduce":
                test = self.int_binary("==", self.expr(value), self.expr(iv.dom.min), iv.var.dtype)
                result = (
                    test
                    if result.value
                    else self.em.pure(m.AND, result, test, lo=0, hi=1)
                    if test.value is None
                    else (result if test.value else constant(0))
                )
                if result.value == 0:
                    return result
        return result

    # -- blocks ------------------------------------------------------------------------------------------------------

    def realize(self, s: BlockRealize, mode: str = "test") -> None:
        """A block at its place.

        Args:
            s: the realized block.
            mode: its init: ``test`` whether this is the first instance, ``always``, ``never``, or ``only`` the init
                then.
        """
        condition = constant(1) if s.predicate is TRUE else self.expr(s.predicate)
        if condition.value == 0:
            return
        if condition.value is None:
            test = self.em.reg(condition)
            self.em.push(False)
            self.bind(s, mode)
            self._join(test, self.em.pop(), [])
        else:
            self.bind(s, mode)

    def bind(self, s: BlockRealize, mode: str) -> None:
        """Gives the iterators their values, then runs the block."""
        block, outer = s.block, self.where
        self.where = f"block {block.name}"
        if len(s.iter_values) != len(block.iter_vars):
            raise ProgramError(
                f"block {block.name} has {len(block.iter_vars)} iterators, {len(s.iter_values)} values are bound"
            )
        first = self.first_instance(s) if block.init is not None and mode in ("test", "only") else None
        for iv, value in zip(block.iter_vars, s.iter_values):
            val = self.expr(value)
            low, extent = self.expr(iv.dom.min), self.expr(iv.dom.extent)
            if low.value is not None and extent.value is not None:
                stop = low.value + extent.value
                if val.lo < low.value or val.hi >= stop:
                    text = f"{self.where}: iterator {iv.var.name} is {{}}, outside its domain {low.value}..{stop - 1}"
                    self.em.check(val, low.value, stop, text)
                    val = self._within(val, low.value, stop - 1)
            self.env[iv.var] = val
        self.block(block, first, mode)
        self.where = outer

    def _within(self, val: Val, lo: int, hi: int) -> Val:
        # Only later code of this block sees the tighter bounds: the form is shared, the object is not.
        return Val(val.reg, val.level, max(val.lo, lo), min(val.hi, hi), val.coef, False, val.terms, val.const)

    def block(self, block: Block, first: Val | None, mode: str = "never") -> None:
        """The inside of a block."""
        for buffer in block.alloc_buffers:
            self.allocate(buffer)
        for match in block.match_buffers:
            self.match(match.buffer, match.source.buffer, [(r.min, r.extent) for r in match.source.region])
        if block.init is not None and mode != "never":
            self.branch(constant(1) if first is None else first, block.init, None)
        if mode != "only":
            self.stmt(block.body)

    def match(self, buffer: Buffer, source: Buffer, region: Sequence[tuple[Expr, Expr]]) -> None:
        """A view of a region; dimensions of extent 1 may be absent from it."""
        view = self.view(source)
        if len(region) != len(view.shape):
            raise ProgramError(
                f"{self.where}: the region of {source.name} has {len(region)} ranges for {len(view.shape)} dimensions"
            )
        parts = [(view.base, 1)]
        extents = []
        for k, ((low, extent), size, stride) in enumerate(zip(region, view.shape, view.strides)):
            at, count = self.expr(low), self.expr(extent)
            if size.value is not None:
                self.em.check(
                    at, 0, size.value + 1, f"{self.where}: region of {source.name}, dimension {k}, starts at {{}}"
                )
                end = linear([(at, 1), (count, 1)])
                self.em.check(
                    end,
                    0,
                    size.value + 1,
                    f"{self.where}: region of {source.name}, dimension {k}, ends at {{}} of {size.value}",
                )
            parts.append((self.times(at, stride), 1))
            extents.append(count)
        shape = []
        for declared, actual in zip(reversed(buffer.shape), reversed(extents)):
            if isinstance(declared, Var) and declared not in self.env:
                self.env[declared] = actual
        for extent in buffer.shape:
            shape.append(self.expr(extent))
        strides = align(shape, extents, view.strides)
        if strides is None:
            raise ProgramError(
                f"{self.where}: match_buffer {buffer.name} does not have the shape of its region of {source.name}"
            )
        self.define(buffer, View(view.root, view.dtype, linear(parts), tuple(shape), strides))

    # -- calls -------------------------------------------------------------------------------------------------------

    def evaluate(self, e: Expr) -> None:
        """An expression for its effect."""
        if not isinstance(e, Call):
            return
        op = e.op.rsplit(".", 1)[-1]
        if op in ("call_extern", "call_pure_extern", "call_llvm_intrin"):
            name = e.args[0].value if e.args and isinstance(e.args[0], StringImm) else "?"
            self.extern(name, e.args[1:])
        elif op not in _IGNORED:
            self.expr(e)

    def extern(self, name: str, args: Sequence[Expr]) -> None:
        """A call of an external function: the body of its description on the buffers that are passed."""
        known = self.externs.get(name)
        if known is None:
            from autosched.errors import suggest

            raise ProgramError(
                f"{self.where}: the external function {name!r} has no registered meaning{suggest(name, self.externs)}"
            )
        pointers = [
            a
            for a in args
            if isinstance(a, BufferData) or (isinstance(a, Call) and a.op.rsplit(".", 1)[-1] in _POINTERS)
        ]
        known = known.fitting([a.buffer.shape if isinstance(a, BufferData) else None for a in pointers])
        params = known.desc.buffers
        if len(pointers) != len(known.order):
            raise ProgramError(f"{self.where}: {name} takes {len(known.order)} buffers, {len(pointers)} given")
        if name in self.calls:
            raise ProgramError(f"{self.where}: the description of {name} calls itself")
        for pointer, index in zip(pointers, known.order):
            self.point(params[index], pointer, name)
        outer = self.where
        self.calls.append(name)
        self.stmt(known.desc.body)
        self.calls.pop()
        self.where = outer

    def point(self, param: Buffer, pointer: Expr, name: str) -> None:
        """Lets a parameter of a description be what a pointer argument points to."""
        shape = [self.expr(e) for e in param.shape]
        compact: list[Val] = []
        count = constant(1)
        for extent in reversed(shape):
            compact.insert(0, count)
            count = self.times(count, extent)
        strides: tuple[Val, ...] | None = None
        if isinstance(pointer, BufferData):
            view = self.view(pointer.buffer)
            base = view.base
            strides = align(shape, view.shape, view.strides)
        elif isinstance(pointer, Call) and pointer.op.endswith("address_of"):
            load = pointer.args[0]
            assert isinstance(load, BufferLoad)
            view, base = self.address(load.buffer, load.indices)
        else:
            assert isinstance(pointer, Call)
            data = next((a for a in pointer.args if isinstance(a, BufferData)), None)
            if data is None:
                raise ProgramError(f"{self.where}: an access pointer passed to {name} names no buffer")
            view = self.view(data.buffer)
            offset = self.expr(pointer.args[pointer.args.index(data) + 1])
            base = view.base
            if data.buffer.elem_offset is not None:
                # The pointer counts from the start of the storage: its offset includes the view's own.
                base = constant(self.roots[view.root][0] // ITEMSIZE[view.dtype])
            base = linear([(base, 1), (offset, 1)])
        if view.dtype != param.dtype:
            raise ProgramError(
                f"{self.where}: {name} takes {param.dtype} for {param.name}, the buffer passed holds {view.dtype}"
            )
        self.define(param, View(view.root, view.dtype, base, tuple(shape), strides or tuple(compact)))
        self.inside(self.views[param], name)

    def inside(self, view: View, name: str) -> None:
        """Checks that a view lies within its storage."""
        offset, size, dtype = self.roots[view.root]
        start, stop = offset // ITEMSIZE[dtype], (offset + size) // ITEMSIZE[dtype]
        self.em.check(view.base, start, stop + 1, f"{self.where}: a buffer passed to {name} starts outside its storage")
        last = linear(
            [(view.base, 1), *[(self.times(linear([(e, 1)], -1), s), 1) for e, s in zip(view.shape, view.strides)]]
        )
        self.em.check(last, start, stop, f"{self.where}: a buffer passed to {name} reaches outside its storage")


_POINTERS = ("tvm_access_ptr", "access_ptr", "address_of")


def align(shape: Sequence[Val], extents: Sequence[Val], strides: Sequence[Val]) -> tuple[Val, ...] | None:
    """Strides of a view of ``shape`` over ``extents``, unit dimensions skipped on either side; None if they differ."""
    out: list[Val] = []
    k = len(extents) - 1
    for extent in reversed(shape):
        while k >= 0 and extents[k].value == 1 and extent.value != 1:
            k -= 1
        if k < 0:
            if extent.value != 1:
                return None
            out.append(constant(0))
            continue
        have, want = extents[k], extent
        if have.value != want.value or (have.value is None and have.terms.keys() != want.terms.keys()):
            if want.value != 1:
                return None
            out.append(constant(0))
            continue
        out.append(strides[k])
        k -= 1
    if any(e.value != 1 for e in extents[: k + 1]):
        return None
    return tuple(reversed(out))
