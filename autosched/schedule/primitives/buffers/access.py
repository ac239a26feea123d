"""What a block declares about its accesses, where the user knows better: annotate, hide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from autosched.ir.expr import Expr, Var
from autosched.ir.functor import substitute
from autosched.ir.index_map import IndexMap
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, BufferRegion, Range
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.primitives.buffers.layout_arguments import index_map_argument, legalized, map_fits


def _ranges_argument(sch: Any, args: dict[str, Any]) -> None:
    """Turns a function that gives a range per dimension into a map to all first and last (exclusive) indices."""
    if isinstance(args["block"], str):
        args["block"] = sch.get_sblock(args["block"])
    block: Block = sch.block_at(args["block"])[1].block
    func = args["gen_new_ranges"]
    if isinstance(func, IndexMap):
        return
    ndim = sch.declared(block, args["buf_type"], args["buffer_index"]).buffer.ndim

    @wraps(func)
    def flat(*indices: Any) -> list[Any]:
        got = func(*indices)
        items = list(got) if isinstance(got, list | tuple) else [got]
        if len(items) == 2 * ndim and not any(isinstance(x, list | tuple) for x in items):
            return items
        ends: list[Any] = []
        for item in items:
            ends += list(item) if isinstance(item, list | tuple) else [item, item + 1]
        return ends

    made = index_map_argument(sch, "gen_new_ranges", flat, len(block.iter_vars))
    if len(made.final) != 2 * ndim:
        sch.refuse(f"gen_new_ranges gives {len(made.final)} ends, {2 * ndim} are needed: (first, end) per dimension",
                   [block.ident],
                   hint="two results per dimension: its first index and its end", code="argument")
    names = list(func.__code__.co_varnames[: func.__code__.co_argcount]) if hasattr(func, "__code__") else []
    if len(names) == len(made.initial):
        fresh = tuple(Var(n, v.dtype) for n, v in zip(names, made.initial))
        vmap: dict[Var, Expr] = dict(zip(made.initial, fresh))
        made = IndexMap(fresh, tuple(substitute(e, vmap) for e in made.final))
    map_fits(sch, made, [iv.dom.extent for iv in block.iter_vars], block)
    args["gen_new_ranges"] = made


def _pairs(ranges: IndexMap) -> str:
    """The map as a function that gives one (first, end) per dimension."""
    from autosched.ir.printer import expr_text

    ends = [expr_text(e) for e in ranges.final]
    pairs = ", ".join(f"({lo}, {hi})" for lo, hi in zip(ends[::2], ends[1::2]))
    return f"lambda {', '.join(v.name for v in ranges.initial)}: ({pairs}{',' if len(ends) == 2 else ''})"


class Access(ScheduleBase):
    """Primitives that overrule the declared reads and writes of a block; nothing checks them."""

    @primitive(normalize=_ranges_argument, texts={"gen_new_ranges": _pairs})
    def annotate_buffer_access(
        self, block: BlockRV | str, buffer_index: int, buf_type: str, gen_new_ranges: IndexMap | Callable[..., Any]
    ) -> None:
        """Declares what one instance of a block reads or writes of a buffer, where analysis cannot know (a computed index).

        Args:
            block: handle or name.
            buffer_index: position among the buffers read or written.
            buf_type: ``read`` or ``write``.
            gen_new_ranges: gives, of the block's iterators, per dimension ``(first, end)`` or one index.

        Raises:
            ScheduleError: no such buffer, or not one range per dimension.

        After ``annotate_buffer_access("B", 0, "read", lambda i: ((i - 1, i + 2),))``: ``T.reads(A[i - 1:i + 2])`` and
        ``T.sblock_attr({"explicit_read_region": [0]})``.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2

        After ``sch.annotate_buffer_access("C", 0, "read", lambda i: ((0, i + 1),))``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    T.sblock_attr({"explicit_read_region": [0]})
                    C[vi] = A[vi] * 2
        """
        assert isinstance(block, BlockRV) and isinstance(gen_new_ranges, IndexMap)
        state, realize = self.block_at(block)
        node = realize.block
        old = self.declared(node, buf_type, buffer_index)
        analyzer = Analyzer()
        dtype = node.iter_vars[0].var.dtype if node.iter_vars else "int32"
        ends = legalized(gen_new_ranges, dtype).map_indices([iv.var for iv in node.iter_vars], analyzer)
        ranges = tuple(Range(lo, analyzer.simplify(hi - lo)) for lo, hi in zip(ends[::2], ends[1::2]))
        regions = list(node.reads if buf_type == "read" else node.writes)
        regions[buffer_index] = BufferRegion(old.buffer, ranges)
        key = f"explicit_{buf_type}_region"
        known = list(node.annotations.get(key, []))
        notes = {**node.annotations, key: known if buffer_index in known else [*known, buffer_index]}
        new = replace(node, annotations=notes)
        new = replace(new, reads=tuple(regions)) if buf_type == "read" else replace(new, writes=tuple(regions))
        self.commit_nodes(state, {id(node): new})

    @primitive
    def unsafe_hide_buffer_access(self, block: BlockRV | str, buf_type: str, buf_index_array: Sequence[int]) -> None:
        """Removes buffers from what a block declares to read or write; its dependences on them are lost.

        Args:
            block: handle or name.
            buf_type: ``read`` or ``write``.
            buf_index_array: positions among the buffers read or written.

        Raises:
            ScheduleError: no such buffer.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    T.reads(A[vi])
                    T.writes(C[vi])
                    C[vi] = A[vi] * 2

        After ``sch.unsafe_hide_buffer_access("C", "read", [0])``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    T.reads()
                    T.writes(C[vi])
                    C[vi] = A[vi] * 2
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        node = realize.block
        hidden = {int(k) for k in buf_index_array}
        for k in hidden:
            self.declared(node, buf_type, k)
        regions = node.reads if buf_type == "read" else node.writes
        kept = tuple(r for k, r in enumerate(regions) if k not in hidden)
        self.commit_nodes(
            state, {id(node): replace(node, reads=kept) if buf_type == "read" else replace(node, writes=kept)}
        )

    def declared(self, block: Block, kind: str, index: int) -> BufferRegion:
        """A declared region of a block by kind and position; refuses where there is none (not traced)."""
        if kind not in ("read", "write"):
            self.refuse(f"the kind of an access is 'read' or 'write', not {kind!r}", [block.ident], hint='"read" or "write"',
                        code="argument")
        position = self.block_region_buffer(block, int(index), kind)
        return (block.reads if kind == "read" else block.writes)[position]
