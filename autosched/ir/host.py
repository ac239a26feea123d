"""Host stages: what the host does with a program's tensors before and after the accelerator runs.

A block directly below the root that is annotated ``host_stage`` is no work of the accelerator. ``"pack"`` marks one over
parameters (and constants, and results of other pack stages) only; it runs when a kernel packs its arguments. ``"unpack"`` marks
one that makes parameters, or a part of one, of what the accelerator has stored; it runs when a kernel hands out its results. To
the interpreter and to primitives both are blocks like any other, so that a program means the same wherever its stages run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autosched.errors import ProgramError
from autosched.ir.expr import BufferLoad, Call, Expr, IntImm, Select, is_int
from autosched.ir.functor import replace_buffers, rewrite_many, walk
from autosched.ir.remembered import remembered
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Constant, For, PrimFunc, SeqStmt, Stmt, seq

HOST_STAGE = "host_stage"
PACK, UNPACK = "pack", "unpack"


@dataclass(frozen=True, eq=False)
class HostSplit:
    """A program in the three parts that run one after another.

    Args:
        pack: one function per stage, in order; parameters are what it reads, then what it writes.
        device: what the accelerator does. Its parameters: those of the program that it uses, what pack stages make for it, and
            what unpack stages read of it.
        unpack: as ``pack``.
    """

    pack: tuple[PrimFunc, ...]
    device: PrimFunc
    unpack: tuple[PrimFunc, ...]


def kind_of(block: Block) -> str | None:
    """``pack``, ``unpack``, or None for a block of the accelerator."""
    kind = block.annotations.get(HOST_STAGE)
    return None if kind is None else str(getattr(kind, "value", kind))


def has_host_stages(func: PrimFunc) -> bool:
    """Whether a program has host stages."""
    return any(kind_of(b) is not None for _, blocks in _statements(func) for b in blocks)


def split_host(func: PrimFunc) -> HostSplit:
    """A program in the parts that run on the host and on the accelerator.

    Args:
        func: a well-formed program, at any stage.

    Raises:
        ProgramError: a host stage that is none.
    """
    if not has_host_stages(func):
        return HostSplit((), func, ())
    for message, _ in host_faults(func):
        raise ProgramError(f"{func.name}: {message}")
    func = _distinct(func)
    groups: dict[str | None, list[Stmt]] = {PACK: [], None: [], UNPACK: []}
    for stmt, blocks in _statements(func):
        groups[kind_of(blocks[0]) if blocks else None].append(stmt)
    touched = {kind: [_touched(s) for s in stmts] for kind, stmts in groups.items()}
    on_device = {b for reads, writes in touched[None] for b in (*reads, *writes)}
    packed = list(dict.fromkeys(b for _, writes in touched[PACK] for b in writes))
    later = {b for reads, _ in touched[UNPACK] for b in reads}
    made = list(dict.fromkeys(b for _, writes in touched[None] for b in writes))
    on_host = {b for kind in (PACK, UNPACK) for reads, writes in touched[kind] for b in (*reads, *writes)}
    params = [p for p in func.params if not isinstance(p, Buffer) or p in on_device or p not in on_host]
    params += [b for b in packed if b in on_device]
    params += [b for b in made if b in later and b not in params]
    device = _function(func, params, groups[None], on_device)
    stages = {
        kind: tuple([
            _function(func, list(dict.fromkeys((*[r for r in reads if not _is_constant(func, r)], *writes))), [s],
                      {*reads, *writes}, next(iter(_outermost(s))).name)
            for s, (reads, writes) in zip(groups[kind], touched[kind])
        ])
        for kind in (PACK, UNPACK)
    }
    return HostSplit(stages[PACK], device, stages[UNPACK])


_Part = tuple[str | None, Block, tuple[list[Buffer], list[Buffer]]]  # kind, first block, what it reads and writes


def host_faults(func: PrimFunc) -> Iterator[tuple[str, Block]]:
    """What is wrong with the host stages of a program: a line and the block at fault."""
    if isinstance(func.body, BlockRealize) and not _in_order(func):
        yield from _faults(func)


def _faults(func: PrimFunc) -> Iterator[tuple[str, Block]]:
    parts: list[_Part] = []
    for stmt, blocks in _statements(func):
        kinds = {kind_of(b) for b in blocks}
        if len(kinds) > 1:
            marked = next(b for b in blocks if kind_of(b) is not None)
            yield f"host stage {marked.name!r} shares its loops with blocks of another part of the program", marked
            return
        if blocks:
            kind = kinds.pop()
            if kind not in (None, PACK, UNPACK):
                yield f"host_stage of block {blocks[0].name!r} is {kind!r}; expected {PACK!r} or {UNPACK!r}", blocks[0]
                return
            parts.append((kind, blocks[0], _touched(stmt)))
    constants = {c.buffer for c in func.constants}
    writers: dict[Buffer, set[str | None]] = {}
    readers: dict[Buffer, set[str | None]] = {}
    for kind, _, (reads, writes) in parts:
        for b in writes:
            writers.setdefault(b, set()).add(kind)
        for b in reads:
            readers.setdefault(b, set()).add(kind)
    for at, (kind, block, (reads, writes)) in enumerate(parts):
        if kind is None:
            continue
        for b in (*reads, *writes):
            if b.scope != "global":
                yield f"host stage {block.name!r} uses {b.name!r} in {b.scope}; the host has global memory only", block
        for b in writes:
            if b in func.params and kind == PACK:
                yield f"pack stage {block.name!r} writes parameter {b.name!r}", block
            elif writers[b] != {kind} and (kind == PACK or PACK in writers[b] or _writes(parts[at + 1:], b)):
                yield f"host stage {block.name!r} writes {b.name!r}, and so does another part of the program", block
            elif kind == UNPACK and readers.get(b, {UNPACK}) != {UNPACK}:
                yield f"unpack stage {block.name!r} writes {b.name!r}, which another part of the program reads", block
        for b in reads:
            if kind == PACK and b not in constants and not (b in func.params and b not in writers) and writers.get(b) != {PACK}:
                yield f"pack stage {block.name!r} reads {b.name!r}, which is no parameter that the program only reads", block
            if kind == UNPACK and _writes(parts[at + 1:], b):
                yield f"unpack stage {block.name!r} reads {b.name!r}, which the program writes later", block


def _in_order(func: PrimFunc) -> bool:
    """Whether surely nothing is wrong with host stages: every step of a schedule asks, and what each part touches tells."""
    parts = [remembered(_SIDES, stmt, _sides_of) for stmt in _top(func)]
    used: dict[object, tuple[set[Buffer], set[Buffer]]] = {kind: (set(), set()) for kind in (PACK, None, UNPACK)}
    late: set[Buffer] = set()  # what the accelerator writes after the first unpack stage
    unpacks = False
    for kind, reads, writes in parts:
        if kind not in used:
            return False
        used[kind][0].update(reads)
        used[kind][1].update(writes)
        if kind == UNPACK:
            unpacks = True
        elif unpacks and kind is None:
            late.update(writes)
    (loaded, filled), (read, made), (taken, handed) = used[PACK], used[None], used[UNPACK]
    if not (loaded or filled or taken or handed):
        return True
    params, constants = {p for p in func.params if isinstance(p, Buffer)}, {c.buffer for c in func.constants}
    return (
        all(b.scope == "global" for side in (loaded, filled, taken, handed) for b in side)
        and params.isdisjoint(filled) and filled.isdisjoint(made) and filled.isdisjoint(handed)
        and handed.isdisjoint(made) and handed.isdisjoint(read) and handed.isdisjoint(loaded) and taken.isdisjoint(late)
        and all(b in filled or b in constants or (b in params and b not in made) for b in loaded)
    )


def not_in_root(block: Block) -> str:
    """What is wrong with a host stage inside another block."""
    return f"host stage {block.name!r} does not stand directly in the root block"


def _writes(parts: Iterable[_Part], buffer: Buffer) -> bool:
    """Whether the accelerator writes a tensor in some of the parts."""
    return any(kind is None and buffer in writes for kind, _, (_, writes) in parts)


def is_move(value: Expr) -> bool:
    """Whether a stored value is an element as it is, or 0: then a stage moves data and computes nothing."""
    if isinstance(value, Select):
        return is_move(value.true_value) and is_move(value.false_value)
    if isinstance(value, Call) and value.op == "if_then_else":
        return is_move(value.args[1]) and is_move(value.args[2])
    return isinstance(value, BufferLoad) or (isinstance(value, IntImm) and value.value == 0)


def moves_only(func: PrimFunc) -> bool:
    """Whether all that a stage stores are elements as they are, and zeros."""
    return all(is_move(s.value) for s in walk(func.body) if isinstance(s, BufferStore))


def _statements(func: PrimFunc) -> list[tuple[Stmt, tuple[Block, ...]]]:
    """The statements of the root block, each with its outermost blocks."""
    return [(s, remembered(_BLOCKS, s, _blocks_of)) for s in _top(func)]


def _top(func: PrimFunc) -> tuple[Stmt, ...]:
    assert isinstance(func.body, BlockRealize)
    body = func.body.block.body
    return body.stmts if isinstance(body, SeqStmt) else (body,)


def _blocks_of(stmt: Stmt) -> tuple[Block, ...]:
    return tuple(_outermost(stmt))


def _outermost(stmt: Stmt) -> Iterator[Block]:
    from autosched.ir.functor import stmt_children

    while type(stmt) is For:
        stmt = stmt.body
    if isinstance(stmt, BlockRealize):
        yield stmt.block
        return
    for child in stmt_children(stmt):
        yield from _outermost(child)


_TOUCHED: dict[int, tuple[Stmt, tuple[list[Buffer], list[Buffer]]]] = {}
_BLOCKS: dict[int, tuple[Stmt, tuple[Block, ...]]] = {}
_SIDES: dict[int, tuple[Stmt, tuple[str | None, Sequence[Buffer], Sequence[Buffer]]]] = {}


def _sides_of(stmt: Stmt) -> tuple[str | None, Sequence[Buffer], Sequence[Buffer]]:
    """The kind of all blocks of a statement, one that there is not where they differ; what they read, and write."""
    kinds = {kind_of(b) for b in _outermost(stmt)}
    return (None, (), ()) if not kinds else (kinds.pop() if len(kinds) == 1 else "", *_touched(stmt))


def _touched(stmt: Stmt) -> tuple[list[Buffer], list[Buffer]]:
    """What the blocks of a statement read and write of buffers from outside it; steps of a schedule ask again and again."""
    return remembered(_TOUCHED, stmt, _reads_and_writes)


def _reads_and_writes(stmt: Stmt) -> tuple[list[Buffer], list[Buffer]]:
    reads: dict[Buffer, None] = {}
    writes: dict[Buffer, None] = {}
    own: set[Buffer] = set()
    for node in walk(stmt):
        if isinstance(node, Block):
            own |= {*node.alloc_buffers, *[m.buffer for m in node.match_buffers]}
            reads.update({r.buffer: None for r in node.reads})
            writes.update({w.buffer: None for w in node.writes})
    return [b for b in reads if b not in own and b not in writes], [b for b in writes if b not in own]


def _is_constant(func: PrimFunc, buffer: Buffer) -> bool:
    return any(c.buffer is buffer for c in func.constants)


def _function(
    func: PrimFunc, params: Iterable[Any], stmts: list[Stmt], used: set[Buffer], name: str | None = None
) -> PrimFunc:
    """A part of a program as a function: what the root allocates and nobody passes stays inside."""
    assert isinstance(func.body, BlockRealize)
    root = func.body.block
    params = tuple(params)
    allocs = tuple([b for b in root.alloc_buffers if b not in params and (b in used or name is None)])
    # In a part of its own a stage is no longer one.
    plain = {
        id(b): replace(b, annotations={k: v for k, v in b.annotations.items() if k != HOST_STAGE})
        for s in stmts for b in _outermost(s) if kind_of(b) is not None
    }
    block = replace(root, body=rewrite_many(seq(*stmts), plain), alloc_buffers=allocs)
    constants: tuple[Constant, ...] = tuple([c for c in func.constants if c.buffer in used])
    body = BlockRealize((), func.body.predicate, block)
    return PrimFunc(params, body, name or func.name, func.attrs, _ranges(func, params, stmts), constants)


def _ranges(func: PrimFunc, params: tuple[Any, ...], stmts: list[Stmt]) -> tuple[tuple[int, int] | None, ...]:
    from autosched.ir.value_bounds import ValueBounds, dtype_bounds

    known = dict(zip(func.params, func.value_ranges))
    bounds = ValueBounds(func)
    written = {b for s in stmts for b in _touched(s)[1]}
    found: list[tuple[int, int] | None] = []
    for p in params:
        given = known.get(p)
        if given is None and p not in func.params and p not in written and is_int(p.dtype):
            whole = bounds.of_buffer(p)
            given = None if whole == dtype_bounds(p.dtype) else whole
        found.append(given)
    return tuple(found)


def _distinct(func: PrimFunc) -> PrimFunc:
    """The program with a name of its own for each buffer of the root: parts find each other's tensors by name."""
    assert isinstance(func.body, BlockRealize)
    taken = {b.name for b in func.given}
    renamed: dict[Buffer, Buffer] = {}
    for buffer in func.body.block.alloc_buffers:
        name = buffer.name
        while name in taken:
            name += "_"
        taken.add(name)
        if name != buffer.name:
            renamed[buffer] = replace(buffer, name=name)
    return func if not renamed else replace(func, body=replace_buffers(func.body, renamed))
