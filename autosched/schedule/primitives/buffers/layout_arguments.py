"""Buffers and index maps as arguments: given by name, by place or as a function, and refused where they do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from autosched.errors import ProgramError, suggest
from autosched.ir.expr import Expr, FloatImm, IntImm, Var, cast, is_float, is_int
from autosched.ir.functor import substitute
from autosched.ir.index_map import IndexMap
from autosched.ir.stmt import Block, Buffer, Range
from autosched.schedule.analysis.ways import listed
from autosched.schedule.kit.base import ScheduleBase


def buffer_argument(sch: Any, args: dict[str, Any]) -> Buffer:
    """Turns ``args["buffer"]`` (a name, a buffer, or where it stands) into ``(kind, position)``, and returns the buffer."""
    if isinstance(args["block"], str):
        args["block"] = sch.get_sblock(args["block"])
    node: Block = sch.block_at(args["block"])[1].block
    which = args["buffer"]
    if isinstance(which, tuple | list):
        kind = str(which[0]) if len(which) == 2 else ""
        if kind not in ("read", "write"):
            sch.refuse(f'a buffer is given by its name or as ("read" | "write", position), not {which!r}',
                       hint='e.g. ("write", 0)', code="argument")
        position = sch.block_region_buffer(node, int(which[1]), kind)
        args["buffer"] = (kind, position)
        found: Buffer = (node.reads if kind == "read" else node.writes)[position].buffer
        return found
    sides = [("write", k, r.buffer) for k, r in enumerate(node.writes)]
    sides += [("read", k, r.buffer) for k, r in enumerate(node.reads)]
    hits = [s for s in sides if s[2] is which or s[2].name == which]
    if not hits:
        name = which if isinstance(which, str) else getattr(which, "name", str(which))
        sch.refuse(f"block {node.name} uses no buffer {name!r}{suggest(name, [s[2].name for s in sides])}", [node.ident],
                   hint=f"its buffers: {listed(s[2].name for s in sides)}", code="name")
    if any(h[2] is not hits[0][2] for h in hits):
        sch.refuse(f'block {node.name} uses several buffers named {which!r}; give ("read" | "write", position)', [node.ident],
                   code="name")
    args["buffer"] = hits[0][:2]
    return hits[0][2]


def index_map_argument(sch: Any, name: str, func: Any, ndim: int, inverse: Any = None) -> IndexMap:
    """An ``IndexMap`` of a Python function, or a refusal."""
    try:
        made = IndexMap.from_func(func, ndim, inverse)
    except ProgramError as error:
        sch.refuse(f"{name}: {error}", code="argument")
        raise
    if len(made.initial) != ndim:
        sch.refuse(f"{name} takes {len(made.initial)} indices, {ndim} are needed",
                   hint=f"lambda {', '.join(f'i{k}' for k in range(ndim))}: ...", code="argument")
    return made


def layout_arguments(sch: Any, args: dict[str, Any]) -> None:
    """Turns the arguments of ``transform_layout`` into a buffer's place, an index map and a padding value of its type."""
    buffer = buffer_argument(sch, args)
    args["index_map"] = index_map_argument(sch, "index_map", args["index_map"], buffer.ndim)
    value = args["pad_value"]
    if value is None:
        return
    if isinstance(value, IntImm | FloatImm):
        if value.dtype != buffer.dtype:
            sch.refuse(f"the padding of {buffer.name} is of type {value.dtype}, its elements are {buffer.dtype}",
                       hint=f"pad_value={number_text(value.value, buffer.dtype)}", code="argument")
        args["pad_value"] = value.value
    elif callable(value) or isinstance(value, IndexMap):
        made = index_map_argument(sch, "pad_value", value, len(args["index_map"].final))
        only = made.final[0] if len(made.final) == 1 else None
        plain = isinstance(only, IntImm | FloatImm) and only.dtype == buffer.dtype
        args["pad_value"] = only.value if plain and isinstance(only, IntImm | FloatImm) else made
    elif isinstance(value, bool) or not (
        (isinstance(value, int) and is_int(buffer.dtype)) or (isinstance(value, float) and is_float(buffer.dtype))
    ):
        sch.refuse(f"the padding of {buffer.name} is {value!r}, its elements are {buffer.dtype}",
                   hint=f"pad_value={number_text(value, buffer.dtype)}", code="argument")


def number_text(value: object, dtype: str) -> str:
    """A number as an element of this type is written; 0 for what is no number."""
    number = value if isinstance(value, int | float) and isfinite(value) else 0
    return repr(float(number) if is_float(dtype) else int(number))


def iterator_map(sch: Any, args: dict[str, Any]) -> None:
    """Turns the arguments of ``transform_block_layout`` into a handle and a map of the block's iterators."""
    if isinstance(args["block"], str):
        args["block"] = sch.get_sblock(args["block"])
    block = sch.block_at(args["block"])[1].block
    args["index_map"] = index_map_argument(sch, "index_map", args["index_map"], len(block.iter_vars))


def map_fits(sch: ScheduleBase, mapping: IndexMap, shape: Sequence[Expr], block: Block) -> None:
    """Refuses an index map of which a result over a shape leaves its integer type."""
    whole = legalized(mapping, shape[0].dtype if shape else "int32")
    dom = {v: Range(IntImm(0, v.dtype), size) for v, size in zip(whole.initial, shape)}
    sch.indices_fit(whole.final, dom, [block.ident])


def legalized(mapping: IndexMap, dtype: str) -> IndexMap:
    """An index map over indices of another integer type."""
    if all(v.dtype == dtype for v in mapping.initial) and all(e.dtype == dtype for e in mapping.final):
        return mapping
    initial = tuple(v if v.dtype == dtype else Var(v.name, dtype) for v in mapping.initial)
    vmap: Mapping[Var, Expr] = dict(zip(mapping.initial, initial))
    final = tuple(substitute(e, vmap) for e in mapping.final)
    index = tuple(cast(dtype, e) if is_int(e.dtype) else e for e in final)
    back = None if mapping.known_inverse is None else legalized(mapping.known_inverse, dtype)
    return IndexMap(initial, index, mapping.axis_separators, back)
