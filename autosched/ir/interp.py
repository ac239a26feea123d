"""The interpreter: the meaning of any program, at any stage of scheduling, on NumPy arrays.

It is the oracle of every test, so it is strict: integers wrap in their dtype, floats round in theirs, narrowing keeps
the low bits, an index outside its buffer or an iterator outside its domain is an error, and statements run in program
order. A program is compiled to code of a small register machine (``interp_machine``) in about a millisecond; loops of
multiply-accumulate run at native speed. Memory that nothing has written holds a pattern (NaN for floats) that shows in
results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import ProgramError
from autosched.ir.constant import values
from autosched.ir.depth import shallow
from autosched.ir.expr import Expr, Var, int_value, is_float
from autosched.ir.functor import substitute, walk
from autosched.ir.stmt import Block, Buffer, BufferStore, PrimFunc

if TYPE_CHECKING:
    from autosched.ir.interp_stmt import Compiler


@dataclass(frozen=True)
class Extern:
    """What a ``call_extern`` means.

    Args:
        desc: a function that does the same, one buffer parameter per pointer.
        order: for each pointer argument of the call, the index of the parameter of ``desc`` that it is.
        others: meanings of the same name for operands of other shapes.
    """

    desc: PrimFunc
    order: tuple[int, ...]
    others: tuple[Extern, ...] = ()

    def shapes(self) -> list[tuple[Expr, ...]]:
        """The shape of each pointer argument."""
        buffers = self.desc.buffers
        return [buffers[k].shape for k in self.order]

    def fitting(self, shapes: Sequence[tuple[Expr, ...] | None]) -> Extern:
        """The meaning whose operands have these shapes (None: not known), or this one where none does."""
        return next((m for m in (self, *self.others) if m.shapes() == list(shapes)), self)


_EXTERNS: dict[str, Extern] = {}
_POISON = 0xA5


class Outputs(tuple[np.ndarray[Any, Any], ...]):
    """The arrays that a program wrote, in signature order; also by parameter name: ``outputs["C"]``."""

    names: tuple[str, ...]

    def __new__(cls, arrays: Sequence[np.ndarray[Any, Any]], names: Sequence[str]) -> Outputs:
        self = super().__new__(cls, arrays)
        self.names = tuple(names)
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self), self.names

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                from autosched.errors import UnknownNameError

                raise UnknownNameError("output", key, self.names)
            return super().__getitem__(self.names.index(key))
        return super().__getitem__(key)


def register_call(name: str, desc: PrimFunc, arg_order: Sequence[int | str] | None = None) -> None:
    """Gives ``call_extern("...", name, pointers...)`` a meaning.

    Args:
        name: the external function; one name may have a meaning per shape of its operands.
        desc: a program that does the same; one buffer parameter per pointer.
        arg_order: for each pointer argument of the call, the parameter of ``desc`` that it is (index or name); default:
            in order.

    Raises:
        ProgramError: ``arg_order`` does not name each parameter once.
    """
    names = [b.name for b in desc.buffers]
    order = (
        list(range(len(names)))
        if arg_order is None
        else [names.index(a) if a in names else -1 if isinstance(a, str) else a for a in arg_order]
    )
    if sorted(order) != list(range(len(names))):
        raise ProgramError(
            f"the argument order of {name} must name each of its parameters {', '.join(names)} once, got {arg_order}"
        )
    new = Extern(desc, tuple(order))
    known = _EXTERNS.get(name)
    rest = () if known is None else (replace(known, others=()), *known.others)
    _EXTERNS[name] = replace(new, others=tuple(m for m in rest if m.shapes() != new.shapes()))


def written(func: PrimFunc) -> tuple[Buffer, ...]:
    """The tensor parameters that a program may write, in signature order."""
    targets: set[Buffer] = set()
    views: dict[Buffer, Buffer] = {}
    opaque: set[Buffer] = set()
    for node in walk(func.body):
        if isinstance(node, BufferStore):
            targets.add(node.buffer)
        elif isinstance(node, Block):
            views.update({x.buffer: x.source.buffer for x in node.match_buffers})
            opaque.update(r.buffer for r in node.writes)
    for buffer in (*targets, *opaque):
        while buffer in views:
            buffer = views[buffer]
            targets.add(buffer)
    return tuple(b for b in func.buffers if b in targets or b in opaque)


@shallow()
def run(
    func: PrimFunc, *arrays: Any, symbols: Mapping[str | Var, int] | None = None, pattern: int = _POISON
) -> Outputs:
    """Runs a program.

    Args:
        func: the program, at any stage.
        arrays: one NumPy array per tensor parameter, of its exact shape and dtype, and one integer per scalar parameter
            that neither ``symbols`` nor a shape determines. Parameters that the program writes may be left out (all of
            them) or be None; then they start as zeros. Arrays given for them are written in place.
        symbols: values of symbolic extents by name or variable; those in the shapes of given arrays are found by
            themselves.
        pattern: the byte of which allocated memory is full at the start (floats start as NaN). A program that gives
            other results under another one reads what it has not stored.

    Returns:
        The written arrays, by position or parameter name.

    Raises:
        ProgramError: arguments that do not fit, an index or iterator out of range, a division by zero, a failed
            assertion, an unknown external function.
        NotSupportedError: an intrinsic or type without a meaning here.
    """
    from autosched.ir.interp_machine import execute
    from autosched.ir.interp_stmt import Compiler

    outputs = written(func)
    bound, scalars = _bind(func, arrays, outputs, symbols or {})
    compiler = Compiler(_EXTERNS)
    from autosched.ir.interp_code import constant

    compiler.env.update({v: constant(x) for v, x in scalars.items()})
    for buffer, array in bound.items():
        compiler.place(buffer, array.shape)
    known = {c.buffer: values(c) for c in func.constants}
    for buffer, array in known.items():
        compiler.place(buffer, array.shape)
    compiler.where = f"function {func.name}"
    compiler.stmt(func.body)
    em = compiler.em
    em.emit(-1)
    memory = _arena(compiler, {**bound, **known}, pattern)
    code = np.array(em.scopes[0].rows, dtype=np.int64)
    ints = np.zeros(em.n_int, dtype=np.int64)
    for reg, value in em.ints.items():
        ints[reg] = value
    floats = np.zeros(em.n_float + 1, dtype=np.float64)
    for reg, real in em.floats.items():
        floats[reg] = real
    types = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.float32, np.float64)
    with np.errstate(all="ignore"):
        row = int(execute(code, ints, floats, *[memory.view(t) for t in types]))
    if row >= 0:
        raise ProgramError(em.sites[int(code[row, 5])].replace("{}", str(int(ints[0]))))
    for buffer in outputs:
        bound[buffer][...] = _slice(compiler, memory, buffer, bound[buffer])
    return Outputs([bound[b] for b in outputs], [b.name for b in outputs])


def random_inputs(func: PrimFunc, seed: int = 0) -> tuple[np.ndarray[Any, Any], ...]:
    """Random arrays for the parameters that a program only reads, uniform over their declared value ranges.

    Args:
        func: a program with constant shapes.
        seed: of ``numpy.random.default_rng``.

    Returns:
        One array per tensor parameter that is not written, in signature order; floats are in [-1, 1).
    """
    rng = np.random.default_rng(seed)
    skip = written(func)
    out = []
    for k, param in enumerate(func.params):
        if not isinstance(param, Buffer) or param in skip:
            continue
        shape = tuple(_extent(param, e, {}) for e in param.shape)
        out.append(random_array(rng, shape, param.dtype, func.value_ranges[k] if k < len(func.value_ranges) else None))
    return tuple(out)


def random_array(
    rng: np.random.Generator,
    shape: Sequence[int],
    dtype: str,
    bounds: tuple[int, int] | None = None,
) -> np.ndarray[Any, Any]:
    """A random array, uniform over ``bounds`` (inclusive) or the whole range of its dtype; floats in [-1, 1)."""
    if is_float(dtype):
        return rng.uniform(-1, 1, shape).astype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    low, high = bounds if bounds is not None else (int(info.min), int(info.max))
    return rng.integers(low, high, shape, dtype=np.dtype(dtype), endpoint=True)


def _bind(
    func: PrimFunc,
    arrays: Sequence[Any],
    outputs: Sequence[Buffer],
    symbols: Mapping[str | Var, int],
) -> tuple[dict[Buffer, np.ndarray[Any, Any]], dict[Var, int]]:
    scalars: dict[Var, int] = {}
    by_name = {str(k.name if isinstance(k, Var) else k): int(v) for k, v in symbols.items()}
    for var in _shape_vars(func):
        if var.name in by_name:
            scalars[var] = by_name[var.name]
    queue = list(arrays)
    tensors = func.buffers
    given = sum(1 for a in queue if not isinstance(a, int | np.integer))
    if given not in (len(tensors), len(tensors) - len(outputs)):
        names = ", ".join(b.name for b in tensors)
        less = f" (or {len(tensors) - len(outputs)}, without {', '.join(b.name for b in outputs)})" if outputs else ""
        raise ProgramError(f"function {func.name} takes {len(tensors)} arrays: {names}{less}; got {given}")
    whole = given == len(tensors)
    slots: dict[Buffer, Any] = {}
    for param in func.params:
        if isinstance(param, Buffer):
            slots[param] = queue.pop(0) if whole or param not in outputs else None
        elif queue and isinstance(queue[0], int | np.integer):
            scalars[param] = int(queue.pop(0))
    for buffer, given_array in slots.items():
        if given_array is not None:
            slots[buffer] = _checked(func, buffer, given_array, buffer in outputs)
            for extent, size in zip(buffer.shape, slots[buffer].shape):
                if isinstance(extent, Var):
                    if scalars.setdefault(extent, size) != size:
                        raise ProgramError(
                            f"{buffer.name}: extent {extent.name} is {size} here and {scalars[extent]} elsewhere"
                        )
    bound: dict[Buffer, np.ndarray[Any, Any]] = {}
    for buffer, array in slots.items():
        shape = tuple(_extent(buffer, e, scalars) for e in buffer.shape)
        if array is None:
            array = np.zeros(shape, dtype=buffer.dtype)
        elif array.shape != shape:
            raise ProgramError(f"{buffer.name}: expected shape {shape}, got {array.shape}")
        bound[buffer] = array
    for param in func.params:
        if isinstance(param, Var) and param not in scalars:
            raise ProgramError(
                f"function {func.name}: scalar {param.name} has no value; "
                f"pass it or give symbols={{'{param.name}': ...}}"
            )
    return bound, scalars


def _checked(func: PrimFunc, buffer: Buffer, array: Any, output: bool) -> np.ndarray[Any, Any]:
    if not isinstance(array, np.ndarray):
        raise ProgramError(f"function {func.name}: {buffer.name} must be a NumPy array, got {type(array).__name__}")
    if array.dtype != np.dtype(buffer.dtype):
        raise ProgramError(f"function {func.name}: {buffer.name} must be {buffer.dtype}, got {array.dtype}")
    if array.ndim != buffer.ndim:
        raise ProgramError(
            f"function {func.name}: {buffer.name} has {buffer.ndim} dimensions, the array has {array.ndim}"
        )
    if output and not array.flags.writeable:
        raise ProgramError(f"function {func.name}: {buffer.name} is written, and the array is read-only")
    return array


def _shape_vars(func: PrimFunc) -> list[Var]:
    from autosched.ir.functor import free_vars

    found: dict[Var, None] = {}
    for param in func.params:
        for expr in param.shape if isinstance(param, Buffer) else (param,):
            found.update(free_vars(expr))
    return list(found)


def _extent(buffer: Buffer, extent: Expr, scalars: Mapping[Var, int]) -> int:
    from autosched.ir.expr import IntImm

    value = int_value(substitute(extent, {v: IntImm(x, v.dtype) for v, x in scalars.items()}))
    if value is None:
        raise ProgramError(f"the shape of {buffer.name} is not determined by the arrays; give symbols=")
    return value


def _arena(compiler: Compiler, bound: Mapping[Buffer, np.ndarray[Any, Any]], pattern: int) -> np.ndarray[Any, Any]:
    """The memory of a run: parameters copied in, everything else a pattern."""
    memory = np.full(max(compiler.size, 64), pattern, dtype=np.uint8)
    for offset, size, dtype in compiler.roots:
        if is_float(dtype):
            memory[offset : offset + size].view(dtype)[...] = np.nan
    for buffer, array in bound.items():
        _slice(compiler, memory, buffer, array)[...] = array
    return memory


def _slice(
    compiler: Compiler, memory: np.ndarray[Any, Any], buffer: Buffer, like: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    offset, size, dtype = compiler.roots[compiler.views[buffer].root]
    return memory[offset : offset + size].view(dtype).reshape(like.shape)
