"""Tiling a loop nest to the size of a tensor intrinsic, so that ``tensorize`` finds the loops it needs."""

from __future__ import annotations

from autosched.ir.expr import Expr, Var, int_value
from autosched.ir.functor import free_vars, walk
from autosched.ir.stmt import BlockRealize, For, PrimFunc
from autosched.schedule.analysis.boxes import bindings
from autosched.schedule.kit.base import BlockRV, LoopRV
from autosched.schedule.primitives.tensorize.intrin import TensorIntrin
from autosched.schedule.schedule import Schedule


def tile_with_tensor_intrin(
    sch: Schedule, block: BlockRV | str, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Splits the loops of a block by the extents of an intrinsic and moves the parts that it covers innermost.

    From the innermost on, each loop of the intrinsic's description takes the nearest loop around the block that drives
    iterators of the same kind (spatial, reduction) and whose extent its own divides. What is done is an ordinary
    sequence of ``split`` and ``reorder`` (after ``pad_einsum``) in the trace.

    Args:
        sch: schedule that is changed.
        block: the block to tile, or its name.
        intrin_name: name of a registered intrinsic.
        allow_padding: loops that an extent does not divide are padded to its next multiple.

    Returns:
        The outermost loop that the intrinsic covers, for ``sch.tensorize``; None, and nothing done, where some loop of
        the description finds no partner.

    Raises:
        UnknownNameError: no such intrinsic.
        ScheduleError: the loops can be paired, but not padded or reordered; what was done before that stays done.

    Before: ``for i, j, k in grid(64, 64, 64)``; after, for an intrinsic of 16 x 16 over ``j`` and ``k``:
    ``for i, j_0, k_0, j_1, k_1 in grid(64, 4, 4, 16, 16)``.
    """
    handle = sch.get_sblock(block) if isinstance(block, str) else block
    _, realize = sch.block_at(handle)
    wanted = _description(TensorIntrin.get(intrin_name).desc)
    if wanted is None:
        return None
    loops = sch.get_loops(handle)
    nodes = [sch.loop_at(rv)[1] for rv in loops]
    pairs: list[tuple[int, int]] = []
    padding: dict[int, int] = {}
    left = len(nodes)
    for kind, extent in reversed(wanted):
        for at in reversed(range(left)):
            count = int_value(nodes[at].extent)
            if _kind(realize, nodes[at].var) != kind or count is None or (count % extent and not allow_padding):
                continue
            pairs.append((at, extent))
            if count % extent:
                padding[at] = extent
            left = at
            break
        else:
            return None
    if padding:
        factors = [
            next((f for i, f in padding.items() if nodes[i].var in free_vars(value)), 1)
            for value in realize.iter_values
        ]
        sch.pad_einsum(handle, factors)
        loops = sch.get_loops(handle)
    inner: list[LoopRV] = []
    outer: dict[int, LoopRV] = {}
    for position, extent in reversed(pairs):
        first, second = sch.split(loops[position], [None, extent])
        outer[position] = first
        inner.append(second)
    start = min(outer, default=len(loops))
    sch.reorder(*[outer.get(i, rv) for i, rv in enumerate(loops) if i >= start], *inner)
    return inner[0] if inner else None


def _description(desc: PrimFunc) -> list[tuple[str, int]] | None:
    """Kind and extent of each loop of a description, outermost first; None if it is no plain nest around a block."""
    found = [s for s in walk(desc.body) if isinstance(s, BlockRealize) and s is not desc.body]
    if len(found) != 1:
        return None
    result = []
    for loop in (s for s in walk(desc.body) if isinstance(s, For)):
        kind, extent = _kind(found[0], loop.var), int_value(loop.extent)
        if kind is None or extent is None:
            return None
        result.append((kind, extent))
    return result


def _kind(realize: BlockRealize, var: Var) -> str | None:
    """The kind of the iterators that a loop drives; None for several kinds or none."""
    values: dict[Var, Expr] = bindings(realize)
    kinds = {iv.kind for iv in realize.block.iter_vars if var in free_vars(values[iv.var])}
    return kinds.pop() if len(kinds) == 1 else None


