"""Extrema of several shifts of one operand, of two halves that overlap: what is compared twice does no harm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from autosched.ir.expr import BinOp, Expr, binary
from autosched.ir.functor import expr_children
from autosched.ir.stmt import Block, BlockRealize, Stmt
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.windows import EXTREMA, Shifted


class Overlaps(ScheduleBase):
    """The primitive for extrema of shifts."""

    @primitive
    def overlap_extrema(self, block: BlockRV | str, paths: Sequence[Sequence[int]]) -> BlockRV:
        """Takes the extremum of shifts of one operand from two halves that overlap, which a stage makes once for all places.

        Of n shifts the half has n / 2, rounded up, or more where the iterator is too short for the second half to begin so far
        on. Repeated on the stage, an extremum of n takes about log2(n) comparisons.

        Args:
            block: handle or name of a block alone in its loops that stores one element of each iteration, a minimum or maximum.
            paths: three or more of its operands, each as ``decompose_value`` takes it, which are one operand with one and the
                same iterator moved on, by equal steps.

        Returns:
            The block of the stage; its buffer is that of the block, longer by the shift of the second half.

        Raises:
            ScheduleError: no such operands; steps that differ; a step longer than the iterator.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(T.max(A[vi], A[vi + 1]), A[vi + 2])

        After ``sch.overlap_extrema("C", [[0, 0], [0, 1], [1]])``::

            C_part = T.sblock_alloc_buffer((17,), "int32")
            for i in range(17):
                with T.sblock("C_part"):
                    vi = T.axis.spatial(17, i)
                    C_part[vi] = T.max(A[vi], A[vi + 1])
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(C_part[vi], C_part[vi + 1])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _overlapped(state, realize, [[int(p) for p in path] for path in paths])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


def _overlapped(state: State, realize: BlockRealize, paths: list[list[int]]) -> tuple[Stmt, Block]:
    parts = Shifted(state, realize, paths)
    block, value = parts.block, parts.store.value
    op = value.op if isinstance(value, BinOp) else ""
    operands = _operands(value, op) if op in EXTREMA else {}
    for path in paths:
        if tuple(path) not in operands:
            raise Refusal(f"{path} is the path of no operand of a minimum or maximum that block {block.name} stores",
                          [block.ident], code="form")
    inner = sorted(parts.shifts)
    steps = {b - a for a, b in pairwise(inner)}
    if len(paths) < 3 or len(steps) != 1:
        raise Refusal(f"the operands of block {block.name} are at {', '.join(map(str, inner))}; to overlap there are three at "
                      "least, in equal steps", [block.ident], "share_value takes two", code="argument")
    step = steps.pop()
    half = max(-(-len(paths) // 2), len(paths) - max(1, parts.count // step))
    at = dict(zip(parts.shifts, paths))
    stage: Expr = parts.base
    for n in range(1, half):
        stage = binary(op, stage, operands[tuple(at[n * step])])
    shifts = (0, (len(paths) - half) * step)
    rest = [operand for path, operand in operands.items() if list(path) not in paths]

    def whole(read: Callable[[int], Expr]) -> Expr:
        made = binary(op, read(shifts[0]), read(shifts[1]))
        for operand in rest:
            made = binary(op, made, operand)
        return made

    return parts.staged(stage, shifts, whole)


def _operands(value: Expr, op: str, path: tuple[int, ...] = ()) -> dict[tuple[int, ...], Expr]:
    """What an extremum is taken of, by path."""
    if not (isinstance(value, BinOp) and value.op == op):
        return {path: value}
    found: dict[tuple[int, ...], Expr] = {}
    for n, child in enumerate(expr_children(value)):
        found |= _operands(child, op, (*path, n))
    return found
