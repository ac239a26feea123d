"""What is under construction while a function is read: its parameters, its blocks, its buffers."""

from __future__ import annotations

import ast
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import ProgramError
from autosched.ir.constant import fault, of_numbers
from autosched.ir.expr import Expr, FloatImm, IntImm, Var, bits, cast, int_value, is_int, lanes, vector
from autosched.ir.functor import free_vars
from autosched.ir.print_expr import expr_text
from autosched.ir.region import access_regions
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Constant,
    Evaluate,
    For,
    IterVar,
    MatchBuffer,
    Range,
    Stmt,
    full_region,
    point,
    separator_fault,
    seq,
)
from autosched.script import ops
from autosched.script.access import View
from autosched.script.evaluate import Evaluator
from autosched.script.forms import Axis, BufferSpec, ConstantSpec, describe


@dataclass
class Memory:
    """What ``T.allocate`` returned: it becomes a buffer when ``T.Buffer(data=...)`` gives it a shape."""

    name: str
    spec: BufferSpec
    frame: BlockFrame
    buffer: Buffer | None = None


@dataclass
class BlockFrame:
    """A block while its lines are read; the function itself is the outermost."""

    name: str
    iter_vars: list[IterVar] = field(default_factory=list)
    values: list[Expr | None] = field(default_factory=list)
    reads: tuple[BufferRegion, ...] | None = None
    writes: tuple[BufferRegion, ...] | None = None
    predicate: Expr = TRUE
    attrs: dict[str, Any] = field(default_factory=dict)
    init: Stmt | None = None
    allocs: list[Buffer] = field(default_factory=list)
    matches: list[MatchBuffer] = field(default_factory=list)

    def axis(self, name: str, axis: Axis, loops: dict[Var, Range]) -> Var:
        """Adds a block iterator and returns its variable.

        Raises:
            TypeError: a domain that is none.
            ProgramError: a remapped variable that is no loop variable.
        """
        dom = domain(axis, loops)
        width = max(bits(dom.min.dtype), bits(dom.extent.dtype), bits(axis.dtype))
        var = Var(name, f"int{width}")
        self.iter_vars.append(IterVar(var, dom, axis.kind))
        self.values.append(axis.value)
        return var

    def realize(self, body: Stmt, is_root: bool = False) -> Stmt:
        """The finished block; what it reads and writes is derived where the text does not say.

        Raises:
            ProgramError: it must be derived, and a buffer is used by its address.
        """
        block = Block(
            self.name, tuple(self.iter_vars), self.reads or (), self.writes or (), body, self.init, tuple(self.allocs),
            tuple(self.matches), self.attrs,
        )
        if not is_root and (self.reads is None or self.writes is None):
            reads, writes, opaque = access_regions(block)
            if opaque:
                raise ProgramError(
                    f"block {self.name!r} uses the address of {opaque[0].buffer.name}, so what it reads and writes "
                    "must be stated: add T.reads(...) and T.writes(...)"
                )
            block = Block(
                block.name, block.iter_vars, reads if self.reads is None else self.reads,
                writes if self.writes is None else self.writes, body, self.init, block.alloc_buffers,
                block.match_buffers, self.attrs,
            )
        return self._realize_at_loops(block)

    def _realize_at_loops(self, block: Block) -> Stmt:
        if any(v is None for v in self.values) and any(v is not None for v in self.values):
            raise ProgramError(f"block {self.name!r} binds some of its axes and not others")
        if self.values and self.values[0] is None:
            # The oldest dialect: a block without bindings stands for itself inside one loop per axis.
            loops = [Var(f"i{k}", iv.var.dtype) for k, iv in enumerate(block.iter_vars)]
            nest: Stmt = BlockRealize(tuple(loops), self.predicate, block)
            for var, iv in reversed(list(zip(loops, block.iter_vars))):
                nest = For(var, iv.dom.min, iv.dom.extent, "serial", nest)
            return nest
        return BlockRealize(tuple(v for v in self.values if v is not None), self.predicate, block)


