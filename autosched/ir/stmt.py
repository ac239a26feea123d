"""Statements of the IR: buffers, loops, blocks and functions, in the shape of TensorIR.

All nodes are frozen and picklable. A buffer and a variable are what they are by identity. A block carries an ``ident`` that
survives rewriting: it is how a schedule finds "the same block" in a new program. Identity never enters equality of programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.ir.expr import BufferLoad, Expr, ExprLike, IntImm, Var, as_expr
from autosched.ir.quick import quick
from sim.markup import listing

Annotations = Mapping[str, Any]


class Ident:
    """An identity token; equal only to itself, and to itself after one unpickling of a whole program."""

    __slots__ = ("__weakref__",)


@quick
@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """An N-dimensional array.

    Args:
        name: what is printed.
        shape: extents in elements, constants unless the program is symbolic.
        dtype: element type.
        scope: memory it lives in: ``global`` (DRAM), ``local.inp_buffer``, ``local.wgt_buffer``, ``local.acc_buffer``, ...
        axis_separators: dimensions before which flattening must not merge (``[2][4096]`` banks: ``(1,)``).
        strides: explicit strides in elements, or () for row-major.
        elem_offset: offset of the first element, or None.
        offset_factor: divisor of the offset that a match guarantees.
        align: alignment in bytes (-1: unspecified).
        ident: identity that survives a change of scope, shape or layout.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: str = "float32"
    scope: str = "global"
    axis_separators: tuple[int, ...] = ()
    strides: tuple[Expr, ...] = ()
    elem_offset: Expr | None = None
    offset_factor: int = 0
    align: int = -1
    ident: Ident = field(default_factory=Ident, repr=False)

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> BufferLoad:
        if not isinstance(indices, tuple):
            indices = (indices,)
        if len(indices) != len(self.shape):
            raise IndexError(f"buffer {self.name} has {len(self.shape)} dimensions, {len(indices)} indices given")
        return BufferLoad(self, tuple(as_expr(i) for i in indices), self.dtype)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Buffer({self.name})"


def separator_fault(separators: Sequence[int], ndim: int) -> str | None:
    """What is wrong with axis separators, or None.

    Args:
        separators: dimensions before which flattening must not merge.
        ndim: number of dimensions of the buffer.
    """
    for before, at in zip((0, *separators), separators):
        if not 0 < at < ndim:
            return f"axis separator {at} is not inside the {ndim} dimension{'s' if ndim != 1 else ''}"
        if at <= before:
            return f"axis separator {at} does not come after {before}"
    return None


@quick
@dataclass(frozen=True, slots=True)
class Range:
    """``extent`` consecutive integers from ``min``."""

    min: Expr
    extent: Expr


@quick
@dataclass(frozen=True, slots=True)
class BufferRegion:
    """A rectangular part of a buffer: one range per dimension."""

    buffer: Buffer
    region: tuple[Range, ...]


@quick
@dataclass(frozen=True, slots=True)
class IterVar:
    """An iterator of a block.

    Args:
        var: the variable the body uses.
        dom: its whole domain (not the part one loop nest covers).
        kind: ``spatial``, ``reduce``, ``scan`` or ``opaque``.
    """

    var: Var
    dom: Range
    kind: str = "spatial"


class Stmt:
    """Base of all statements."""

    __slots__ = ()

    def __str__(self) -> str:
        from autosched.ir.printer import stmt_text

        return stmt_text(self)


@quick
@dataclass(frozen=True, slots=True)
class BufferStore(Stmt):
    """``buffer[indices] = value``."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Evaluate(Stmt):
    """An expression evaluated for its effect."""

    value: Expr


@quick
@dataclass(frozen=True, slots=True)
class SeqStmt(Stmt):
    """Statements one after another; build with ``seq`` to keep it flat."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class IfThenElse(Stmt):
    """A conditional statement; ``else_case`` may be None."""

    condition: Expr
    then_case: Stmt
    else_case: Stmt | None = None


