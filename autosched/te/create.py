"""From tensor definitions to a program: one block per computation, in order of dependence."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.errors import ProgramError
from autosched.ir.expr import BinOp, Expr, IntImm, Reduce, Var, binary, if_then_else, is_int
from autosched.ir.functor import Mutator, Substitute, free_vars, walk_expr
from autosched.ir.region import access_regions
from autosched.ir.repeated import warn_repeated
from autosched.ir.simplify import simplify
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    For,
    IterVar,
    PrimFunc,
    Range,
    Stmt,
    make_root,
    seq,
)
from autosched.ir.verify import misfit
from autosched.te.reduction import COMBINE, identity
from autosched.te.tensor import Axis, Tensor


def create_prim_func(
    args: Sequence[Tensor | Var], index_dtype_override: str | None = None, name: str = "main"
) -> PrimFunc:
    """The program that computes tensors.

    Each computation becomes a block that bears its tensor's name, with iterators ``v_<axis>`` inside loops named after
    the axes, spatial ones first; a reduction gets an init. What is not among ``args`` is allocated at the root.

    Args:
        args: the parameters: inputs, outputs, and scalar variables, in signature order.
        index_dtype_override: accepted for TVM's sake; must be None or ``int32``.
        name: the function's name.

    Raises:
        ProgramError: an input or a variable is missing among ``args``, or a constant does not fit its type.

    Warns where an addend of a sum depends on no reduction axis (a bias inside the sum): every term adds it again.
    """
    if index_dtype_override not in (None, "int32"):
        raise ProgramError(f"index_dtype_override={index_dtype_override!r}: give the shapes in that type instead")
    for a in args:
        if not isinstance(a, Tensor | Var):
            raise ProgramError(f"create_prim_func takes tensors and variables, got {type(a).__name__}")
    order = _order([a for a in args if isinstance(a, Tensor)])
    # A program owns its buffers, with names of their own, arguments first: one definition may be turned into several programs.
    named: set[str] = set()
    given = dict.fromkeys(a.buffer for a in args if isinstance(a, Tensor))
    every = dict.fromkeys([*given, *(t.buffer for t in order)])
    buffers = {b: Buffer(_fresh(b.name, named), b.shape, b.dtype, b.scope) for b in every}
    blocks: list[Stmt] = []
    allocs: list[Buffer] = []
    taken: set[str] = set()
    for tensor in order:
        if tensor.op.body is None:
            if tensor.buffer not in given:
                raise ProgramError(f"the input {tensor.name} is not among the arguments of create_prim_func")
            continue
        if tensor.buffer not in given:
            allocs.append(buffers[tensor.buffer])
        body = tensor.op.body
        constants = (misfit(e.value, e.dtype) for e in walk_expr(body) if type(e) is IntImm)
        fault = next((f for f in constants if f is not None), None)
        if fault is not None:
            raise ProgramError(f"{tensor.name}: {fault}")
        if isinstance(body, Reduce) and body.op == "sum":
            summed = tensor.op.reduce_axis
            names: dict[Var, str] = {a: a.name for a in summed}
            warn_repeated(tensor.name, body.source, names, [a.dom.extent for a in summed], stacklevel=2)
        blocks.append(_computation(tensor, buffers, taken))
    params = tuple(buffers[a.buffer] if isinstance(a, Tensor) else a for a in args)
    _check_variables(params, order)
    if not blocks:
        raise ProgramError("nothing to compute: every argument is an input")
    return PrimFunc(params, make_root(seq(*blocks), tuple(allocs)), name, {"tir.noalias": True})


def _order(tensors: Sequence[Tensor]) -> list[Tensor]:
    """All tensors, each after what it reads."""
    done: dict[Tensor, None] = {}
    stack: list[tuple[Tensor, bool]] = [(t, False) for t in reversed(tensors)]
    while stack:
        tensor, ready = stack.pop()
        if tensor in done:
            continue
        if ready:
            done[tensor] = None
            continue
        stack.append((tensor, True))
        stack.extend((i, False) for i in reversed(tensor.inputs) if i not in done)
    return list(done)


def _check_variables(params: Sequence[Buffer | Var], order: Sequence[Tensor]) -> None:
    bound = {p for p in params if isinstance(p, Var)}
    for p in params:
        if isinstance(p, Buffer):
            bound.update(v for s in p.shape for v in free_vars(s))
    for tensor in order:
        used = [v for s in tensor.shape for v in free_vars(s)]
        if tensor.op.body is not None:
            used += [v for v in free_vars(tensor.op.body) if not isinstance(v, Axis)]
        for v in used:
            if v not in bound:
                raise ProgramError(f"variable {v.name} of {tensor.name} is neither an argument nor an extent of one")


def _fresh(name: str, taken: set[str]) -> str:
    base, count = name, 0
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    taken.add(name)
    return name


class _Tidy(Mutator):
    """Simplifies indices, conditions and integer sums, as TVM does; products keep their factors in the order written."""

    def visit_expr(self, expr: Expr) -> Expr:
        if (is_int(expr.dtype) or expr.dtype == "bool") and not any(_product(e) for e in walk_expr(expr)):
            return simplify(expr)
        return super().visit_expr(expr)


def _product(e: Expr) -> bool:
    return isinstance(e, BinOp) and e.op == "*" and not isinstance(e.a, IntImm) and not isinstance(e.b, IntImm)


def _computation(tensor: Tensor, buffers: dict[Buffer, Buffer], taken: set[str]) -> Stmt:
    op = tensor.op
    body = op.body
    assert body is not None
    axes = (*op.axis, *op.reduce_axis)
    iters = tuple(IterVar(Var("v_" + a.name, a.dtype), a.dom, a.kind) for a in axes)
    loops = tuple(Var(a.name, a.dtype) for a in axes)
    rename = Substitute({a: iv.var for a, iv in zip(axes, iters)}, buffers)
    target = buffers[tensor.buffer]
    at = tuple(iv.var for iv in iters if iv.kind == "spatial")
    values: tuple[Expr, ...] = loops
    if not iters:
        # A tensor without dimensions still needs an instance.
        iters = (IterVar(Var("vi"), Range(IntImm(0), IntImm(1))),)
        values = (IntImm(0),)
    init: Stmt | None = None
    if isinstance(body, Reduce):
        start = identity(body.op, body.dtype)
        source = _Tidy().visit_expr(rename.visit_expr(body.source))
        if body.condition is not None:
            source = if_then_else(rename.visit_expr(body.condition), source, start)
        init = BufferStore(target, at, start)
        value = binary(COMBINE[body.op], target[at], source)
    else:
        value = _Tidy().visit_expr(rename.visit_expr(body))
    block = Block(_fresh(op.name, taken), iters, (), (), BufferStore(target, at, value), init,
                  annotations=dict(op.attrs or {}))
    reads, writes, _ = access_regions(block)
    block = Block(block.name, iters, reads, writes, block.body, init, annotations=block.annotations)
    stmt: Stmt = BlockRealize(values, TRUE, block)
    for v, a in reversed(list(zip(loops, axes))):
        stmt = For(v, a.dom.min, a.dom.extent, "serial", stmt)
    return stmt
