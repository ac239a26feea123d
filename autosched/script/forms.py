"""What the statement-like names of the language evaluate to.

``T.reads(A[0])`` or ``T.grid(4, 4)`` are ordinary Python calls here: each returns a small description, and the parser
gives it its meaning from where it stands. So the names know nothing of the parser, and a form in the wrong place is an
error that can say what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import NotSupportedError, ProgramError
from autosched.ir.annotation import plain_value
from autosched.ir.expr import Expr, ExprLike, IntImm, Var, as_expr, int_value
from autosched.ir.stmt import Buffer, BufferRegion

Shape = Sequence[ExprLike | str] | ExprLike


class Form:
    """Base of the descriptions; ``what`` says in an error what was found."""

    what = "a statement form"


@dataclass(frozen=True)
class Loop(Form):
    """One loop or, from ``T.grid``, several.

    Args:
        kind: of every loop.
        spans: per loop (first, one past the last).
        annotations: on the loop.
        thread: tag of a bound loop.
        grid: whether it is a nest, whatever the number of its loops.
        step: from one value of the name to the next; a loop of the program counts from 0 by 1 where it is another than 1.
    """

    kind: str
    spans: tuple[tuple[Expr, Expr], ...]
    annotations: Mapping[str, Any] = field(default_factory=dict)
    thread: str | None = None
    grid: bool = False
    step: int = 1
    what = "a loop range"

    def iterations(self) -> int | None:
        """How many there are, where a comprehension may run over them."""
        a, b = (int_value(e) for e in self.spans[0])
        return None if self.grid or a is None or b is None else len(range(a, b, self.step))

    def __iter__(self) -> Iterator[int]:
        # So that a comprehension may run over a constant range(...).
        lo, hi = self.spans[0]
        a, b = int_value(lo), int_value(hi)
        if self.grid or a is None or b is None:
            raise TypeError("only a range of constants can be iterated in Python")
        return iter(range(a, b, self.step))


@dataclass(frozen=True)
class BlockHead(Form):
    """``T.sblock("name")``; ``domains`` only in the oldest dialect, ``tir.block([16, 16], "name") as [i, j]``."""

    name: str
    domains: tuple[Any, ...] | None = None
    what = "a block"


@dataclass(frozen=True)
class Axis(Form):
    """One block iterator: kind, domain (first, extent; None: that of the loop bound) and value."""

    kind: str
    dom: Any
    value: Expr | None
    dtype: str = "int32"
    what = "a block axis"


@dataclass(frozen=True)
class BufferSpec(Form):
    """The description of a buffer before it has a name.

    Args:
        role: ``param``, ``alloc`` or ``match``.
        shape: extents; strings name symbolic variables.
        source: for ``match``, a handle, a buffer or a region; for a declared buffer, the data it lies on.
    """

    role: str
    shape: tuple[Any, ...]
    dtype: str = "float32"
    scope: str = "global"
    strides: tuple[Any, ...] = ()
    elem_offset: Any = None
    align: int = -1
    offset_factor: int = 0
    axis_separators: tuple[int, ...] = ()
    source: Any = None
    what = "a buffer declaration"


@dataclass(frozen=True)
class Note(Form):
    """A line that says something of the enclosing function or block: reads, writes, where, attributes."""

    kind: str
    value: Any

    @property
    def what(self) -> str:  # type: ignore[override]
        """The form's own name."""
        return f"T.{self.kind}"


@dataclass(frozen=True)
class Scope(Form):
    """A form that may open an indented suite: init, attr, let, assertion, thread."""

    kind: str
    args: tuple[Any, ...] = ()

    @property
    def what(self) -> str:  # type: ignore[override]
        """The form's own name."""
        return f"T.{self.kind}"


@dataclass(frozen=True)
class NewVar(Form):
    """``T.int32()``: a variable without a name yet."""

    dtype: str
    what = "a new variable"

    @property
    def ty(self) -> DType:
        """Its type, as today's TVM writes the type of a call: ``T.handle().ty``."""
        return DType(self.dtype)


class LetMarker(Form):
    """``T.let`` or ``T.let[T.int32]`` as an annotation."""

    what = "T.let"

    def __init__(self, dtype: str | None = None) -> None:
        self.dtype = dtype

    def __getitem__(self, dtype: Any) -> LetMarker:
        return LetMarker(getattr(dtype, "name", str(dtype)))


