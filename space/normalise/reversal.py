"""Tensors that are read backwards: sums run the other way, or copies are laid out the other way round."""

from __future__ import annotations

from collections.abc import Callable

from autosched.ir.expr import BufferLoad, Expr, Var, int_value
from autosched.ir.functor import free_vars
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_blocks, given, loads_of, pack_blocks, store_of, written
from space.normalise.copies import copied


def apply(sch: Schedule, target: Target) -> None:
    """Runs every sum upwards through what it slides over; reverses what all readers of a copy then read downwards."""
    _upwards(sch)
    copies = {store_of(b).buffer: b for b in pack_blocks(sch)}
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


def apart(sch: Schedule, target: Target) -> None:
    """Gives what reads a parameter downwards that is read upwards as well a copy of its own, the other way round."""
    for buffer in given(sch.func):
        loads = [(b.name, x) for b in device_blocks(sch.func) for x in loads_of(b) if x.buffer is buffer]
        falls = [{d for d, i in enumerate(x.indices) if _falls(i)} for _, x in loads]
        common = {d for d in range(len(buffer.shape)) if all(d in dims for dims in falls)}
        for (name, load), dims in zip(loads, falls):
            if dims - common:
                copied(sch, name, load)


def results(sch: Schedule, target: Target) -> None:
    """Runs a result backwards that reads computed int8 backwards: that is read in order, and the host turns the result."""
    blocks = device_blocks(sch.func)
    made = written(sch.func)
    read = {x.buffer for b in blocks for x in loads_of(b)}
    for block in blocks:
        buffer = store_of(block).buffer
        value = store_of(block).value
        moved = isinstance(value, BufferLoad) and value.buffer in sch.func.buffers  # from one result into another
        if block.init is not None or buffer not in sch.func.buffers or buffer in read or moved:
            continue
        own = [iv.var for iv in block.iter_vars]
        computed = [x for x in loads_of(block) if x.buffer in made and x.dtype == "int8"]
        steps = [step for x in computed for i in x.indices for step in _steps(i, own)]
        falling = {v for v, c in steps if c < 0} - {v for v, c in steps if c > 0}
        if falling:
            sch.transform_block_layout(sch.get_sblock(block.name), _down(block, [v in falling for v in own]))


def _steps(index: Expr, own: list[Var]) -> list[tuple[Var, int]]:
    """How far each iterator moves an index; nothing where that is not known."""
    form = linear_form(index, own)
    return [(v, c) for v, c in form[0].items() if isinstance(v, Var) and isinstance(c, int)] if form is not None else []


def _down(block: Block, turned: list[bool]) -> Callable[..., tuple[Expr, ...]]:
    """The iterators of a block with some of them counted down."""
    last = [(int_value(iv.dom.extent) or 1) - 1 for iv in block.iter_vars]

    def down(*indices: Expr) -> tuple[Expr, ...]:
        return tuple([n - i if t else i for i, t, n in zip(indices, turned, last)])

    return down


def _upwards(sch: Schedule) -> None:
    """Counts an iterator of a sum down that moves an index down which others move up."""
    for block in device_blocks(sch.func):
        own = [iv.var for iv in block.iter_vars]
        falling: set[Var] = set()
        for load in loads_of(block):
            for index in load.indices:
                steps = _steps(index, own)
                if any(c > 0 for _, c in steps):
                    falling |= {v for v, c in steps if c < 0}
        sums = {iv.var for iv in block.iter_vars if iv.kind == "reduce" and int_value(iv.dom.min) == 0}
        turned = [v in falling & sums for v in own]
        if not any(turned) or not falling <= sums:
            continue
        sch.transform_block_layout(sch.get_sblock(block.name), _down(block, turned))


def _falls(index: Expr) -> bool:
    """Whether an index goes down as its one iterator goes up."""
    used = [v for v in free_vars(index) if isinstance(v, Var)]
    form = linear_form(index, used)
    return form is not None and bool(form[0]) and all(isinstance(c, int) and c < 0 for c in form[0].values())

