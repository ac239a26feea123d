"""int8 operands of the ALU: they come in by the input memory, and a matrix product with an identity widens them.

The ALU computes on int32 only, and a load does not convert. What is added to an int8 tensor becomes the initial value of a sum
that the GEMM computes; a sum over a window of int8 is one as a whole; any other use reads a stage that is widened. A tensor of
int8 takes two beats a vector so, and a cycle into a live sum, where an int32 tensor takes eight beats of the compute engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, Var, int_value
from autosched.ir.functor import expr_children, walk_expr
from autosched.ir.host import is_move, kind_of
from autosched.ir.stmt import Block, Buffer, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.diagonal import converts
from autosched.target import Target
from space.normalise.blocks import device_blocks, extents, joins_by, loads_of, product_of, readers_of, store_of, unfit, written
from space.normalise.copies import part_of

FACTORS = range(-128, 128)  # what an element of the identity holds; the ALU multiplies by others, and shifts, behind it
SHIFTS = range(7)
MOST = 256  # steps; every one widens an operand or splits a stage off for it: five a difference of a window


def apply(sch: Schedule, target: Target, loaded: bool = False, lone: bool = False) -> None:
    """Widens every int8 operand of an ALU stage, one after the other.

    Args:
        sch: of a program in whole elements.
        target: the machine.
        loaded: whether moves of what is stored are loads of it, and not what the accumulator holds.
        lone: whether extrema are stored that stages join with something else, which a sum of products may be: sums come first,
            so that none takes in what an extremum has had widened.

    Raises:
        ScheduleError: more of them than a program of any use has; what the primitives refuse.
    """
    config = target.config
    if config.block_in != config.block_out:
        return
    _unpadded(sch)
    apart = set[str]()
    if lone:
        made = computed(sch, loaded)
        apart = {name for b in device_blocks(sch.func) for name in _joined(sch, b, made) if _is_extremum(sch, name)}
    for _ in range(MOST):
        blocks = device_blocks(sch.func)
        if lone and _behind_extrema(blocks):
            blocks = sorted(blocks, key=lambda b: joins_by(b) != "+")
        if not any(_step(sch, block, config.block_out, loaded, apart) for block in blocks):
            return
    raise unfit(f"more than {MOST} steps to widen int8 operands")


def lacks(func: PrimFunc) -> bool:
    """Whether a form has no schedule because the ALU reads elements of int8 as the host lays them out, which nothing widens.

    Args:
        func: the program, in form.
    """
    made = written(func)
    return any(product_of(b) is None and store_of(b).buffer.dtype == "int32" and any(
        x.dtype == "int8" and x.buffer not in made for x in loads_of(b)) for b in device_blocks(func))


def _unpadded(sch: Schedule) -> None:
    """Pads with zeros what a minimum or maximum reads, which is all that a load can: other padding is left out of the window."""
    for block in device_blocks(sch.func):
        value = store_of(block).value
        if not (isinstance(value, Call) and value.op == "if_then_else" and int_value(value.args[2])):
            continue
        readers = readers_of(sch.func, store_of(block).buffer)
        kinds = [getattr(store_of(b).value, "op", "") for b in readers if b.init is not None]
        if kinds and len(kinds) == len(readers) and all(k in ("min", "max") for k in kinds):
            sch.zero_padding(sch.get_sblock(block.name))


def _step(sch: Schedule, block: Block, lanes: int, loaded: bool, apart: set[str]) -> bool:
    """Widens one operand of a block, or splits off a stage that can be; whether there was one. Some come from memory anyway."""
    store = store_of(block)
    lane = store.indices[-1]
    if product_of(block) is not None or store.buffer.dtype != "int32" or not isinstance(lane, Var):
        return False
    if extents(block).get(lane) != lanes:
        return False
    made = computed(sch, loaded) - apart
    made -= set(_joined(sch, block, made))
    paths = [p for p in narrow_paths(store.value) if _operand(part_of(store.value, p)) not in made]
    if not paths:
        return False
    # What a stage is made of is replaced wherever it occurs: what occurs more than once comes last, unless a sum takes it in
    # where it stands. Of the rest the outermost first, so that what a sum goes on from is one chain.
    every = list(walk_expr(store.value))
    path = min(paths, key=lambda p: (not _is_added(store.value, p) and every.count(part_of(store.value, p)) > 1, len(p)))
    operand = _operand(part_of(store.value, path))
    handle = sch.get_sblock(block.name)
    axis = next(k for k, iv in enumerate(block.iter_vars) if iv.var is lane)
    if block.init is not None:
        if isinstance(store.value, BinOp) and store.value.op == "+" and len(path) == 1:
            sch.cast_by_gemm(handle, axis, operand)
        elif loaded or not _wanted_narrow(sch, operand):
            sch.cache_cast(handle, operand)
        else:
            raise unfit(f"others than block {block.name} read {operand} as int8")
        return True
    if not path:
        sch.cast_by_gemm(handle, axis, operand)
        return True
    parent = part_of(store.value, path[:-1])
    other = parent.a if isinstance(parent, BinOp) and path[-1] == 1 else parent.b if isinstance(parent, BinOp) else None
    more = other is not None and any(_operand(part_of(other, p)) not in made for p in narrow_paths(other))
    if other is None or not _is_added(store.value, path):
        sch.decompose_value(handle, list(path))
    elif more and len(path) > 1 and _is_taken_away(store.value, other):
        # What it is added to would be replaced where it is taken away, too, and the ALU takes no stage away.
        sch.decompose_value(handle, list(path[:-1]))
    elif more:
        # One chain: what the operand is added to comes first, as a whole.
        sch.decompose_value(handle, [*path[:-1], 1 - path[-1]])
    elif len(path) > 1:
        sch.decompose_value(handle, list(path[:-1]))
    elif not isinstance(other, BufferLoad) and int_value(other) is None:
        # A stage of its own for what is there before, as if nothing were added: other rules know what to do with it.
        sch.decompose_value(handle, [1 - path[-1]])
    else:
        sch.cast_by_gemm(handle, axis, operand)
    return True


def _behind_extrema(blocks: Sequence[Block]) -> bool:
    """Whether a sum takes in elements of int8 that a minimum or maximum before it takes in as well."""
    compared = set[Buffer]()
    for block in blocks:
        read = {x.buffer for x in loads_of(block) if x.dtype == "int8"}
        if joins_by(block) == "+" and read & compared:
            return True
        compared |= read if joins_by(block) in ("min", "max") else set[Buffer]()
    return False


def _is_extremum(sch: Schedule, name: str) -> bool:
    """Whether a tensor of int8 holds what a minimum or maximum over several elements has made."""
    made = {store_of(b).buffer: b for b in device_blocks(sch.func)}
    block = next((b for buffer, b in made.items() if buffer.name == name), None)
    value = None if block is None else store_of(block).value
    maker = made.get(value.value.buffer) if isinstance(value, Cast) and isinstance(value.value, BufferLoad) else None
    return maker is not None and joins_by(maker) in ("min", "max")


def _wanted_narrow(sch: Schedule, name: str) -> bool:
    """Whether a block, of the host or of the accelerator, reads a tensor as it is, and converts none of it."""
    blocks = [r.block for r in sch.state.realizes.values() if isinstance(r.block.body, BufferStore)]
    return any(x.buffer.name == name and not converts(b, x.buffer) for b in blocks for x in loads_of(b))


def _is_added(value: Expr, path: tuple[int, ...]) -> bool:
    """Whether an operand is added to something, or taken from it."""
    parent = part_of(value, path[:-1]) if path else None
    return isinstance(parent, BinOp) and (parent.op == "+" or (parent.op == "-" and path[-1] == 1))


def _is_taken_away(value: Expr, part: Expr) -> bool:
    """Whether a part of a value is taken away somewhere in it."""
    return any(isinstance(e, BinOp) and e.op == "-" and e.b == part for e in walk_expr(value))


def computed(sch: Schedule, loaded: bool = False) -> set[str]:
    """Names of the tensors that the accelerator computes: those of int8 among them are in the accumulator, and wide there.

    A result is not, nor what a product reads, nor what anybody reads at another place than the one that is written: that goes
    through DRAM, and comes from there for every other reader too.

    Args:
        sch: of a program.
        loaded: as for ``apply``.
    """
    found = {store_of(b).buffer.name: b for b in device_blocks(sch.func)}
    stored = {f.buffer.name for b in found.values() if (p := product_of(b)) is not None for f in p.factors}
    stored |= {x.buffer.name for b in found.values() for x in loads_of(b) if x.dtype == "int8" and not _in_place(b, x)}
    for name, block in reversed(found.items()):
        if name in stored and is_move(store_of(block).value):
            stored |= {x.buffer.name for x in loads_of(block)}
    # What a result is a copy of stays in the accumulator; the result itself does not.
    stored |= {b.name for b in sch.func.buffers}
    stored |= {x.buffer.name for r in sch.state.realizes.values() if kind_of(r.block) for x in loads_of(r.block)}
    made = set[str]()
    for name, block in found.items():
        # Others had points before a load was known to move what is stored, padding and all.
        inside = made if loaded else found
        if name not in stored and (block.init is not None or not is_move(store_of(block).value) or any(
                x.buffer.name in inside for x in loads_of(block))):
            made.add(name)
    return made


def _in_place(block: Block, load: BufferLoad) -> bool:
    """Whether a block reads element by element, in the order in which it writes."""
    return block.init is None and load.indices == store_of(block).indices


def _joined(sch: Schedule, block: Block, made: set[str]) -> list[str]:
    """Of the tensors of several chains that a block reads those of int8, but for the last: one chain goes on."""
    order = [store_of(b).buffer for b in device_blocks(sch.func)]
    read = sorted({x.buffer for x in loads_of(block) if x.buffer.name in made}, key=order.index)
    narrow = [b.name for b in read if b.dtype == "int8"]
    return narrow[: len(read) - 1]


def narrow_paths(value: Expr, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Where a value uses an int8 operand: paths to its conversion, a constant factor included."""
    if _operand(value):
        yield path
        return
    if isinstance(value, BufferLoad):
        return
    for n, child in enumerate(expr_children(value)):
        yield from narrow_paths(child, (*path, n))


def _operand(value: Expr) -> str:
    """Name of the tensor of ``cast(int32, x[..])``, times a constant if anything; empty for any other expression.

    What is multiplied by more than an identity does is none: its operand is what is multiplied.
    """
    if isinstance(value, BinOp) and value.op == "*" and {int_value(value.a), int_value(value.b)} & set(FACTORS):
        value = value.a if int_value(value.a) is None else value.b
    elif isinstance(value, Call) and value.op == "shift_left" and int_value(value.args[1]) in SHIFTS:
        value = value.args[0]
    if isinstance(value, Cast) and value.dtype == "int32" and isinstance(value.value, BufferLoad) and value.value.dtype == "int8":
        return value.value.buffer.name
    return ""