class DType:
    """``T.int32``: a constructor of constants, a conversion, a variable, and an annotation.

    Args:
        name: the type, e.g. ``int32`` or ``float32x4``.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, value: Any = None, *rest: Any, **kwargs: Any) -> Expr | NewVar:
        from autosched.ir.expr import FloatImm, cast, is_float, is_int, wrap

        if value is None or self.name == "handle":
            return NewVar(self.name)
        if isinstance(value, str):
            if not is_float(self.name):
                raise TypeError(f"T.{self.name} takes a number, got the string {value!r}")
            return FloatImm(float(value), self.name)
        if isinstance(value, int) and is_int(self.name) and wrap(value, self.name) != value:
            raise ValueError(f"{value} does not fit T.{self.name}")
        return cast(self.name, as_expr(value, self.name if not isinstance(value, Expr) else None))

    def __repr__(self) -> str:
        return f"T.{self.name}"


def _expr(value: Any, what: str) -> Expr:
    if isinstance(value, Expr | int | float):
        return as_expr(value)
    raise TypeError(f"{what} must be an expression or a number, got {describe(value)}")


def describe(value: Any) -> str:
    """What a value is, for an error."""
    if isinstance(value, Form):
        return value.what
    if isinstance(value, Buffer):
        return f"the buffer {value.name}"
    if isinstance(value, BufferRegion):
        return f"a region of the buffer {value.buffer.name}"
    return f"{type(value).__name__} {value!r}" if isinstance(value, str | int | float) else type(value).__name__


def _span(start: Any, stop: Any, what: str) -> tuple[Expr, Expr]:
    if stop is None:
        extent = _expr(start, f"the extent of {what}")
        return IntImm(0, extent.dtype), extent
    lo, hi = _expr(start, f"the start of {what}"), _expr(stop, f"the end of {what}")
    if lo.dtype != hi.dtype:
        # A plain number takes the other's type.
        lo, hi = (
            (IntImm(lo.value, hi.dtype), hi) if isinstance(lo, IntImm) else
            (lo, IntImm(hi.value, lo.dtype)) if isinstance(hi, IntImm) else (lo, hi)
        )
    return lo, hi


def _step(step: Any, what: str) -> int:
    by = step if isinstance(step, int) else int_value(_expr(step, f"the step of {what}"))
    if by is None:
        raise NotSupportedError(f"{what} with step {step}: a step is a constant; multiply the variable instead")
    if by == 0:
        raise ValueError(f"the step of {what} is zero")
    return by


def _loop(kind: str, name: str) -> Any:
    def make(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None, step: Any = None,
             thread: str | None = None, unroll: bool | None = None) -> Loop:
        if kind == "thread_binding" and thread is None:
            raise TypeError('T.thread_binding needs a thread tag, for example thread="vthread"')
        notes = _mapping(annotations or {}, "annotations=")
        if unroll is not None:
            notes["pragma_unroll" if unroll else "disable_unroll"] = True
        return Loop(kind, (_span(start, stop, name),), notes, thread, step=_step(1 if step is None else step, name))

    make.__name__ = name.removeprefix("T.")
    return make


serial = _loop("serial", "T.serial")
parallel = _loop("parallel", "T.parallel")
vectorized = _loop("vectorized", "T.vectorized")
unroll = _loop("unrolled", "T.unroll")
thread_binding = _loop("thread_binding", "T.thread_binding")


def loop_range(start: Any, stop: Any = None, step: Any = 1) -> Loop:
    """``range`` inside a program."""
    return Loop("serial", (_span(start, stop, "range"),), step=_step(step, "range"))


def grid(*extents: Any) -> Loop:
    """A nest of serial loops; an extent may be a pair (first, extent)."""
    spans = []
    for e in extents:
        if isinstance(e, tuple | list):
            first = _expr(e[0], "the start of T.grid")
            spans.append((first, first + _expr(e[1], "the extent of T.grid")))
        else:
            spans.append(_span(e, None, "T.grid"))
    return Loop("serial", tuple(spans), grid=True)


def sblock(name: Any = "", name_hint: str | None = None, *, no_realize: bool = False) -> BlockHead:
    """A block; in the oldest dialect the first argument is a list of domains."""
    if isinstance(name, list | tuple):
        return BlockHead(name_hint or "", tuple(name))
    if no_realize:
        raise NotSupportedError("a block printed without its bindings (no_realize=True) is not a program")
    if not isinstance(name, str):
        raise TypeError(f"the name of a block must be a string, got {describe(name)}")
    return BlockHead(name)


class AxisForms:
    """``T.axis``."""

    @staticmethod
    def _make(kind: str, dom: Any, value: Any, dtype: str) -> Axis:
        return Axis(kind, dom, None if value is None else _expr(value, "the value of a block axis"), dtype)

    def spatial(self, dom: Any, value: Any = None, dtype: str = "int32") -> Axis:
        """A data-parallel iterator."""
        return self._make("spatial", dom, value, dtype)

    def reduce(self, dom: Any, value: Any = None, dtype: str = "int32") -> Axis:
        """A reduction iterator."""
        return self._make("reduce", dom, value, dtype)

    def scan(self, dom: Any, value: Any = None, dtype: str = "int32") -> Axis:
        """An ordered iterator."""
        return self._make("scan", dom, value, dtype)

    def opaque(self, dom: Any, value: Any = None, dtype: str = "int32") -> Axis:
        """An iterator of which nothing is known."""
        return self._make("opaque", dom, value, dtype)

    S = spatial
    R = reduce

    def remap(self, kinds: str, values: Sequence[Any], dtype: str = "int32") -> Any:
        """Several iterators that are loop variables, with the loops' domains."""
        if not isinstance(values, list | tuple):
            raise TypeError("T.axis.remap takes a list of loop variables, for example [i, j]")
        if len(kinds) != len(values):
            raise TypeError(f"T.axis.remap has {len(kinds)} kinds ({kinds!r}) for {len(values)} loop variables")
        axes = []
        for kind, value in zip(kinds, values):
            if kind not in "SR":
                raise TypeError(f"unknown axis kind {kind!r} in T.axis.remap; expected 'S' (spatial) or 'R' (reduce)")
            if not isinstance(value, Var):
                raise TypeError("T.axis.remap takes loop variables only; use T.axis.spatial(extent, value) for others")
            axes.append(Axis("spatial" if kind == "S" else "reduce", None, value, dtype))
        return axes[0] if len(axes) == 1 else axes

    def __getattr__(self, name: str) -> Any:
        from autosched.errors import UnknownNameError

        raise UnknownNameError("axis kind", name, ("spatial", "reduce", "scan", "opaque", "remap", "S", "R"))


