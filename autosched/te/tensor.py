"""Tensors and the operations that define them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import NotSupportedError, ProgramError
from autosched.ir.depth import TOO_DEEP, too_deep
from autosched.ir.expr import BufferLoad, Expr, ExprLike, IntImm, Reduce, Var, as_expr
from autosched.ir.functor import expr_children, walk_expr
from autosched.ir.stmt import Buffer, IterVar, Range

Shape = Sequence[ExprLike] | ExprLike


UNIT = Range(IntImm(0), IntImm(1))


@dataclass(frozen=True, eq=False, slots=True)
class Axis(Var):
    """An axis of a computation: a variable with its domain.

    Args:
        name: what is printed, and the name of its loop.
        dtype: index type.
        dom: its values.
        kind: ``spatial`` or ``reduce``.
    """

    dom: Range = UNIT
    kind: str = "spatial"

    @property
    def var(self) -> Axis:
        """The variable itself, for code written for TVM."""
        return self

    def iter_var(self) -> IterVar:
        """This axis as the IR's iterator."""
        return IterVar(self, self.dom, self.kind)


@dataclass(frozen=True, eq=False)
class Operation:
    """What defines a tensor.

    Args:
        name: of the tensor and of its block.
        axis: spatial axes, one per dimension; empty for a placeholder.
        body: the value of one element; None for a placeholder.
        tag: free text; kept, and without effect.
        attrs: annotations of the block.
    """

    name: str
    axis: tuple[Axis, ...] = ()
    body: Expr | None = None
    tag: str = ""
    attrs: Mapping[str, Any] | None = None

    @property
    def reduce_axis(self) -> tuple[Axis, ...]:
        """The reduction axes, in the order in which they were given."""
        if isinstance(self.body, Reduce):
            return tuple(a.var for a in self.body.axes if isinstance(a, IterVar) and isinstance(a.var, Axis))
        return ()