@dataclass(frozen=True, slots=True)
class LetStmt(Stmt):
    """``var = value`` visible in ``body``."""

    var: Var
    value: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class AttrStmt(Stmt):
    """An attribute around a statement; ``node`` is what it is about, possibly None."""

    node: Any
    key: str
    value: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class AssertStmt(Stmt):
    """A run-time check followed by ``body``."""

    condition: Expr
    message: str
    body: Stmt


@dataclass(frozen=True, slots=True)
class While(Stmt):
    """A loop while a condition holds."""

    condition: Expr
    body: Stmt


@quick
@dataclass(frozen=True, slots=True)
class For(Stmt):
    """A loop; its variable's identity is the loop's identity.

    Args:
        var: loop variable.
        min: first value.
        extent: number of iterations.
        kind: ``serial``, ``unrolled``, ``vectorized``, ``parallel`` or ``thread_binding``.
        body: what is repeated.
        thread: thread tag of a bound loop (``vthread``, ``cthread``, ``threadIdx.x``...), or None.
        annotations: what the schedule left on it.
    """

    var: Var
    min: Expr
    extent: Expr
    kind: str
    body: Stmt
    thread: str | None = None
    annotations: Annotations = field(default_factory=dict)


def with_body(loop: For, body: Stmt) -> For:
    """A loop around another body (as ``dataclasses.replace``, several times faster: every primitive rebuilds loops)."""
    return For(loop.var, loop.min, loop.extent, loop.kind, body, loop.thread, loop.annotations)


@dataclass(frozen=True, slots=True)
class MatchBuffer:
    """``buffer`` is a view of ``source`` inside a block."""

    buffer: Buffer
    source: BufferRegion


@quick
@dataclass(frozen=True, slots=True)
class Block(Stmt):
    """A unit of computation with its iterators and the regions that it touches.

    Args:
        name: unique among the blocks of a program that are looked up by name.
        iter_vars: iterators.
        reads: regions read in one instance.
        writes: regions written in one instance.
        body: what one instance does.
        init: what the first instance of a reduction does before ``body``, or None.
        alloc_buffers: buffers that live inside.
        match_buffers: views.
        annotations: what the schedule left on it.
        ident: identity that survives rewriting.
    """

    name: str
    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[MatchBuffer, ...] = ()
    annotations: Annotations = field(default_factory=dict)
    ident: Ident = field(default_factory=Ident, repr=False, compare=False)


@quick
@dataclass(frozen=True, slots=True)
class BlockRealize(Stmt):
    """A block with the values of its iterators at this place.

    Args:
        iter_values: one expression of the loop variables per iterator.
        predicate: instances where it is false do not run.
        block: the block.
    """

    iter_values: tuple[Expr, ...]
    predicate: Expr
    block: Block


TRUE = IntImm(1, "bool")


@dataclass(frozen=True, eq=False, slots=True)
class Constant:
    """A tensor whose elements are part of the program.

    Args:
        buffer: how the program names it; in DRAM, of constant shape.
        data: its elements, row-major and little-endian.
    """

    buffer: Buffer
    data: bytes