def dims(shape: Any) -> tuple[Any, ...]:
    if isinstance(shape, list | tuple):
        return tuple(shape)
    return (shape,)


def _dtype(dtype: Any) -> str:
    return dtype.name if isinstance(dtype, DType) else str(dtype)


def _spec(role: str, shape: Any, dtype: Any, scope: str, strides: Any, elem_offset: Any, align: int, offset_factor: int,
          axis_separators: Any, source: Any = None) -> BufferSpec:
    return BufferSpec(
        role, dims(shape), _dtype(dtype), scope or "global", tuple(strides or ()), elem_offset,
        -1 if align in (0, 64) else align, offset_factor, tuple(int(int_value(a) or 0) for a in axis_separators or ()),
        source,
    )


class BufferForm:
    """``T.Buffer((16, 16), "int8")``, or with brackets in older text."""

    def __call__(self, shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None,
                 elem_offset: Any = None, scope: str = "global", align: int = -1, offset_factor: int = 0,
                 buffer_type: str = "", axis_separators: Any = None, layout: Any = None) -> BufferSpec:
        return _spec("param", shape, dtype, scope, strides, elem_offset, align, offset_factor, axis_separators, data)

    def __getitem__(self, key: Any) -> BufferSpec:
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], str | DType):
            return self(key[0], key[1])
        return self(key)


def match_buffer(param: Any, shape: Any = None, dtype: Any = None, data: Any = None, strides: Any = None,
                 elem_offset: Any = None, scope: str = "global", align: int = -1, offset_factor: int = 0,
                 buffer_type: str = "", axis_separators: Any = None, layout: Any = None) -> BufferSpec:
    """A view: of a handle parameter, or of a region inside a block."""
    if shape is None:
        if not isinstance(param, BufferRegion):
            raise TypeError("T.match_buffer needs a shape unless it matches a region, for example (16, 16)")
        shape = [r.extent for r in param.region]
        dtype = dtype or param.buffer.dtype
    return _spec("match", shape, dtype or "float32", scope, strides, elem_offset, align, offset_factor,
                 axis_separators, param)


def alloc_buffer(shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None, elem_offset: Any = None,
                 scope: str = "global", align: int = -1, offset_factor: int = 0, buffer_type: str = "",
                 axis_separators: Any = None, annotations: Any = None, layout: Any = None) -> BufferSpec:
    """A buffer that lives in the enclosing block."""
    return _spec("alloc", shape, dtype, scope, strides, elem_offset, align, offset_factor, axis_separators)


