"""What a buffer is: its memory, its type, its alignment, its physical dimensions, its banks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, cast

from autosched.errors import suggest
from autosched.ir.expr import BufferLoad, Expr
from autosched.ir.expr import cast as cast_expr
from autosched.ir.scopes import DRAM, SRAM_SCOPES
from autosched.ir.stmt import Block, Buffer, BufferStore, Stmt, separator_fault
from autosched.schedule.analysis.bindings import BufferReplacer
from autosched.schedule.analysis.ways import listed
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.buffers.layout_arguments import buffer_argument

SCOPES = (
    "global", "shared", "local", "warp", "texture", "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator", "amx.tmm",
    "m16n8k8.matrixA", "m16n8k8.matrixB", "m16n8k8.matrixC", "metal.simdgroup", "metal.cooperative_tensor",
)
# Of VTA, and those that every backend has.
MEMORIES = (DRAM, "shared", "local", *SRAM_SCOPES)
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)


def in_scope(buffer: Buffer, scope: str) -> Buffer:
    """The buffer moved to a memory, and named after it."""
    return replace(buffer, name=f"{buffer.name}_{scope}", scope=scope)


class ScopeReplacer(BufferReplacer):
    """Replaces a buffer, and lets the views of it take its scope and its type."""

    def visit_block(self, block: Block) -> Block:
        for match in block.match_buffers:
            new = self.bmap.get(match.source.buffer)
            if new is not None:
                view = match.buffer
                bmap = cast(dict[Buffer, Buffer], self.bmap)
                moved = view if new.scope == view.scope else in_scope(view, new.scope)
                bmap[view] = replace(moved, dtype=new.dtype)
        return super().visit_block(block)


class _Retype(ScopeReplacer):
    """Replaces a buffer by one of another type: stores convert, loads convert back."""

    def __init__(self, bmap: dict[Buffer, Buffer], old: str) -> None:
        super().__init__(bmap)
        self.old = old

    def visit_load(self, load: BufferLoad) -> Expr:
        new = super().visit_load(load)
        return cast_expr(self.old, new) if load.buffer in self.bmap else new

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        new = super().visit_stmt(stmt)
        if isinstance(stmt, BufferStore) and stmt.buffer in self.bmap and isinstance(new, BufferStore):
            return BufferStore(new.buffer, new.indices, cast_expr(new.buffer.dtype, new.value))
        return new


def _pair(sch: Any, args: dict[str, Any]) -> None:
    """A (kind, position) pair is a tuple, also when it comes from JSON; a buffer becomes such a pair."""
    if isinstance(args["buffer"], Buffer):
        buffer_argument(sch, args)
    if isinstance(args["buffer"], list):
        args["buffer"] = tuple(args["buffer"])


class Scope(ScheduleBase):
    """Primitives on buffers; a buffer is named as the n-th that a block writes."""

    @primitive
    def set_scope(self, block: BlockRV | str, buffer_index: int | str | Buffer, storage_scope: str) -> None:
        """Moves a buffer to another memory.

        Args:
            block: handle or name of a block that writes the buffer.
            buffer_index: position (or name) of the buffer among those written.
            storage_scope: ``global``, ``local.inp_buffer``, ``local.wgt_buffer``, ``local.acc_buffer``, ``shared``...

        Raises:
            ScheduleError: a parameter of the function or a view, or no such memory.

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + 1

        After ``sch.set_scope("B", 0, "local.acc_buffer")``::

            B_local_acc_buffer = T.sblock_alloc_buffer((16,), "int32", scope="local.acc_buffer")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B_local_acc_buffer[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B_local_acc_buffer[vi] + 1
        """
        assert isinstance(block, BlockRV)
        self.check_scope(storage_scope)
        node = self.block_at(block)[1].block
        if node.writes[self.block_region_buffer(node, buffer_index, "write")].buffer.scope == storage_scope:
            return  # a parameter may be told to stay where it is
        state, owner, buffer, _ = self._written(block, buffer_index)
        self._replace_buffer(state, owner, ScopeReplacer({buffer: in_scope(buffer, storage_scope)}))

    @primitive
    def unsafe_set_dtype(self, block: BlockRV | str, buffer_index: int | str | Buffer, dtype: str) -> None:
        """Changes the type of a buffer's elements, converting where it is stored and loaded; values may change.

        Args:
            block: handle or name of a block that writes the buffer.
            buffer_index: position (or name) of the buffer among those written.
            dtype: element type.

        Raises:
            ScheduleError: a parameter of the function or a view, or no such type.

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + 1

        After ``sch.unsafe_set_dtype("B", 0, "int8")``::

            B = T.sblock_alloc_buffer((16,), "int8")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = T.Cast("int8", A[vi] * 2)
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.Cast("int32", B[vi]) + 1
        """
        state, owner, buffer, _ = self._written(block, buffer_index)
        if dtype not in DTYPES:
            self.refuse(f"unknown type {dtype!r}{suggest(dtype, DTYPES)}", hint=f"one of {', '.join(DTYPES)}", code="argument")
        if buffer.dtype != dtype:
            self._replace_buffer(state, owner, _Retype({buffer: replace(buffer, dtype=dtype)}, buffer.dtype))

    @primitive
    def storage_align(self, block: BlockRV | str, buffer_index: int | str | Buffer, axis: int, factor: int, offset: int) -> None:
        """Asks that the stride of a dimension be ``k * factor + offset`` elements (annotation ``buffer_dim_align``).

        Args:
            block: handle or name of a block that writes the buffer.
            buffer_index: position (or name) of the buffer among those written.
            axis: dimension; negative counts from the end.
            factor: positive, in elements.
            offset: in elements.

        Raises:
            ScheduleError: a parameter of the function, no such dimension, a factor below one, a malformed annotation.

        After: ``T.sblock_attr({"buffer_dim_align": [[buffer_index, axis, factor, offset]]})``.

        Before::

            B = T.sblock_alloc_buffer((16, 16), "int32")
            for i, j in T.grid(16, 16):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * 2
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + 1

        After ``sch.storage_align("B", 0, axis=0, factor=32, offset=1)``::

            B = T.sblock_alloc_buffer((16, 16), "int32")
            for i, j in T.grid(16, 16):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.sblock_attr({"buffer_dim_align": [[0, 0, 32, 1]]})
                    B[vi, vj] = A[vi, vj] * 2
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + 1
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        node = realize.block
        index = self.block_region_buffer(node, buffer_index, "write")
        buffer = node.writes[index].buffer
        if factor < 1:
            self.refuse(f"the factor is positive, not {factor}", [node.ident], hint="factor=32, say, in elements",
                        code="argument")
        if not -buffer.ndim <= axis < buffer.ndim:
            self.refuse(f"buffer {buffer.name} has {buffer.ndim} dimensions; there is no axis {axis}", [node.ident],
                        hint=f"axis 0 to {buffer.ndim - 1}, or -1 for the last", code="argument")
        self._allocator(state, node, buffer)
        given = node.annotations.get("buffer_dim_align", [])
        rows = [list(row) if isinstance(row, list | tuple) else [] for row in given]
        if any(len(row) != 4 for row in rows):
            self.refuse("the annotation buffer_dim_align is not a list of [buffer_index, axis, factor, offset]",
                        [node.ident], hint="unannotate it first", code="argument")
        new = [index, axis % buffer.ndim, factor, offset]
        at = next((i for i, row in enumerate(rows) if row[:2] == new[:2]), len(rows))
        rows[at:at + 1] = [new]
        annotations = {**node.annotations, "buffer_dim_align": rows}
        self.commit_nodes(state, {id(node): replace(node, annotations=annotations)})

    @primitive(local="neighbours", annotates=True)
    def double_buffer(self, block: BlockRV | str, buffer_index: int | str | Buffer = 0) -> None:
        """Gives a buffer two banks, alternating each time a block refills it (annotation ``double_buffer_scope``).

        Any number of dimensions, any axis separators: lowering puts the bank in front. Blocks that accumulate into the
        buffer (the update of a reduction whose initial value this block writes) work on the current bank.

        Args:
            block: handle or name of the block that writes the buffer.
            buffer_index: position (or name) of the buffer among those written.

        Raises:
            ScheduleError: a parameter of the function or a view, a buffer with other writers.

        After: ``T.sblock_attr({"double_buffer_scope": buffer_index})``.

        Before::

            B = T.sblock_alloc_buffer((16, 16), "int32")
            for i in range(16):
                for ax0 in range(16):
                    with T.sblock("B"):
                        vi, vj = T.axis.remap("SS", [i, ax0])
                        B[vi, vj] = A[vi, vj] * 2
                for j in range(16):
                    with T.sblock("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, vj] + 1

        After ``sch.double_buffer("B")``::

            B = T.sblock_alloc_buffer((16, 16), "int32")
            for i in range(16):
                for ax0 in range(16):
                    with T.sblock("B"):
                        vi, vj = T.axis.remap("SS", [i, ax0])
                        T.sblock_attr({"double_buffer_scope": 0})
                        B[vi, vj] = A[vi, vj] * 2
                for j in range(16):
                    with T.sblock("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, vj] + 1
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        node = realize.block
        index = self.block_region_buffer(node, buffer_index, "write")
        buffer = node.writes[index].buffer
        self._allocator(state, node, buffer)
        scope = state.scope_of(node)
        # A block that reads what it writes updates the current bank; only a plain writer would fill it a second time.
        others = [] if scope is None else [
            b for b in state.writers(scope, buffer)
            if b.ident is not node.ident and all(r.buffer is not buffer for r in b.reads)
        ]
        if others:
            listed = ", ".join(b.name for b in others)
            self.refuse(
                f"buffer {buffer.name} is also written by {listed}: only one block may fill it",
                [node.ident, *(b.ident for b in others)], hint="double_buffer is for copies that refill a buffer", code="writer",
            )
        annotations = {**node.annotations, "double_buffer_scope": index}
        self.commit_annotations(state, node, annotations, "double_buffer_scope", index)

    @primitive(normalize=_pair)
    def set_axis_separator(
        self, block: BlockRV | str, buffer: int | str | tuple[str, int] | Buffer, axis_separators: Sequence[int]
    ) -> None:
        """Says before which dimensions of a buffer flattening must not merge: physical dimensions of a memory.

        Args:
            block: handle or name of a block that uses the buffer.
            buffer: name, the buffer, position among those written, or ``("read" | "write", position)``.
            axis_separators: increasing dimensions; ``[1]`` on shape (2, 4096) gives banks ``[2][4096]``.

        Raises:
            ScheduleError: no such buffer, separators not increasing or not between two of its dimensions.

        After: ``B = T.sblock_alloc_buffer((2, 4096), axis_separators=[1])``.

        Before::

            B = T.sblock_alloc_buffer((16, 16), "int32")
            for i, j in T.grid(16, 16):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * 2
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + 1

        After ``sch.set_axis_separator("B", ("write", 0), [1])``::

            B = T.sblock_alloc_buffer((16, 16), "int32", axis_separators=[1])
            for i, j in T.grid(16, 16):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * 2
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + 1
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        node = realize.block
        target = self._any_buffer(node, buffer)
        seps = tuple(int(s) for s in axis_separators)
        fault = separator_fault(seps, target.ndim)
        if fault is not None:
            self.refuse(f"{fault} of {target.name}", [node.ident],
                        hint=f"increasing numbers out of {listed(map(str, range(1, target.ndim)))}" if target.ndim > 1 else "",
                        code="layout")
        if target.axis_separators == seps:
            return
        if any(c.buffer is target for c in state.func.constants):
            self.refuse(f"{target.name} is a constant, whose layout is what it is", [node.ident],
                        hint="cache_read it, and set the separators of the copy", code="layout")
        new = replace(target, axis_separators=seps)
        replacer = BufferReplacer({target: new})
        if target in state.func.params:
            params = tuple(new if p is target else p for p in state.func.params)
            body = replacer.visit_stmt(state.func.body)
            self.commit(state, func=replace(state.func, params=params, body=body))
        else:
            self._replace_buffer(state, self._allocator(state, node, target), replacer)

    def check_scope(self, storage_scope: str) -> None:
        """Refuses a name that is no memory (not traced)."""
        # Any ``local.x`` may be a memory of some machine; one letter off a known one it is none.
        close = storage_scope not in MEMORIES and get_close_matches(storage_scope, MEMORIES, 1, 0.85)
        if close or not storage_scope.startswith(SCOPES):
            near = suggest(storage_scope, (*SCOPES, *MEMORIES))
            self.refuse(f"unknown storage scope {storage_scope!r}{near}", hint=", ".join(dict.fromkeys((*MEMORIES, *SCOPES))),
                        code="argument")

    # -- shared ---------------------------------------------------------------------------------------

    def _written(self, rv: BlockRV | str, index: int | str | Buffer) -> tuple[State, Block, Buffer, int]:
        """The state, the block that allocates the n-th written buffer, that buffer and its position."""
        assert isinstance(rv, BlockRV)
        state, realize = self.block_at(rv)
        position = self.block_region_buffer(realize.block, index, "write")
        buffer = realize.block.writes[position].buffer
        return state, self._allocator(state, realize.block, buffer), buffer, position

    def _allocator(self, state: State, block: Block, buffer: Buffer) -> Block:
        """The block that allocates a buffer; parameters and views are refused."""
        around = [block, *(n for n in state.ancestors(state.realizes[block.ident]) if isinstance(n, Block))]
        for node in around:
            if any(b is buffer for b in node.alloc_buffers):
                return node
            if any(m.buffer is buffer for m in node.match_buffers):
                self.refuse(
                    f"buffer {buffer.name} is a view (match_buffer) in block {node.name}, not an allocated buffer",
                    [block.ident], hint="use the buffer that it is a view of", code="address",
                )
        return self.refuse(
            f"buffer {buffer.name} is a parameter of the function, not an allocated buffer", [block.ident],
            hint="cache_read or cache_write makes a buffer of its own", code="output",
        )

    def _any_buffer(self, block: Block, which: int | str | tuple[str, int] | Any) -> Buffer:
        if isinstance(which, tuple | list):
            kind, index = str(which[0]), int(which[1])
            if kind not in ("read", "write"):
                self.refuse(f"the kind of a buffer is 'read' or 'write', not {kind!r}", hint='e.g. ("write", 0)', code="argument")
            position = self.block_region_buffer(block, index, kind)
            return (block.reads if kind == "read" else block.writes)[position].buffer
        if isinstance(which, str):
            names = {r.buffer.name: r.buffer for r in (*block.writes, *block.reads)}
            if which not in names:
                self.refuse(f"block {block.name} has no buffer {which!r}{suggest(which, names)}", [block.ident],
                            hint=f"its buffers: {listed(names)}", code="name")
            return names[which]
        return block.writes[self.block_region_buffer(block, which, "write")].buffer

    def _replace_buffer(self, state: State, owner: Block, replacer: BufferReplacer) -> None:
        new = replacer.visit_owner(owner)
        self.commit_nodes(state, {id(owner): new})



