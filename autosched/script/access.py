"""Access to buffers in program text: elements, regions, views and addresses."""

from __future__ import annotations

from typing import Any

from autosched.errors import suggest
from autosched.ir.expr import BinOp, BufferData, BufferLoad, Call, Expr, IntImm, as_int, binary, int_value, is_int, lanes, vector
from autosched.ir.simplify import simplify
from autosched.ir.stmt import Buffer, BufferRegion, Range
from autosched.script import ops

_ATTRIBUTES = ("data", "shape", "dtype", "strides", "elem_offset", "scope", "name", "ndim", "access_ptr", "vload")


class View:
    """A flat or reshaped name for the memory of a buffer, as lowered programs declare it: resolved at each access.

    Args:
        buffer: what holds the data.
        shape: extents under this name; as many elements as ``buffer``.
    """

    def __init__(self, name: str, buffer: Buffer, shape: tuple[Expr, ...]) -> None:
        self.name = name
        self.buffer = buffer
        self.shape = shape

    def indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The indices of ``buffer`` for indices of this view."""
        flat: Expr = IntImm(0)
        for i, extent in zip(indices, self.shape):
            flat = flat * extent + i
        result: list[Expr] = []
        for extent in reversed(self.buffer.shape[1:]):
            result.append(flat % extent)
            flat = flat // extent
        return (flat, *reversed(result))


def buffer_attribute(buffer: Buffer, name: str) -> Any:
    """``A.shape`` and its like."""
    if name == "data":
        return BufferData(buffer)
    if name in ("shape", "dtype", "scope", "name", "ndim", "axis_separators", "offset_factor"):
        return getattr(buffer, name)
    if name == "elem_offset":
        return buffer.elem_offset if buffer.elem_offset is not None else IntImm(0)
    if name == "strides":
        return buffer.strides or row_major(buffer.shape)
    if name == "access_ptr":
        return lambda *args, **kwargs: access_ptr(buffer, *args, **kwargs)
    if name == "vload":
        return lambda begin, dtype=None: access(buffer, tuple(begin))
    raise AttributeError(f"a buffer has no attribute {name!r}{suggest(name, _ATTRIBUTES)}")


def access(owner: Buffer | View, index: tuple[Any, ...]) -> BufferLoad | BufferRegion:
    """A load or, with a slice among the indices, a region."""
    shape = owner.shape
    if len(index) != len(shape):
        raise IndexError(f"buffer {owner.name} has {len(shape)} dimensions, {len(index)} indices given")
    if any(isinstance(i, slice) for i in index):
        if isinstance(owner, View):
            raise TypeError(f"{owner.name} is a reshaped view; it has no regions")
        return BufferRegion(owner, tuple(_range(i, s) for i, s in zip(index, shape)))
    exprs = tuple(ops.operand(i) for i in index)
    for e in exprs:
        if not is_int(e.dtype):
            raise TypeError(f"index of buffer {owner.name} must be an integer, got {e.dtype}")
    if isinstance(owner, View):
        return BufferLoad(owner.buffer, owner.indices(exprs), owner.buffer.dtype)
    return BufferLoad(owner, exprs, vector(owner.dtype, max([lanes(e.dtype) for e in exprs], default=1)))


def _range(index: Any, extent: Expr) -> Range:
    if not isinstance(index, slice):
        e = ops.operand(index)
        return Range(e, IntImm(1, e.dtype))
    if index.step is not None and index.step != 1:
        raise TypeError("a region has no step")
    lo = IntImm(0, extent.dtype) if index.start is None else ops.operand(index.start)
    hi = extent if index.stop is None else ops.operand(index.stop)
    if isinstance(lo, IntImm) and lo.dtype != hi.dtype:
        lo = IntImm(lo.value, hi.dtype)
    elif isinstance(hi, IntImm) and lo.dtype != hi.dtype:
        hi = IntImm(hi.value, lo.dtype)
    return Range(lo, difference(hi, lo))


def difference(hi: Expr, lo: Expr) -> Expr:
    """``hi - lo`` for the extent of a range; ``i + 4`` minus ``i`` is 4."""
    if isinstance(hi, IntImm) and isinstance(lo, IntImm):
        return IntImm(hi.value - lo.value, hi.dtype)
    if isinstance(lo, IntImm) and lo.value == 0:
        return hi
    # What the printer wrote as min + extent gives back exactly that extent.
    if isinstance(hi, BinOp) and hi.op == "+" and hi.a == lo:
        return hi.b
    return simplify(binary("-", hi, lo))


def domain_of(lo: Expr, hi: Expr, step: int) -> Range:
    """The domain of the loop of a range: from its start, or from 0 as many steps as there are."""
    if step == 1:
        return Range(lo, difference(hi, lo))
    span, by = (difference(hi, lo), step) if step > 0 else (difference(lo, hi), -step)
    n = int_value(span)
    extent = simplify((span + (by - 1)) // by) if n is None else IntImm(max(0, -(-n // by)), span.dtype)
    return Range(IntImm(0, extent.dtype), extent)


def row_major(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The strides of a compact buffer."""
    strides: list[Expr] = []
    size: Expr = IntImm(1)
    for extent in reversed(shape):
        strides.append(size)
        size = size * extent
    return tuple(reversed(strides))


def access_ptr(buffer: Buffer, access_mask: Any = "rw", ptr_type: Any = "handle", content_lanes: int = 1,
               offset: Any = 0, extent: Any = None) -> Expr:
    """``A.access_ptr("r")``: the address of a buffer with how it is used (1 read, 2 written, 3 both)."""
    mask = access_mask
    if isinstance(mask, str):
        unknown = set(mask) - {"r", "w"}
        if unknown:
            raise ValueError(f"access_ptr takes 'r', 'w' or 'rw', got {access_mask!r}")
        mask = ("r" in mask) + 2 * ("w" in mask)
    size: Expr = IntImm(1)
    for e in buffer.shape:
        size = size * e
    start = ops.operand(offset)
    if buffer.elem_offset is not None:
        start = buffer.elem_offset + start
    if extent is None:
        extent = size - ops.operand(offset)
    kind = Call("type_annotation", (), buffer.dtype)
    flags = IntImm(as_int(ops.operand(mask), "access_ptr's mask"))
    return Call("tvm_access_ptr", (kind, BufferData(buffer), start, ops.operand(extent), flags), "handle")
