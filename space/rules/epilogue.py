"""Epilogue: how what is added to a sum comes in.

It moves in front of a shift, into the initial value of the sum; or it stays where it is and the GEMM adds it, from its digits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, IntImm, Var, int_value
from autosched.ir.functor import expr_children, free_vars
from autosched.ir.patterns import loads_in, operands
from autosched.ir.stmt import Block, Buffer, BufferStore
from space.normalise.blocks import (
    device_block,
    device_blocks,
    extents,
    loads_of,
    named,
    plain_blocks,
    product_of,
    readers_of,
    store_of,
    written,
)
from space.rule import StructuralRule
from space.stages import start_of

if TYPE_CHECKING:
    from autosched.schedule import Schedule
    from autosched.schedule.kit.base import BlockRV
    from autosched.target import Target


class Epilogue(StructuralRule):
    """``fold_epilogue`` wherever it is taken; where a machine has no moves ``raise_epilogue`` behind it, or ``add_by_gemm``.

    There ``offset_epilogue`` moves what starts with a constant, in all of these forms: it takes no operation more than before.
    Of several addends a sum starts with the first one, or with one that has an element for each of its own.
    """

    name = "epilogue"

    def apply(self, sch: Schedule, target: Target) -> Sequence[tuple[str, Schedule]]:
        """Every block that can be folded is; elsewhere than under ``chisel`` every one that can be raised as well.

        There the addends may also be products: a vector costs one operation less than with a sum of two tensors, and accumulators
        need not be known to be small before the first sum.
        """
        found: list[tuple[str, Schedule]] = []
        folded = _folded(sch, target) or _folded(_joined(sch), target)
        if folded is not None:
            found.append(("init by copy" if target.semantics == "chisel" else "addend in front", folded))
        loaded = _in_place(_joined(sch), folded)
        if loaded is not None:
            found.append(("init in place", loaded))
        if target.semantics == "chisel":
            return found
        raised = _everywhere(folded, "raise_epilogue") if folded is not None else None
        if raised is not None:
            found.append(("init by maximum", raised))
        added = _products(sch, target)
        if added is not None:
            found.append(("addend by product", added))
        return [(name, _constants_beyond(form)) for name, form in found]


def _folded(sch: Schedule, target: Target) -> Schedule | None:
    """A copy in which every sum that can starts with what is added to it; what then only passes it on is gone."""
    begun = _one_sum_behind_another(sch, target) if target.semantics == "chisel" and plain_blocks(sch.func) else None
    found = _everywhere(sch if begun is None else begun, "fold_epilogue") or begun
    other = sch.copy() if found is None else found
    if found is not None:
        _passed_on(other)
    if target.semantics == "chisel":
        # The copy that a sum starts with adds a constant in the same cycle.
        more = _constants_too(other, [b.name for b in device_blocks(other.func)] if plain_blocks(other.func) else (), target)
        if found is not None or more is not other:
            found = other = more
            _passed_on(other)
    return None if found is None else other


def _constants_too(sch: Schedule, names: Iterable[str], target: Target) -> Schedule:
    """A copy in which sums start with constants, too, that some blocks add, where that takes no operation; or the same one."""
    for name in names:
        more = sch.copy()
        try:
            more.fold_epilogue(more.get_sblock(name))
        except ScheduleError:
            continue  # nothing to do here, or ranges that do not prove it
        if _starting(more, target) == _starting(sch, target):
            sch = more
    return sch


def _one_sum_behind_another(sch: Schedule, target: Target) -> Schedule | None:
    """A copy in which a sum starts with what is made of another one, and that one with its own addends; None if there is none.

    Of ``((s + bias) >> 8) + (t >> 2)`` one fold leaves ``s + bias`` in the initial value of t, where it takes a reset and an
    operation on two accumulators. So what is made of s is a stage until it has been folded itself.
    """
    other, done = sch.copy(), False
    for name in [b.name for b in device_blocks(sch.func) if b.init is None]:
        for path, n in _of_two_sums(other, name):
            trial = other.copy()
            try:
                stage = trial.decompose_value(trial.get_sblock(name), [*path, n])
                trial.fold_epilogue(stage)
                trial = _constants_too(trial, [named(trial, stage)], target)
                trial.compute_inline(stage)
                if n == 0:
                    trial.reorder_addends(trial.get_sblock(name), [1, 0], list(path))
                before = _starts(trial)
                trial.fold_epilogue(trial.get_sblock(name))
            except ScheduleError:
                continue  # nothing is added to it, ranges do not prove it, or it is not made yet where the other sum starts
            # A constant alone takes an operation wherever it is added.
            given = any(a != b and loads_in(b) for a, b in zip(_starts(other), before))
            if given and sum(a != b for a, b in zip(before, _starts(trial))) == 1 and not _of_two_sums(trial, name):
                other, done = trial, True
                break
    return other if done else None


def _of_two_sums(sch: Schedule, name: str) -> list[tuple[tuple[int, ...], int]]:
    """Where a stage adds what is made of one sum to what is made of another: the operands down to the two, and either of them."""
    summed = {store_of(b).buffer for b in device_blocks(sch.func) if b.init is not None}
    found = []
    for path, value in _sums_in(store_of(device_block(sch, name)).value):
        one, other = ({x.buffer for x in loads_in(part)} & summed for part in (value.a, value.b))
        found += [(path, n) for n in range(2) if len(one) == len(other) == 1 and one != other]
    return found


def _starts(sch: Schedule) -> list[Expr]:
    """What every sum starts with."""
    return [b.init.value for b in device_blocks(sch.func) if isinstance(b.init, BufferStore)]


def _constants_beyond(sch: Schedule) -> Schedule:
    """A copy in which every sum that can starts with a constant beyond all that is left where it stands.

    That may be one that is added behind the sum so far: there it takes as many operations as at the start.
    """
    for name in [b.name for b in device_blocks(sch.func)] if plain_blocks(sch.func) else ():
        for ahead in (False, True):
            other = sch.copy()
            try:
                if ahead:
                    other.fold_epilogue(other.get_sblock(name))
                other.offset_epilogue(other.get_sblock(name))
            except ScheduleError:
                continue  # nothing to do here, or ranges that do not prove it
            sch = other
            break
    return sch


def _passed_on(sch: Schedule) -> None:
    """Leaves out the stages that only pass on what another one makes."""
    for block in device_blocks(sch.func):
        store = block.body
        if isinstance(store, BufferStore) and isinstance(store.value, BufferLoad) and store.buffer.dtype == "int32":
            try:
                sch.compute_inline(sch.get_sblock(block.name))
            except ScheduleError:
                continue  # a result, or a copy of something else


def _starting(sch: Schedule, target: Target) -> list[tuple[int, int]]:
    """The operations that write what each sum starts with."""
    return [start_of(b.init.value, target) for b in device_blocks(sch.func) if isinstance(b.init, BufferStore)]


def _joined(sch: Schedule) -> Schedule:
    """A copy in which stages that one other stage reads, once and in place, are part of it."""
    other = sch.copy()
    for block in device_blocks(other.func) if plain_blocks(other.func) else ():
        store = store_of(block)
        if block.init is not None or store.buffer.dtype != "int32":
            continue
        readers = readers_of(other.func, store.buffer)
        value = store_of(readers[0]) if len(readers) == 1 and readers[0].init is None else None
        if value is None or value.buffer.dtype != "int32":
            continue
        read = [x for x in loads_of(readers[0]) if x.buffer is store.buffer]
        if len(read) == 1 and read[0].indices == value.indices and any(x.indices == store.indices for x in loads_of(block)):
            try:
                other.compute_inline(other.get_sblock(block.name))
            except ScheduleError:
                continue  # it stays a stage
    return other


def _in_place(sch: Schedule, folded: Schedule | None) -> Schedule | None:
    """A copy in which every sum with several addends starts with one that is loaded to where the sum stands; None where none is.

    That takes no operation. What else is added would have to be moved to start a sum with it: so it is an operation like the
    others, on two accumulators, and that sum has one operation less. Nothing is gained where a sum is ``folded`` like that.
    """
    other = sch.copy()
    known = set() if folded is None else {
        b.name for b in device_blocks(folded.func) if isinstance(b.init, BufferStore) and _is_load(b.init.value, b.init.indices)}
    done = False
    for name in [b.name for b in device_blocks(other.func)] if plain_blocks(other.func) else ():
        block = device_block(other, name)
        found = None if block.init is not None else _own_addend(other, block, store_of(block).value, known)
        if found is None:
            continue
        path, order = found
        trial = other.copy()
        try:
            trial.reorder_addends(trial.get_sblock(name), order, list(path))
            trial.fold_epilogue(trial.get_sblock(name))
        except ScheduleError:
            continue  # something else reads the sum
        other, done = trial, True
    if not done:
        return None
    rest = _everywhere(other, "fold_epilogue")  # other sums
    if rest is not None:
        _passed_on(rest)
    return other if rest is None else rest


def _own_addend(
    sch: Schedule, block: Block, value: Expr, known: Collection[str], path: tuple[int, ...] = ()
) -> tuple[tuple[int, ...], list[int]] | None:
    """Where a value adds several tensors to a sum that starts with 0, none of the ``known`` ones, and in which order they stand.

    Behind the sum comes what is read at the sum's own place.
    """
    if isinstance(value, BinOp) and value.op == "+" and value.dtype == "int32":
        parts, at = operands(value, "+"), store_of(block).indices
        loads = {n: x for n, x in enumerate(parts) if isinstance(x, BufferLoad) and x.dtype == "int32"}
        sums = [n for n, x in loads.items() if x.indices == at and _starts_at_zero(sch, x.buffer, known)]
        given = [n for n, x in loads.items() if x.buffer not in written(sch.func)]
        own = [n for n in given if loads[n].indices == at]
        if len(sums) == 1 and own and len(given) > 1:
            first = (sums[0], own[0])
            return path, [*first, *(n for n in range(len(parts)) if n not in first)]
    if isinstance(value, BinOp | Call):
        for n, child in enumerate(expr_children(value)):
            found = None if isinstance(child, BufferLoad) else _own_addend(sch, block, child, known, (*path, n))
            if found is not None:
                return found
    return None


def _starts_at_zero(sch: Schedule, buffer: Buffer, known: Collection[str]) -> bool:
    """Whether a sum of products, none of the ``known`` ones, fills a tensor, and starts with 0."""
    made = [b for b in device_blocks(sch.func) if store_of(b).buffer is buffer]
    start = made[0].init if len(made) == 1 and product_of(made[0]) is not None and made[0].name not in known else None
    return isinstance(start, BufferStore) and int_value(start.value) == 0


def _sums_in(value: Expr, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], BinOp]]:
    """The sums of two in a value, each with the operands to take down to it, outer ones first."""
    if isinstance(value, BinOp) and value.op == "+" and value.dtype == "int32":
        yield path, value
    for n, child in enumerate(expr_children(value)) if isinstance(value, BinOp | Call) else ():
        yield from _sums_in(child, (*path, n))


def _is_load(value: Expr, indices: Sequence[Expr]) -> bool:
    """Whether a value is an element of a tensor at the given place."""
    return isinstance(value, BufferLoad) and value.indices == indices


def _everywhere(sch: Schedule, primitive: str) -> Schedule | None:
    """A copy with a primitive on every block that it takes; None where there is none."""
    other = sch.copy()
    done = False
    for block in other.get_child_blocks(other.get_sblock("root")):
        if primitive == "fold_epilogue" and not _starts_with_a_constant(other, block):
            continue  # it starts by a copy as it is; forms that fold more into that would come before those that have points
        try:
            getattr(other, primitive)(block)
            done = True
        except ScheduleError:
            continue  # nothing to do here, or ranges that do not prove it
    return other if done else None


def _starts_with_a_constant(sch: Schedule, block: BlockRV) -> bool:
    """Whether no sum that a block reads, or that such a one goes on from as it is, starts with what the program is given."""
    made = sch.get(block)
    assert isinstance(made, Block)
    starts: dict[Buffer, Expr] = {}
    for b in (blocks := sch.state.children_of(sch.state.root)):
        sums = any(iv.kind == "reduce" for iv in b.iter_vars)
        store = b.init if sums else b.body
        others = {w.buffer for x in blocks if x is not b for w in x.writes}
        if isinstance(store, BufferStore) and (sums or store.buffer in others):
            starts[store.buffer] = store.value
    for buffer in {r.buffer for r in made.reads}:
        while isinstance(value := starts.get(buffer), BufferLoad) and value.buffer in starts:
            buffer = value.buffer
        if value is not None and not isinstance(value, IntImm):
            return False
    return True


def _products(sch: Schedule, target: Target) -> Schedule | None:
    """A copy in which the GEMM adds what many elements of a sum share; None where there is nothing of the kind."""
    config = target.config
    if config.block_in != config.block_out:
        return None
    other = sch.copy()
    summed: set[object] = set()
    done = False
    if not plain_blocks(other.func):
        return None
    for block in device_blocks(other.func):
        store = store_of(block)
        if block.init is not None:
            summed.add(store.buffer)
            continue
        own = [p for p in loads_of(block) if p.buffer in summed and p.indices == store.indices]
        if not own:
            continue
        summed.add(store.buffer)
        lane = store.indices[-1]
        path = _added(block, store.value)
        if path is None or not isinstance(lane, Var) or extents(block).get(lane) != config.block_out:
            continue
        at, operand = path
        if [x.buffer.name for b in device_blocks(other.func) for x in loads_of(b)].count(operand) > 1:
            return None  # what else reads it has to load it anyway
        try:
            handle = other.get_sblock(block.name)
            part = other.decompose_value(handle, list(at)) if at else handle
            axis = next(k for k, iv in enumerate(block.iter_vars) if iv.var is lane)
            other.add_by_gemm(part, axis, operand)
            done = True
        except ScheduleError:
            return None  # what the host cannot take apart
    return other if done else None


def _added(block: Block, value: Expr, path: tuple[int, ...] = ()) -> tuple[tuple[int, ...], str] | None:
    """Where a value adds an int32 tensor that many of its elements share, those of all rows of a tile, and that tensor's name.

    A constant that is added right behind is part of that sum: the host adds it.
    """
    if isinstance(value, BinOp) and value.op == "+":
        assert isinstance(block.body, BufferStore)
        many = {iv.var for iv in block.iter_vars if extents(block).get(iv.var) != 1}
        rows = many.intersection(*[free_vars(i) for i in block.body.indices[-2:-1]]) if len(block.body.indices) > 1 else set()
        for term in (value.a, value.b):
            if isinstance(term, BufferLoad) and term.dtype == "int32":
                used = {v for i in term.indices for v in free_vars(i)}
                if many - used and not rows & used:
                    return path, term.buffer.name
    if isinstance(value, BinOp | Call):
        for n, child in enumerate(expr_children(value)):
            found = None if isinstance(child, BufferLoad) else _added(block, child, (*path, n))
            if found is not None:
                behind = value.b if isinstance(value, BinOp) and value.op == "+" and found[0] == (*path, 0) else None
                return (path, found[1]) if behind is not None and int_value(behind) is not None else found
    return None