@dataclass(frozen=True, eq=False)
class PrimFunc:
    """A tensor program.

    Its body is the ``BlockRealize`` of a block named ``root`` that holds the intermediate buffers.
    Equality and hash are those of the canonical JSON (``autosched.ir.structural``), so names of variables do not matter.

    Args:
        params: buffers (tensors) and scalar variables (symbolic extents), in signature order.
        body: the realized root block.
        name: global symbol; not part of equality.
        attrs: function attributes (``tir.noalias`` and the like; not part of equality).
        value_ranges: per parameter, the (lowest, highest) value that callers promise, or None for its dtype's range.
        constants: tensors whose elements are part of the program; visible in the whole body, never written.
    """

    params: tuple[Buffer | Var, ...]
    body: Stmt
    name: str = "main"
    attrs: Annotations = field(default_factory=dict)
    value_ranges: tuple[tuple[int, int] | None, ...] = ()
    constants: tuple[Constant, ...] = ()

    def __eq__(self, other: object) -> bool:
        from autosched.ir.structural import structural_equal

        return isinstance(other, PrimFunc) and (self is other or structural_equal(self, other))

    def __hash__(self) -> int:
        from autosched.ir.structural import structural_hash

        return int(structural_hash(self)[:15], 16)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The tensor parameters, in order."""
        return tuple(p for p in self.params if isinstance(p, Buffer))

    @property
    def given(self) -> tuple[Buffer, ...]:
        """The buffers that are there before the body runs: tensor parameters, then constants."""
        return (*self.buffers, *[c.buffer for c in self.constants])

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> PrimFunc:
        """This function with attributes added; ``global_symbol`` renames it.

        Raises:
            TypeError: a value that is no plain data: number, string, bool, None, list or dict of those, or an expression.
        """
        from dataclasses import replace

        from autosched.ir.annotation import plain_value

        given = dict(key) if isinstance(key, Mapping) else {key: value}
        new = {k: plain_value(v, f"attribute {k!r}", (Expr, Buffer)) for k, v in given.items()}
        name = str(new.pop("global_symbol", self.name))
        return replace(self, name=name, attrs={**self.attrs, **new})

    def _repr_html_(self) -> str:
        """The program, for notebooks."""
        return listing(self.script())

    def script(self, dialect: str = "tvm") -> str:
        """This program as TVMScript text; see ``autosched.ir.printer.script``."""
        from autosched.ir.printer import script

        return script(self, dialect=dialect)

    def show(self, dialect: str = "tvm") -> None:
        """Print this program."""
        print(self.script(dialect))

    def __str__(self) -> str:
        return self.script()


def with_func_body(func: PrimFunc, body: Stmt) -> PrimFunc:
    """A function with another body (as ``dataclasses.replace``, in less time: every primitive makes one)."""
    return PrimFunc(func.params, body, func.name, func.attrs, func.value_ranges, func.constants)


@dataclass(frozen=True, eq=False)
class IRModule:
    """Named functions.

    Args:
        functions: by name, in order.
    """

    functions: Mapping[str, PrimFunc]

    def __getitem__(self, name: str) -> PrimFunc:
        return self.functions[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IRModule) and dict(self.functions) == dict(other.functions)

    def __hash__(self) -> int:
        return hash(tuple(self.functions.items()))

    def script(self, dialect: str = "tvm") -> str:
        """All functions as one TVMScript module."""
        from autosched.ir.printer import script

        return script(self, dialect=dialect)

    def show(self, dialect: str = "tvm") -> None:
        """Print this module."""
        print(self.script(dialect))

    def __str__(self) -> str:
        return self.script()


def seq(*stmts: Stmt) -> Stmt:
    """One statement of several: nested sequences flatten, a single statement stays itself."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, SeqStmt) else (stmt,))
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


def nested(loops: Iterable[tuple[Var, Range]], body: Stmt) -> Stmt:
    """Serial loops around a statement, the first outermost."""
    for var, dom in reversed(list(loops)):
        body = For(var, dom.min, dom.extent, "serial", body)
    return body


def point(buffer: Buffer, indices: tuple[Expr, ...]) -> BufferRegion:
    """The region of one element."""
    return BufferRegion(buffer, tuple(Range(i, IntImm(1, i.dtype)) for i in indices))


def full_region(buffer: Buffer) -> BufferRegion:
    """The whole buffer as a region."""
    return BufferRegion(buffer, tuple(Range(IntImm(0, s.dtype), s) for s in buffer.shape))


def make_root(body: Stmt, alloc_buffers: tuple[Buffer, ...] = ()) -> BlockRealize:
    """The root block around a function's body."""
    return BlockRealize((), TRUE, Block("root", (), (), (), body, alloc_buffers=alloc_buffers))
