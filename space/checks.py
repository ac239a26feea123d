"""What no nest can hold, block by block, whatever the blocks are to each other."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.errors import SpaceError
from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import choice_of, has_loads, loads_in
from autosched.ir.printer import expr_text
from autosched.ir.stmt import Buffer, BufferStore, PrimFunc
from autosched.lower.classify import no_difference
from autosched.schedule.primitives.reductions.operand import reads_within
from autosched.target import Target
from space.sites import WRITTEN_OUT, NotPackedError, Site, loads_of, term_of


def check_tensors(func: PrimFunc) -> None:
    """Refuses extents that are not constant.

    Args:
        func: the program.

    Raises:
        SpaceError: one is not.
    """
    for buffer in func.buffers:
        for size in buffer.shape:
            if int_value(size) is None:
                raise SpaceError(f"{buffer.name} has the symbolic extent {expr_text(size)}; a space needs constants", "symbolic")


def check_site(
    site: Site, matches: dict[str, tuple[BufferLoad, BufferLoad]], by_output: dict[Buffer, Site], target: Target
) -> None:
    """Refuses what no nest can hold.

    Args:
        site: a block.
        matches: by name, the factors of the blocks that the intrinsic computes.
        by_output: by tensor, the last block that writes it.
        target: the machine.

    Raises:
        SpaceError: the block is such.
    """
    name, store = site.block.name, site.store
    values = [store.value, *([site.block.init.value] if isinstance(site.block.init, BufferStore) else [])]
    if not target.shifts_by_tensors and any(map(_shifts_by_data, [e for value in values for e in walk_expr(value)])):
        raise SpaceError(f"block {name!r} shifts by a tensor; implementations disagree on its range: shift by a constant, or "
                         "choose the target of one of them", "machine")
    writer = by_output[store.buffer].block.name
    if writer != name:
        raise SpaceError(f"blocks {name!r} and {writer!r} both write {store.buffer.name}; a nest stores one tensor, and "
                         "all of it: give each block a tensor of its own", "written")
    for load in loads_of(site):
        data = [e for i in load.indices for e in walk_expr(i) if isinstance(e, BufferLoad)]
        if data:
            raise SpaceError(f"block {name!r} reads {load.buffer.name} at {expr_text(data[0])}, an index that is data; the "
                             "machine needs addresses that are known before it runs", "index")
    choices = [c for e in walk_expr(store.value) if (c := choice_of(e)) is not None]
    if any(has_loads(cond) for cond, _, _ in choices):
        read = [x for cond, *sides in choices if has_loads(cond) for side in sides for x in loads_in(side)]
        beyond = next((x for x in read if not reads_within(site.block, x)), None)
        if beyond is not None:
            raise SpaceError(f"block {name!r} chooses by data whether it reads {expr_text(beyond)}, which is not there for all "
                             "of its places, and the ALU reads what it chooses between: pad it in a block before", "choice")
        summed = site.block.init is not None and all(int_value(side) is not None for _, *sides in choices for side in sides)
        raise SpaceError(f"block {name!r} chooses by data; the ALU has no choice but minimum and maximum: " + (
            "store what it takes in as int8 in a block before" if summed else "write it with T.min and T.max"), "choice")
    chosen = [x for _, yes, no in choices for side in (yes, no) for x in loads_in(side)]
    made = [x.buffer for x in chosen if x.dtype == "int32" and x.buffer in by_output]
    wide = next((b.name for b in made if b is not store.buffer), None)
    if site.block.init is None and wide is not None:
        raise SpaceError(f"block {name!r} chooses by place what is in the accumulator, {wide}; the ALU has no choice but minimum "
                         "and maximum: store it as int8 in a block before, or let each side be a result of its own", "choice")
    if site.block.init is not None:
        if name not in matches and term_of(site) is None:
            raise SpaceError(f"block {name!r} is a reduction that neither the GEMM nor the ALU computes: {store.buffer.name} "
                             "with +, min or max and a term that does not read it", "product")
        term = None if name in matches else term_of(site)
        if term is not None and any(isinstance(e, BinOp) and e.op == "-" and has_loads(e.b) for e in walk_expr(term)):
            steps = site.steps // site.stored
            raise NotPackedError(f"block {name!r} takes elements away at each of its {steps} steps; the ALU has no difference, "
                                 f"and a sum or extremum over up to {WRITTEN_OUT} is written out as stages: make one of so many "
                                 "at a time, or store what it takes in as int8 in a block before", "product")
        return
    own = [x for x in loads_in(store.value) if x.buffer is store.buffer]
    if own and all(x.indices == store.indices for x in own):
        raise SpaceError(f"block {name!r} reads {store.buffer.name}, which it writes: store what it makes in a tensor of its own",
                         "written")
    if own:
        raise SpaceError(f"block {name!r} reads {store.buffer.name}, which it writes: each of its elements would wait for "
                         "others of the same block: compute each from what other blocks store", "written")


def check_differences(sites: Sequence[Site]) -> None:
    """Refuses what takes elements away still, in the words of lowering.

    Args:
        sites: blocks of a program in which nothing else is in the way: of one in no form yet, something else is.

    Raises:
        SpaceError: a stage does.
    """
    for site in sites:
        away = [e for e in walk_expr(site.store.value) if isinstance(e, BinOp) and e.op == "-" and e.dtype == "int32"]
        if site.block.init is None and any(has_loads(e.b) for e in away):
            raise SpaceError(no_difference(site.block.name), "machine")


def _shifts_by_data(value: Expr) -> bool:
    return isinstance(value, Call) and value.op in ("shift_left", "shift_right") and has_loads(value.args[1])