def domain(axis: Axis, loops: dict[Var, Range]) -> Range:
    """The domain of a block axis: stated, or that of the loop whose variable it takes."""
    if axis.dom is None:
        assert isinstance(axis.value, Var)
        found = loops.get(axis.value)
        if found is None:
            raise ProgramError(f"T.axis.remap: {axis.value.name} is not the variable of an enclosing loop")
        return found
    if isinstance(axis.dom, tuple | list):
        if len(axis.dom) != 2:
            raise TypeError("the domain of a block axis is an extent or a pair (first, one past the last)")
        lo, hi = (ops.operand(d) for d in axis.dom)
        from autosched.script.access import difference

        if isinstance(lo, IntImm) and lo.dtype != hi.dtype:
            lo = IntImm(lo.value, hi.dtype)
        return Range(lo, difference(hi, lo))
    if isinstance(axis.dom, Axis):
        return domain(axis.dom, loops)
    extent = ops.operand(axis.dom)
    if extent in loops and axis.value is not None and not any(v in loops for v in free_vars(axis.value)):
        raise ProgramError(
            f"T.axis.{axis.kind} takes the extent first, then the value: expected "
            f"T.axis.{axis.kind}({expr_text(axis.value)}, {expr_text(extent)})"
        )
    return Range(IntImm(0, extent.dtype), extent)


def to_region(value: Any) -> BufferRegion:
    """A region given as an element, a slice or a whole buffer.

    Raises:
        TypeError: it is none of these.
    """
    from autosched.ir.expr import BufferLoad

    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, BufferLoad):
        return point(value.buffer, value.indices)
    if isinstance(value, Buffer):
        return full_region(value)
    raise TypeError(f"expected a buffer or a part of one, such as A[i, 0:16], got {describe(value)}")


class BufferMaker:
    """Turns descriptions into buffers; knows the variables that shapes may introduce.

    Args:
        ev: evaluates shapes given as strings.
    """

    def __init__(self, ev: Evaluator) -> None:
        self.ev = ev
        self.symbols: dict[str, Var] = {}
        self.declared: dict[str, str] = {}

    def make(self, name: str, spec: BufferSpec, node: ast.AST) -> Buffer:
        """The buffer of a description, named."""
        with self.ev.at(node):
            shape = tuple(self._extent(s, node) for s in spec.shape)
            for d, extent in enumerate(shape):
                if not is_int(extent.dtype):
                    raise TypeError(f"dimension {d} of buffer {name} must be an integer, got {extent.dtype}")
                if isinstance(extent, IntImm) and extent.value < 0:
                    raise ValueError(f"dimension {d} of buffer {name} is {extent.value}; an extent is not negative")
            index = shape[0].dtype if shape else "int32"
            strides = tuple(Var(s, index) if isinstance(s, str) else ops.operand(s) for s in spec.strides)
            offset = spec.elem_offset
            if isinstance(offset, str):
                offset = Var(offset, index)
            elif offset is not None:
                offset = ops.operand(offset)
                if int_value(offset) == 0:
                    offset = None  # The default; stating it makes no other buffer.
            elif spec.offset_factor > 0:
                offset = Var(f"{name}_elem_offset", index)
            fault = separator_fault(spec.axis_separators, len(shape))
            if fault is not None:
                raise ValueError(f"{fault} of buffer {name}")
            return Buffer(
                name, shape, ops.dtype_name(spec.dtype), spec.scope, spec.axis_separators, strides, offset,
                spec.offset_factor, spec.align,
            )

    def constant(self, name: str, spec: ConstantSpec, node: ast.AST) -> Constant:
        """The constant of a description, named.

        Raises:
            ProgramError: elements that do not fit its shape and type.
        """
        buffer = self.make(name, spec.buffer, node)
        with self.ev.at(node):
            if isinstance(spec.data, str):
                try:
                    made = Constant(buffer, b64decode(spec.data, validate=True))
                except ValueError:
                    raise ProgramError(f"the elements of constant {name} are not in base 64") from None
                wrong = fault(made)
                if wrong is not None:
                    raise ProgramError(wrong)
                return made
            return of_numbers(buffer, [_number(n) for n in spec.data])

    def _extent(self, value: Any, node: ast.AST) -> Expr:
        if not isinstance(value, str):
            return ops.operand(value)
        # A quoted extent introduces the variables that it names, in the manner of a pattern.
        try:
            tree = ast.parse(value, mode="eval").body
        except SyntaxError as error:
            raise ValueError(f"the extent {value!r} is not an expression") from error
        for n in ast.walk(tree):
            if isinstance(n, ast.Name) and not self.ev.scopes.find(n.id)[0]:
                var = Var(n.id, self.declared.get(n.id, "int32"))
                self.symbols[n.id] = var
                self.ev.scopes.define(n.id, var)
        return self.ev.expr(tree)

    def over(self, name: str, spec: BufferSpec, node: ast.AST) -> Buffer | View:
        """A buffer declared over existing memory: the buffer itself, or a reshaped view of it."""
        from autosched.ir.expr import BufferData

        made = self.make(name, spec, node)
        source = spec.source
        if isinstance(source, Memory):
            if source.buffer is None:
                scoped = BufferSpec("alloc", spec.shape, spec.dtype, source.spec.scope)
                source.buffer = self.make(source.name, scoped, node)
                source.frame.allocs.append(source.buffer)
                return source.buffer
            source = source.buffer
        elif isinstance(source, BufferData):
            source = source.buffer
        with self.ev.at(node):
            if not isinstance(source, Buffer):
                raise TypeError(f"data= must be the .data of a buffer or an allocation, got {describe(spec.source)}")
            if source.dtype != made.dtype:
                raise TypeError(
                    f"{name} takes {source.name} as {made.dtype} instead of {source.dtype}; only the shape may change"
                )
            if made.shape == source.shape:
                return source
            if _size(made.shape) != _size(source.shape) or _size(made.shape) is None:
                raise TypeError(f"{name} and {source.name} do not have the same number of elements")
            return View(name, source, made.shape)


