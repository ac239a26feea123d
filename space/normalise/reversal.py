"""Tensors that are read backwards: their copies are laid out the other way round."""

from __future__ import annotations

from autosched.ir.expr import Expr, Var, int_value
from autosched.ir.functor import free_vars
from autosched.ir.host import kind_of
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_blocks, loads_of, store_of


def apply(sch: Schedule, target: Target) -> None:
    """Reverses each dimension of a copy that every reader reads with coefficient -1 only."""
    copies = {store_of(b).buffer: b for b in _packs(sch)}
    backwards: dict[Buffer, list[set[int]]] = {}
    for block in device_blocks(sch.func):
        for load in loads_of(block):
            if load.buffer in copies:
                backwards.setdefault(load.buffer, []).append({d for d, i in enumerate(load.indices) if _falls(i)})
    for buffer, found in backwards.items():
        dims = set.intersection(*found)
        if not dims:
            continue
        last = [(int_value(e) or 1) - 1 for e in buffer.shape]

        def turned(*indices: Expr, dims: set[int] = dims, last: list[int] = last) -> tuple[Expr, ...]:
            return tuple([last[d] - i if d in dims else i for d, i in enumerate(indices)])

        copy = sch.get_sblock(copies[buffer].name)
        sch.transform_layout(copy, ("write", 0), turned)
        # The copy again stores at its plain iterators, so that what it fills is plain to see.
        sch.transform_block_layout(copy, turned)


def _packs(sch: Schedule) -> list[Block]:
    return [r.block for r in sch.state.realizes.values() if kind_of(r.block) == "pack"]


def _falls(index: Expr) -> bool:
    """Whether an index goes down as its one iterator goes up."""
    used = [v for v in free_vars(index) if isinstance(v, Var)]
    form = linear_form(index, used)
    return form is not None and bool(form[0]) and all(isinstance(c, int) and c < 0 for c in form[0].values())

