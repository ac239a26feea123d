"""Layouts: the order and the number of a buffer's dimensions, and of a block's iterators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import isfinite, prod
from typing import Any

from autosched.errors import ProgramError, suggest
from autosched.ir.expr import (
    BinOp,
    BufferData,
    BufferLoad,
    Call,
    Expr,
    FloatImm,
    IntImm,
    Not,
    Var,
    as_expr,
    cast,
    int_value,
    is_float,
    is_int,
)
from autosched.ir.functor import Mutator, Substitute, free_vars, stmt_exprs, substitute, walk, walk_expr
from autosched.ir.index_map import IndexMap
from autosched.ir.itermap import iter_map_simplify
from autosched.ir.region import block_access
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    IterVar,
    Range,
    Stmt,
    full_region,
    separator_fault,
    seq,
)
from autosched.schedule.analysis.bindings import facts, is_fixed
from autosched.schedule.analysis.ways import for_map, listed
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.once import Again, afresh, once
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.state import State, below
from autosched.schedule.kit.walks import Walk, walked
from autosched.schedule.primitives.buffers.layout_padding import Padding, nest, pad


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


def _layout_arguments(sch: Any, args: dict[str, Any]) -> None:
    buffer = buffer_argument(sch, args)
    args["index_map"] = index_map_argument(sch, "index_map", args["index_map"], buffer.ndim)
    value = args["pad_value"]
    if value is None:
        return
    if isinstance(value, IntImm | FloatImm):
        if value.dtype != buffer.dtype:
            sch.refuse(f"the padding of {buffer.name} is of type {value.dtype}, its elements are {buffer.dtype}",
                       hint=f"pad_value={_number(value.value, buffer.dtype)}", code="argument")
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
                   hint=f"pad_value={_number(value, buffer.dtype)}", code="argument")


def _number(value: object, dtype: str) -> str:
    """A number as an element of this type is written; 0 for what is no number."""
    number = value if isinstance(value, int | float) and isfinite(value) else 0
    return repr(float(number) if is_float(dtype) else int(number))


def _iterator_map(sch: Any, args: dict[str, Any]) -> None:
    if isinstance(args["block"], str):
        args["block"] = sch.get_sblock(args["block"])
    block = sch.block_at(args["block"])[1].block
    args["index_map"] = index_map_argument(sch, "index_map", args["index_map"], len(block.iter_vars))

MOST_TRIED = 1 << 16  # elements of a buffer of which each pair is told apart


class Layout(ScheduleBase):
    """Primitives that change how a buffer, or the domain of a block, is indexed."""

    @primitive(
        normalize=_layout_arguments, keep_none=("pad_value",),
        local=lambda args: "each" if args.get("pad_value") is None and not isinstance(args.get("buffer"), str) else "",
    )
    def transform_layout(
        self, block: BlockRV | str, buffer: str | tuple[str, int] | Buffer, index_map: IndexMap | Callable[..., Any],
        pad_value: int | float | Expr | IndexMap | Callable[..., Any] | None = None,
        assume_injective_transform: bool = False,
    ) -> None:
        """Gives a buffer another layout, wherever it is used.

        Args:
            block: handle or name of a block that uses the buffer.
            buffer: name, the buffer, or ``("read" | "write", position)``.
            index_map: from old indices to new ones; ``AXIS_SEPARATOR`` between indices marks a physical dimension.
            pad_value: what elements hold that the map leaves unused: a number of the buffer's type, or a function of the
                new indices. None: the map may leave none unused.
            assume_injective_transform: do not ask for a proof that the map is one to one; of a buffer of up to 2^16
                elements all are tried, and a map that sends two to one place is refused in any case.

        Raises:
            ScheduleError: a view or a viewed buffer, a map that is not one to one, unused elements without a
                ``pad_value``, a ``pad_value`` of another type or that reads another buffer.

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

        After ``sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4))``::

            B = T.sblock_alloc_buffer((4, 4), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi // 4, vi % 4] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi // 4, vi % 4] + 1
        """
        assert isinstance(block, BlockRV) and isinstance(index_map, IndexMap) and isinstance(buffer, tuple)
        state, realize = self.block_at(block)
        node = realize.block
        kind, position = buffer
        old = (node.reads if kind == "read" else node.writes)[position].buffer
        owner = self._defining(state, node, old)
        scope = state.root if owner is None else owner
        if any(c.buffer is old for c in state.func.constants):
            self.refuse(f"{old.name} is a constant, whose elements lie as they are", [node.ident],
                        hint="cache_read it, and transform the copy", code="layout")
        self._no_views(state, scope, old)
        mapping = legalized(index_map, old.shape[0].dtype if old.shape else "int32")
        map_fits(self, mapping, old.shape, node)
        value = self._pad_function(old, mapping, pad_value)
        analyzer = Analyzer()
        # A map that uses nothing from outside is known by its text.
        text = str(mapping.to_data()) if all(v in mapping.initial for e in mapping.final for v in free_vars(e)) else ""
        known = once if text else afresh
        inverse, predicate = mapping, as_expr(False)
        if not assume_injective_transform:
            try:
                inverted = partial(mapping.non_surjective_inverse, old.shape, analyzer)
                inverse, predicate = known(inverted, "inverse", text, old.shape)
            except ProgramError as error:
                self.refuse(f"{error} ({mapping} on {old.name})", [node.ident],
                            hint="assume_injective_transform=True, if you know that it is one to one", code="layout")
        else:
            self._surely_not_injective(node, old, mapping)
        try:
            shape = known(partial(mapping.map_shape, old.shape, analyzer), "mapped shape", text, old.shape)
        except ProgramError as error:
            self.refuse(f"{error} ({mapping} on {old.name})", [node.ident], hint=for_map(str(error)), code="layout")
        if predicate != as_expr(False) and value is None:
            from autosched.ir.printer import expr_text

            sizes = ", ".join(expr_text(s) for s in shape)
            self.refuse(
                f"the layout ({sizes}) of {old.name} has elements that are not used: where {expr_text(predicate)}",
                [node.ident], hint=f"pad_value={_number(0, old.dtype)} (or what those elements should hold), or "
                "assume_injective_transform=True, which leaves them unset", code="layout",
            )
        separators = mapping.axis_separators
        if not separators and len(shape) == old.ndim:
            separators = old.axis_separators
        fault = separator_fault(separators, len(shape))
        if fault is not None:
            self.refuse(f"{fault} of the new {old.name}", [node.ident], code="layout")
        if scope is not state.root:
            self.looks_far()
        again = once if state.trusted and scope is state.root and scope.init is None and value is None and text else afresh
        made = partial(replace, old, shape=shape, strides=(), axis_separators=separators)
        new = again(made, "laid out", old, text)
        work = scope
        if value is not None and predicate != as_expr(False):
            work = pad(work, Padding(old, new, inverse, predicate, value))
        changed = _Relayout(old, new, mapping, state, scope, again).visit_owner(work)
        body = state.rewrite({id(scope): changed})
        params = tuple(new if p is old else p for p in state.func.params)
        self.commit(state, func=replace(state.func, params=params, body=body))

    @primitive(normalize=_iterator_map, local="handles")
    def transform_block_layout(self, block: BlockRV | str, index_map: IndexMap | Callable[..., Any]) -> None:
        """Gives a block other iterators, each a function of the old ones, in loops of their own.

        Args:
            block: handle or name of a block whose iterators are the loops around it, one each.
            index_map: from old iterators to new ones, one to one; each new one uses iterators of one kind.

        Raises:
            ScheduleError: other bindings than loops, loops shared with other blocks, a map that is not one to one and
                affine, or that mixes kinds of iterators.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * 2

        After ``sch.transform_block_layout("C", lambda i, j: (i * 16 + j,))``::

            for ax0 in range(256):
                with T.sblock("C"):
                    v0 = T.axis.spatial(256, ax0)
                    C[v0 // 16, v0 % 16] = A[v0 // 16, v0 % 16] * 2
        """
        assert isinstance(block, BlockRV) and isinstance(index_map, IndexMap)
        state, realize = self.block_at(block)
        node = realize.block
        loops = state.loops_above(realize)
        self._own_nest(state, realize, loops)
        sizes = [iv.dom.extent for iv in node.iter_vars]
        mapping = legalized(index_map, sizes[0].dtype if sizes else "int32")
        map_fits(self, mapping, sizes, node)
        kinds = {iv.var: iv.kind for iv in node.iter_vars}
        analyzer = Analyzer()
        images = mapping.map_indices([iv.var for iv in node.iter_vars], analyzer)
        try:
            inverse = mapping.inverse(sizes, analyzer)
            shape = mapping.map_shape(sizes, analyzer)
        except ProgramError as error:
            self.refuse(f"the map {mapping} is not bijective and affine: {error}", [node.ident], hint=for_map(str(error)),
                        code="layout")
        iters: list[IterVar] = []
        for k, (image, extent) in enumerate(zip(images, shape)):
            found = {kinds[v] for v in free_vars(image) if v in kinds}
            kind = "spatial" if extent == as_expr(1, extent.dtype) else found.pop() if len(found) == 1 else "opaque"
            if kind == "opaque":
                from autosched.ir.printer import expr_text

                self.refuse(f"the new iterator {expr_text(image)} is made of iterators of several kinds", [node.ident],
                            hint="keep spatial and reduction iterators apart", code="layout")
            var = Var(f"v{k}", image.dtype)
            iters.append(IterVar(var, Range(as_expr(0, var.dtype), cast(var.dtype, extent)), kind))
        back = dict(zip(kinds, inverse.map_indices([iv.var for iv in iters], analyzer)))
        # An iterator that is kept stays a variable, even one that can only be 0.
        back.update((image, iv.var) for image, iv in zip(images, iters) if isinstance(image, Var) and image in kinds)
        moved = Substitute(back).visit_block(replace(node, iter_vars=()))
        new = _Simplified({}).visit_block(replace(moved, iter_vars=tuple(iters)))
        variables = [Var(f"ax{k}", iv.var.dtype) for k, iv in enumerate(iters)]
        old_loops = dict(zip([x.var for x in loops], inverse.map_indices(variables, analyzer)))
        predicate = substitute(realize.predicate, old_loops)
        whole = nest(
            [(v, iv.dom.extent) for v, iv in zip(variables, iters)], BlockRealize(tuple(variables), predicate, new)
        )
        self.commit_nodes(state, {id(loops[0] if loops else realize): whole})

    # -- checks ---------------------------------------------------------------------------------------

    def _defining(self, state: State, block: Block, buffer: Buffer) -> Block | None:
        """The block that allocates a buffer; None for a parameter. Views are refused."""
        around = [block, *(n for n in state.ancestors(state.realizes[block.ident]) if isinstance(n, Block))]
        for node in around:
            if any(b is buffer for b in node.alloc_buffers):
                return node
            if any(m.buffer is buffer for m in node.match_buffers):
                self.refuse(
                    f"buffer {buffer.name} is a view (match_buffer) in block {node.name}; a parameter or an allocated "
                    "buffer is needed", [block.ident], hint="use the buffer that it is a view of", code="address",
                )
        return None

    def _no_views(self, state: State, scope: Block, buffer: Buffer) -> None:
        """Refuses a buffer whose layout is fixed by a view of it, or because its address is taken."""
        if not is_fixed(scope, buffer):
            return
        for stmt in walk(scope):
            if isinstance(stmt, Block) and any(m.source.buffer is buffer for m in stmt.match_buffers):
                self.refuse(f"block {stmt.name} has a view of {buffer.name}, whose layout it relies on", [stmt.ident],
                            hint=f"{self._op} before tensorize", code="address")
            for expr in stmt_exprs(stmt):
                if any(isinstance(e, BufferData) and e.buffer is buffer for e in walk_expr(expr)):
                    self.refuse(f"the address of {buffer.name} is taken, so its layout is fixed", [stmt], state=state,
                                hint=f"{self._op} before tensorize", code="address")

    def _surely_not_injective(self, block: Block, buffer: Buffer, mapping: IndexMap) -> None:
        """Refuses a map of which two elements can be shown that share a place."""
        sizes = [s.value for s in buffer.shape if isinstance(s, IntImm)]
        if len(sizes) < buffer.ndim or len(sizes) != len(mapping.initial) or not 0 < prod(sizes) <= MOST_TRIED:
            return
        pair = mapping.collision(sizes)
        if pair is not None:
            one, two = (f"{buffer.name}[{', '.join(map(str, p))}]" for p in pair)
            self.refuse(f"the index map sends {one} and {two} to one place ({mapping} on {buffer.name})", [block.ident],
                        hint="assume_injective_transform is for maps that are one to one and cannot be shown to be",
                        code="layout")

    def _pad_function(
        self, buffer: Buffer, mapping: IndexMap, value: Any
    ) -> Callable[[Sequence[Expr]], Expr] | None:
        """What padding holds, by its indices."""
        if value is None:
            return None
        if not isinstance(value, IndexMap):
            return lambda indices: as_expr(value, buffer.dtype)
        if len(value.final) != 1:
            self.refuse(f"pad_value gives {len(value.final)} values, one is needed",
                        hint="a number, or a function of the new indices that returns one value", code="argument")
        result = value.final[0]
        for e in walk_expr(result):
            if isinstance(e, BufferLoad):
                self.refuse(f"pad_value reads {e.buffer.name}; it may only depend on the indices",
                            hint="a number or a function of the new indices", code="argument")
        if result.dtype != buffer.dtype:
            self.refuse(f"pad_value is of type {result.dtype}, the elements of {buffer.name} are {buffer.dtype}", code="argument")

        def at(indices: Sequence[Expr]) -> Expr:
            return cast(buffer.dtype, legalized(value, mapping.final[0].dtype).map_indices(indices)[0])

        return at

    def _own_nest(self, state: State, realize: BlockRealize, loops: Sequence[For]) -> None:
        """Refuses a block that shares its loops, or whose iterators are not those loops."""
        node = realize.block
        chain = [*loops, realize]
        for outer, inner in pairwise(chain):
            if isinstance(outer, For) and outer.body is not inner:
                self.refuse(f"loop {outer.var.name} holds more than block {node.name}", [outer.var, node.ident],
                            hint="compute_at and loop_partition come after", code="place")
        for loop in loops:
            if loop.min != as_expr(0, loop.min.dtype):
                self.refuse(f"loop {loop.var.name} does not start at 0", [loop.var], code="loop")
        if len(loops) != len(realize.iter_values) or any(v is not x.var for v, x in zip(realize.iter_values, loops)):
            self.refuse(f"the iterators of block {node.name} are not the loops around it, one each, in order", [node.ident],
                        hint=f"{self._op} before split, fuse and reorder", code="index")
        for iv in node.iter_vars:
            if iv.dom.min != as_expr(0, iv.dom.min.dtype):
                self.refuse(f"iterator {iv.var.name} of block {node.name} does not start at 0", [node.ident], code="loop")


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


class _Scoped(Mutator):
    """A rewrite that knows the ranges of loops and iterators around it, and the conditions under which a value is used."""

    def __init__(self, dom: Mapping[Var, Range]) -> None:
        self.dom = dict(dom)
        self.given: tuple[Expr, ...] = ()

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            self.dom[stmt.var] = Range(stmt.min, stmt.extent)
        return super().visit_stmt(stmt)

    def visit_expr(self, expr: Expr) -> Expr:
        # Only the chosen operand of if_then_else is evaluated; a Select evaluates both.
        if not isinstance(expr, Call) or expr.op != "if_then_else":
            return super().visit_expr(expr)
        condition, there, here = expr.args
        sure = self._sure(condition)
        if sure is not None:
            return self.visit_expr(there if sure else here)
        outside = self.given
        new = self.visit_expr(condition)
        self.given = (*outside, condition)
        there = self.visit_expr(there)
        self.given = (*outside, Not(condition))
        here = self.visit_expr(here)
        self.given = outside
        same = new is condition and there is expr.args[1] and here is expr.args[2]
        return expr if same else Call(expr.op, (new, there, here), expr.dtype)

    def visit_block(self, block: Block) -> Block:
        for iv in block.iter_vars:
            self.dom[iv.var] = iv.dom
        return super().visit_block(block)

    def _sure(self, condition: Expr) -> int | None:
        """What iterators that have one value make of a condition: in indices they become that value, out of bounds maybe."""
        fixed = {v: self.dom[v] for v in free_vars(condition) if v in self.dom and int_value(self.dom[v].extent) == 1}
        return int_value(Analyzer(fixed).simplify(condition)) if fixed else None

    def digits(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Indices in the form that their digits give; a plain variable never becomes a constant."""
        names = {v for i in indices for v in free_vars(i)}
        dom = {v: r for v, r in self.dom.items() if v in names}
        new = iter_map_simplify(indices, dom, check="surjective", analyzer=Analyzer(dom))
        if self.given:
            names.update(v for condition in self.given for v in free_vars(condition))
            known = Analyzer({v: r for v, r in self.dom.items() if v in names})
            for condition in self.given:
                known.assume(condition)
            values = [None if isinstance(e, Var) else known.const_value(e) for e in new]
            new = tuple([e if c is None else as_expr(c, e.dtype) for e, c in zip(new, values)])
        return tuple(a if isinstance(b, IntImm) and isinstance(a, Var) else b for a, b in zip(indices, new))


class _Relayout(_Scoped):
    """Maps every access of a buffer to its new layout; regions of it are worked out again from the bodies."""

    def __init__(self, old: Buffer, new: Buffer, mapping: IndexMap, state: State, owner: Block, again: Again) -> None:
        super().__init__(state.ranges_at(owner))
        self.old, self.new, self.mapping, self.again = old, new, mapping, again

    def visit_owner(self, block: Block) -> Block:
        """Rewrites the block around all accesses."""
        if self.again is afresh:
            return self._block(block)
        stmts = [
            self.again(partial(self.visit_stmt, stmt), "laid out", stmt, self.new) if self._concerns(walked(stmt)) else stmt
            for stmt in below(block)
        ]
        return self._renamed(replace(block, body=seq(*stmts)))

    def _concerns(self, walk: Walk) -> bool:
        return self.old in walk.touched or self.old in walk.binding

    def visit_block(self, block: Block) -> Block:
        return self._block(block) if self.old in facts(block).buffers else block

    def _block(self, block: Block) -> Block:
        return self._renamed(super().visit_block(block))

    def _renamed(self, new: Block) -> Block:
        """A block whose body has the new accesses, with the new buffer in what it declares."""
        allocs = tuple(self.new if b is self.old else b for b in new.alloc_buffers)
        sides = (new.reads, new.writes)
        if any(r.buffer is self.old for side in sides for r in side):
            access = block_access(new, [self.new])
            sides = (self._regions(new.reads, access[0]), self._regions(new.writes, access[1]))
        return replace(new, alloc_buffers=allocs, reads=sides[0], writes=sides[1])

    def _regions(
        self, declared: Sequence[BufferRegion], found: Sequence[BufferRegion]
    ) -> tuple[BufferRegion, ...]:
        region = found[0] if found else full_region(self.new)
        return tuple(region if r.buffer is self.old else r for r in declared)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        # Where another buffer is touched may be read from this one.
        return region if region.buffer is self.old else super().visit_region(region)

    def mapped(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The new indices of an access; digits of a sum are the sum of digits where nothing carries over."""
        new = self.digits(self.mapping.map_indices(indices))
        return tuple([Analyzer(self.dom).simplify(e) if _has_digits(e) else e for e in new])

    def visit_load(self, load: BufferLoad) -> Expr:
        new = super().visit_load(load)
        if isinstance(new, BufferLoad) and new.buffer is self.old:
            return BufferLoad(self.new, self.mapped(new.indices), self.new.dtype)
        return new

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        new = super().visit_stmt(stmt)
        if isinstance(new, BufferStore) and new.buffer is self.old:
            return BufferStore(self.new, self.mapped(new.indices), new.value)
        return new


def _has_digits(index: Expr) -> bool:
    """Whether an index takes digits of something."""
    return any(isinstance(e, BinOp) and e.op in ("//", "%") for e in walk_expr(index))


class _Simplified(_Scoped):
    """Simplifies the indices of accesses and regions."""

    def indices(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Indices in normal form."""
        analyzer = Analyzer(self.dom)
        return self.digits([i if isinstance(i, Var) else analyzer.simplify(i) for i in indices])

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        analyzer = Analyzer(self.dom)
        mins = self.indices([r.min for r in region.region])
        return BufferRegion(
            region.buffer, tuple(Range(lo, analyzer.simplify(r.extent)) for lo, r in zip(mins, region.region))
        )

    def visit_load(self, load: BufferLoad) -> Expr:
        new = super().visit_load(load)
        assert isinstance(new, BufferLoad)
        return BufferLoad(new.buffer, self.indices(new.indices), new.dtype)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        new = super().visit_stmt(stmt)
        if isinstance(new, BufferStore):
            return BufferStore(new.buffer, self.indices(new.indices), new.value)
        return new