def declared_types(nodes: Sequence[ast.stmt]) -> dict[str, str]:
    """The types in lines such as ``n, m = T.int64(), T.int64()``.

    TVM quotes a symbolic extent in the signature and states its type in the body.
    """
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            many = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            names = target.elts if many and isinstance(target, ast.Tuple) else [target]
            values = value.elts if many and isinstance(value, ast.Tuple) else [value]
            for n, v in zip(names, values):
                if isinstance(n, ast.Name) and isinstance(v, ast.Call) and not v.args and isinstance(v.func, ast.Attribute):
                    found[n.id] = v.func.attr
    return {n: t for n, t in found.items() if t in ("int32", "int64")}


def _number(value: Any) -> Any:
    return value.value if isinstance(value, IntImm | FloatImm) else value


def _size(shape: Sequence[Expr]) -> int | None:
    size = 1
    for extent in shape:
        value = int_value(extent)
        if value is None:
            return None
        size *= value
    return size


def finish(stmts: list[Stmt]) -> Stmt:
    """The statements of a suite as one; an empty suite does nothing."""
    return seq(*stmts) if stmts else Evaluate(IntImm(0))


def store(target: Any, indices: tuple[Expr, ...], value: Expr) -> BufferStore:
    """``A[i] = value``; the value takes the buffer's type."""
    if isinstance(target, View):
        target, indices = target.buffer, target.indices(indices)
    dtype = vector(target.dtype, max([lanes(i.dtype) for i in indices], default=1))
    if lanes(value.dtype) != lanes(dtype):
        if lanes(value.dtype) == 1:
            raise TypeError(f"{target.name} takes {dtype} here, got {value.dtype}; write T.Broadcast(value, {lanes(dtype)})")
        raise TypeError(f"{target.name} takes {dtype} here, got {value.dtype}")
    return BufferStore(target, indices, cast(dtype, value))