@dataclass(frozen=True, eq=False)
class Tensor:
    """An N-dimensional value; ``A[i, j]`` or ``A(i, j)`` is one element.

    Args:
        buffer: name, shape and type.
        op: what defines it.
        inputs: the tensors that its body reads, in order of appearance.
    """

    buffer: Buffer
    op: Operation
    inputs: tuple[Tensor, ...] = ()

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self.buffer.name

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The extents."""
        return self.buffer.shape

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.buffer.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.buffer.shape)

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Element:
        load = self.buffer[indices]
        return Element(load.buffer, load.indices, load.dtype, self)

    def __call__(self, *indices: ExprLike) -> Element:
        return self[indices]

    def __repr__(self) -> str:
        return f"Tensor({self.name}, {[i.value if isinstance(i, IntImm) else i for i in self.shape]}, {self.dtype})"


@dataclass(frozen=True, slots=True)
class Element(BufferLoad):
    """An element of a tensor; it knows which, so that a body names its inputs."""

    tensor: Tensor


def _shape(shape: Shape) -> tuple[Expr, ...]:
    dims = shape if isinstance(shape, list | tuple) else (shape,)
    return tuple(as_expr(s) for s in dims)


def placeholder(shape: Shape, dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """An input tensor.

    Args:
        shape: extents; numbers or variables.
        dtype: element type.
        name: its name.
    """
    return Tensor(Buffer(name, _shape(shape), dtype), Operation(name))


def var(name: str = "v", dtype: str = "int32") -> Var:
    """A symbolic scalar, for example an extent."""
    return Var(name, dtype)


def reduce_axis(dom: tuple[ExprLike, ExprLike] | Range | ExprLike, name: str = "rv") -> Axis:
    """An axis to reduce over.

    Args:
        dom: (first, one past the last), a ``Range``, or an extent.
        name: its name and that of its loop.

    Raises:
        ProgramError: the domain is none of these.
    """
    if isinstance(dom, Range):
        return Axis(name, dom.extent.dtype, dom, "reduce")
    if isinstance(dom, tuple | list):
        if len(dom) != 2:
            raise ProgramError(f"reduce_axis {name}: expected (first, one past the last), got {len(dom)} values")
        first, end = as_expr(dom[0]), as_expr(dom[1])
        if isinstance(first, IntImm) and first.dtype != end.dtype:
            first = IntImm(first.value, end.dtype)
        return Axis(name, end.dtype, Range(first, end - first), "reduce")
    extent = as_expr(dom)
    return Axis(name, extent.dtype, Range(IntImm(0, extent.dtype), extent), "reduce")


def compute(
    shape: Shape, fcompute: Callable[..., Any], name: str = "compute", tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor:
    """A tensor defined element by element.

    Args:
        shape: extents.
        fcompute: the value of the element at given indices; the names of its parameters become those of the loops.
        name: of the tensor, and of its block.
        tag: free text.
        attrs: annotations of the block.

    Raises:
        ProgramError: the function does not fit the shape, or its value is not a scalar.
        NotSupportedError: a tuple of values, or a reduction inside a larger expression.
    """
    extents = _shape(shape)
    names = _axis_names(fcompute, len(extents), name)
    axes = tuple(Axis(n, e.dtype, Range(IntImm(0, e.dtype), e)) for n, e in zip(names, extents))
    value = fcompute(*axes)
    if isinstance(value, tuple | list):
        raise NotSupportedError(f"compute {name}: several values in one computation; define one tensor for each")
    if isinstance(value, bool):
        raise ProgramError(f"compute {name}: the function returned Python's {value}: == and != compare expressions as objects; "
                           "write te.equal(a, b)")
    if not isinstance(value, Expr | int | float):
        what = type(value).__name__
        if isinstance(value, Tensor):
            what = f"the tensor {value.name}; take an element, as in {value.name}[...]"
        raise ProgramError(f"compute {name}: the function must return a scalar expression, it returned {what}")
    body = as_expr(value)
    if too_deep(body):
        raise ProgramError(f"compute {name}: {TOO_DEEP}")
    inner = list(walk_expr(body))
    if any(isinstance(e, Reduce) for e in inner[1:]):
        raise NotSupportedError(
            f"compute {name}: a reduction must be the whole value; define it as a tensor of its own, and use that"
        )
    _check_axes(name, inner, axes, body)
    inputs = dict.fromkeys(_inputs(body))
    op = Operation(name, axes, body, tag, attrs)
    return Tensor(Buffer(name, extents, body.dtype), op, tuple(inputs))


def _axis_names(fcompute: Callable[..., Any], ndim: int, name: str) -> list[str]:
    params = inspect.signature(fcompute).parameters.values()
    names = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind == p.VAR_POSITIONAL for p in params):
        return [f"i{k}" for k in range(ndim)]
    if len(names) != ndim:
        raise ProgramError(f"compute {name}: the function takes {len(names)} indices, the shape has {ndim} dimensions")
    return names


def _check_axes(name: str, nodes: list[Expr], axes: tuple[Axis, ...], body: Expr) -> None:
    known = set(axes)
    if isinstance(body, Reduce):
        known |= {a.var for a in body.axes if isinstance(a, IterVar) and isinstance(a.var, Axis)}
    for e in nodes:
        if isinstance(e, Axis) and e not in known:
            kind = "reduction axis" if e.kind == "reduce" else "axis"
            hint = "use it in te.sum(..., axis=...)" if e.kind == "reduce" else "it belongs to another computation"
            raise ProgramError(f"compute {name}: the {kind} {e.name} is not one of its own; {hint}")


def _inputs(e: Expr) -> list[Tensor]:
    """The tensors of an expression, those in indices before the one that they index, left to right."""
    found = [t for child in expr_children(e) for t in _inputs(child)]
    if isinstance(e, Element):
        found.append(e.tensor)
    return found