def decl_buffer(shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None, elem_offset: Any = None,
                scope: str = "global", align: int = -1, offset_factor: int = 0, buffer_type: str = "",
                axis_separators: Any = None, layout: Any = None) -> BufferSpec:
    """A buffer over given data; without data, an allocation."""
    return _spec("alloc" if data is None else "param", shape, dtype, scope, strides, elem_offset, align,
                 offset_factor, axis_separators, data)


def allocate(extents: Any, dtype: Any, scope: str = "global", condition: Any = None,
             annotations: Any = None) -> BufferSpec:
    """Flat memory, as lowered programs allocate it; ``T.Buffer(..., data=)`` gives it a shape."""
    return _spec("data", extents, dtype, scope, None, None, -1, 0, None)


@dataclass(frozen=True)
class ConstantSpec(Form):
    """A constant before it has a name: its elements, or all of them as one string in base 64."""

    data: tuple[Any, ...] | str
    buffer: BufferSpec
    what = "a constant"


def allocate_const(data: Any, dtype: Any, extents: Any, annotations: Any = None) -> ConstantSpec:
    """A tensor whose elements are part of the program: ``T.allocate_const([1, 0, 0, 1], "int8", [2, 2])``."""
    if not isinstance(data, list | tuple | str):
        raise TypeError(f"T.allocate_const takes a list of numbers, row-major, got {describe(data)}")
    spec = _spec("alloc", extents, dtype, "global", None, None, -1, 0, None)
    return ConstantSpec(data if isinstance(data, str) else tuple(data), spec)


def regions(args: Sequence[Any], what: str) -> tuple[Any, ...]:
    """The regions of T.reads or T.writes: several arguments, or one list."""
    if len(args) == 1 and isinstance(args[0], list | tuple):
        args = args[0]
    return tuple(args)


def reads(*args: Any) -> Note:
    """The regions one instance of the block reads."""
    return Note("reads", regions(args, "T.reads"))


def writes(*args: Any) -> Note:
    """The regions one instance of the block writes."""
    return Note("writes", regions(args, "T.writes"))


def where(predicate: Any) -> Note:
    """Instances where it is false do not run."""
    return Note("where", predicate)


def sblock_attr(attrs: Mapping[str, Any]) -> Note:
    """Annotations of the block."""
    return Note("sblock_attr", _mapping(attrs, "T.sblock_attr"))


def func_attr(attrs: Mapping[str, Any]) -> Note:
    """Attributes of the function."""
    return Note("func_attr", _mapping(attrs, "T.func_attr"))


def _mapping(attrs: Any, what: str) -> dict[str, Any]:
    if not isinstance(attrs, Mapping):
        raise TypeError(f'{what} takes a dictionary, for example {{"key": 1}}, got {describe(attrs)}')
    return {str(k): plain_value(v, f"{what}: {k!r}", (Expr, Buffer, DType)) for k, v in attrs.items()}


def init() -> Scope:
    """What the first instance of a reduction does."""
    return Scope("init")


def attr(node: Any, key: str, value: Any) -> Scope:
    """An attribute around the statements that follow."""
    return Scope("attr", (node, key, _expr(value, "the value of T.attr") if not isinstance(value, str) else value))


def let_stmt(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> Scope:
    """``with T.LetStmt(value) as x``."""
    return Scope("LetStmt", (_expr(value, "the value of T.LetStmt"), var))


def assert_stmt(condition: Any, message: Any = "", *rest: Any) -> Scope:
    """``with T.Assert(condition, "message")``."""
    return Scope("Assert", (_expr(condition, "the condition of T.Assert"), str(message)))


def launch_thread(thread: Any, extent: Any) -> Scope:
    """A loop bound to a thread, over all that follows."""
    return Scope("launch_thread", (thread, _expr(extent, "the extent of T.launch_thread")))


def env_thread(tag: str) -> Scope:
    """A thread index named before it is launched."""
    return Scope("env_thread", (tag,))


def evaluate(value: Any) -> Note:
    """An expression for its effect."""
    return Note("evaluate", _expr(value, "the argument of T.evaluate"))


def bind(axis: Any, value: Any) -> Note:
    """The oldest dialect's binding of a block axis to a value."""
    return Note("bind", (axis, _expr(value, "the value of tir.bind")))


def legacy_axis(kind: str) -> Any:
    """``tir.reduce_axis(0, 128)`` in the domain list of the oldest dialect."""

    def make(start: Any, stop: Any = None) -> Axis:
        return Axis(kind, (start, stop) if stop is not None else start, None)

    return make


def bad_place(form: Any, expected: str) -> ProgramError:
    """The error for a form where it makes no sense."""
    return ProgramError(f"{describe(form)} cannot stand here; expected {expected}")
