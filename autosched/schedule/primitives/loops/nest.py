"""Loops: split, fuse, reorder, unit loops. Partition and merge are in ``partition``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from autosched.errors import together
from autosched.ir.expr import Expr, IntImm, Var, bits, cast, const, int_value
from autosched.ir.functor import free_vars, uses, walk
from autosched.ir.print_expr import expr_text
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Block, BlockRealize, For, IterVar, Range, Stmt, with_body
from autosched.schedule.analysis.bindings import Rebinder, loop_dom
from autosched.schedule.analysis.dependence import not_accumulating
from autosched.schedule.analysis.init_first import late
from autosched.schedule.analysis.iterations import conflicts, require_bounds, told, touched
from autosched.schedule.analysis.one_to_one import affine_binding, drives_one_each
from autosched.schedule.analysis.ways import inner_blocks
from autosched.schedule.kit.base import ArgumentError, BlockRV, ExprRV, LoopRV, ScheduleBase
from autosched.schedule.kit.limits import Overflow, count
from autosched.schedule.kit.names import fresh_name, is_name, name_list
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.kit.walks import outside, walked

Factors = Sequence[int | ExprRV | None]


def _split_sugar(sch: Any, args: dict[str, Any]) -> None:
    """``"i => i0, i1"``: the loop's name and the names of the results in one string."""
    loop, names = args["loop"], args["names"]
    if isinstance(loop, str) and "=>" in loop:
        left, _, right = loop.partition("=>")
        args["loop"] = left.strip()
        if names is not None:
            sch.refuse("names are given twice: in the string and by names=", hint="drop one of the two", code="argument")
        if "," in left:
            sch.refuse(f"{loop!r} names several loops to split", hint='one loop at a time: split("i => i0, i1", ...)',
                       code="name")
        names = args["names"] = name_list(right)
    if names is not None:
        args["names"] = list(names)
        for name in names:
            _check_name(sch, name)
        twice = next((n for i, n in enumerate(names) if n in names[:i]), None)
        if twice is not None:
            sch.refuse(f"name {twice!r} is given to two of the new loops", code="argument")


def _fuse_sugar(sch: Any, args: dict[str, Any]) -> None:
    """``"i, j => ij"``: the names of the loops and that of the result in one string."""
    loops = args["loops"]
    if len(loops) == 1 and isinstance(loops[0], str) and "=>" in loops[0]:
        left, _, right = loops[0].partition("=>")
        if args["name"] is not None:
            sch.refuse("a name is given twice: in the string and by name=", hint="drop one of the two", code="argument")
        args["loops"], names = tuple(name_list(left)), name_list(right)
        if len(names) != 1:
            sch.refuse(f"{loops[0]!r} names {len(names)} loops for the result", hint='one name: fuse("i, j => ij")',
                       code="argument")
        args["name"] = names[0]
    if args["name"] is not None:
        _check_name(sch, args["name"])


def _check_name(sch: Any, name: str) -> None:
    if not is_name(name):
        sch.refuse(f"{name!r} is no name of a loop", hint="letters, digits and underscores; no word of Python, nor T, I, range",
                   code="name")


class Loops(ScheduleBase):
    """Primitives that change loops and leave the order of block instances, or are shown not to mind it."""

    @primitive(
        normalize=_split_sugar, labels=("names",), local="handles",
        elsewhere={"factor": "factors=[None, {}]", "nparts": "factors=[{}, None]"},
    )
    def split(
        self, loop: LoopRV | str, factors: Sequence[int | ExprRV | None], preserve_unit_iters: bool = True,
        disable_predication: bool = False, names: Sequence[str] | None = None,
    ) -> list[LoopRV]:
        """Splits a loop into nested loops.

        Args:
            loop: handle or name of a loop from 0 without annotations and thread binding; also ``"i => i0, i1, i2"``,
                which names the results (they may stand in parentheses).
            factors: extents of the new loops, outermost first; one may be None and is inferred (rounded up).
            preserve_unit_iters: keep loops of extent one in the block bindings.
            disable_predication: the caller promises that the product fits; no predicate is added.
            names: names of the new loops, which no other loop of the nest has; default ``i_0``, ``i_1``...

        Raises:
            ScheduleError: two unknown factors, a factor below one, a product below the extent or beyond the loop's
                integer type, an annotated or bound loop, a name that is taken.

        Where the product of the factors exceeds the extent, the block gets the predicate that its index is below the extent.

        Before::

            for i in range(128):
                with T.sblock("C"):
                    vi = T.axis.spatial(128, i)
                    C[vi] = A[vi] * 2

        After ``sch.split("i", factors=[None, 32])``::

            for i_0, i_1 in T.grid(4, 32):
                with T.sblock("C"):
                    vi = T.axis.spatial(128, i_0 * 32 + i_1)
                    C[vi] = A[vi] * 2
        """
        assert isinstance(loop, LoopRV)
        state, node = self.loop_at(loop)
        sizes = self._factors(node, factors)
        self._plain_loop(state, node)
        if names is not None and len(names) != len(sizes):
            self.refuse(f"{len(names)} names for {len(sizes)} factors", [node.var], hint="one name per factor", code="argument")
        dtype = node.var.dtype
        defaults = [self._lineage.split_name(node.var, i) for i in range(len(sizes))]
        news = [Var(name, dtype) for name in self._new_names(state, [node], defaults, names)]
        analyzer = Analyzer()
        for outer in state.loops_above(node):
            analyzer.bind(outer.var, Range(outer.min, outer.extent))
        value: Expr = const(0, dtype)
        for var, size in zip(news, sizes):
            value = value * size + var
            analyzer.bind(var, Range(const(0, dtype), size))
        guard = None
        if not disable_predication and not analyzer.can_prove(value < node.extent):
            guard = value < node.extent
        self._remember_affine(state, node)
        dom = loop_dom(state.loops_above(node))
        dom.update({v: Range(const(0, dtype), s) for v, s in zip(news, sizes)})
        new: Stmt = Rebinder({node.var: value}, guard, dom, preserve_unit_iters).visit_stmt(node.body)
        for var, size in reversed(list(zip(news, sizes))):
            new = For(var, const(0, dtype), size, "serial", new)
        self.commit_nodes(state, {id(node): new})
        self._lineage.split(node.var, news)
        return [self.loop_rv(var) for var in news]

    def _new_names(
        self, state: State, replaced: Sequence[For], defaults: Sequence[str], chosen: Sequence[str] | None
    ) -> list[str]:
        """Names that no other loop around or inside has: the chosen ones, or the defaults, numbered where they are taken.

        Args:
            state: the program.
            replaced: loops that go, outermost first; their names are free.
            defaults: names to use if none are chosen.
            chosen: what the caller asks for, or None.
        """
        gone = {n.var for n in replaced}
        near = [*(n for n in state.ancestors(replaced[0]) if isinstance(n, For)),
                *(n for n in walk(replaced[-1].body) if isinstance(n, For))]
        taken = {n.var.name: n.var for n in near if n.var not in gone}
        if chosen is not None:
            for name in chosen:
                if name in taken:
                    self.refuse(f"another loop of the nest has the name {name!r}", [taken[name]], hint="choose another name",
                                code="name")
            return list(chosen)
        found: list[str] = []
        for name in defaults:
            found.append(fresh_name(name, {*taken, *found}))
        return found

    def _factors(self, node: For, factors: Factors) -> list[Expr]:
        """Extents of the new loops with the unknown one inferred."""
        dtype = node.extent.dtype
        known = [None if f is None else self.int_of(f) for f in factors]
        if not known:
            self.refuse("no factors are given", [node.var], hint="factors=[None, 4]", code="argument")
        if known.count(None) > 1:
            self.refuse("only one factor can be None", [node.var], hint="give all factors but one", code="argument")
        for i, f in enumerate(known):
            if f is not None and f < 1:
                self.refuse(f"factors are positive, but the one at position {i} is {f}", [node.var], hint="factors=[None, 4]",
                            code="argument")
        extent = int_value(node.extent)
        name = node.var.name
        try:
            total = count([f for f in known if f is not None], dtype, f"the loops made of {name}")
            if extent is not None and None in known:
                rest = -(-extent // total)
                count([rest, total], dtype, f"the loops made of {name}")
                return [const(rest if f is None else f, dtype) for f in known]
        except Overflow as error:
            self.refuse(str(error), [node.var], hint="smaller factors", code="range")
        if None in known:
            inferred = simplify((node.extent + (total - 1)) // total)
            return [inferred if f is None else const(f, dtype) for f in known]
        if extent is None or total < extent:
            text = f"the extent {extent}" if extent is not None else "its symbolic extent"
            if extent is not None or not Analyzer().can_prove(node.extent <= total):
                self.refuse(
                    f"the product of the factors, {total}, is not larger than or equal to {text} of loop "
                    f"{node.var.name}", [node.var], hint="leave the outermost factor out: None is inferred", code="argument",
                )
        return [const(f, dtype) for f in known if f is not None]

    def _plain_loop(self, state: State, node: For) -> None:
        """Refuses loops that carry what a rewrite would lose, and loops that do not start at zero."""
        name = node.var.name
        if node.thread is not None:
            hint = f"{self._op} before bind"
            self.refuse(f"loop {name} is bound to {node.thread}", [node.var], state=state, hint=hint, code="loop")
        if node.annotations:
            keys = ", ".join(node.annotations)
            self.refuse(f"loop {name} has annotations ({keys})", [node.var], state=state,
                        hint=f"{self._op} before annotate, or unannotate first", code="loop")
        if int_value(node.min) != 0 and not Analyzer().can_prove_equal(node.min, 0):
            self.refuse(f"loop {name} does not start at 0", [node.var], state=state, code="loop")

    @primitive(normalize=_fuse_sugar, labels=("name",))
    def fuse(self, *loops: LoopRV | str, preserve_unit_iters: bool = True, name: str | None = None) -> LoopRV:
        """Fuses perfectly nested loops into one.

        Args:
            loops: handles or names, outermost first; each the only statement inside the one before. Also
                ``"i, j => ij"``, which names the result.
            preserve_unit_iters: keep loops of extent one in the block bindings.
            name: name of the new loop, which no other loop of the nest has; default: that of the loop of which a split
                made exactly these, else ``i_j_fused``, shortened where it becomes long.

        Raises:
            ScheduleError: not perfectly nested in this order, annotated or bound loops, an extent that depends on
                another of the loops, an inner loop that never runs, more iterations than the integer type of the loops
                counts, a name that is taken.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * 2

        After ``sch.fuse("i", "j")``::

            for i_j_fused in range(256):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i_j_fused // 16)
                    vj = T.axis.spatial(16, i_j_fused % 16)
                    C[vi, vj] = A[vi, vj] * 2
        """
        if not loops:
            self.refuse("at least one loop is needed", error=ArgumentError, code="argument")
        state, nodes = self.loops_at([x for x in loops if isinstance(x, LoopRV)])
        for node in nodes:
            self._plain_loop(state, node)
        for outer, inner in pairwise(nodes):
            self._nested(state, outer, inner)
        for i, node in enumerate(nodes):
            used = free_vars(node.extent)
            for outer in nodes[:i]:
                if outer.var in used:
                    self.refuse(f"the extent of loop {node.var.name} depends on loop {outer.var.name}", [node.var],
                                hint="fuse loops whose extents do not depend on each other", code="loop")
        never = next((n for n in nodes[1:] if int_value(n.extent) == 0), None)
        if never is not None:
            # The loops before it would be quotients by its extent.
            self.refuse(f"loop {never.var.name} never runs, and cannot be told from the others in a fused loop", [never.var],
                        code="loop")
        dtype = max((n.var.dtype for n in nodes), key=bits)
        try:
            count([n.extent for n in nodes], dtype, "the fused loop")
        except Overflow as error:
            self.refuse(str(error), [n.var for n in nodes], hint="fuse fewer loops, or declare their extents as int64",
                        code="range")
        old = [n.var for n in nodes]
        fused = Var(self._new_names(state, nodes, [self._lineage.fused_name(old)], None if name is None else [name])[0], dtype)
        vmap: dict[Var, Expr] = {}
        lower: Expr = const(1, dtype)
        for i in range(len(nodes) - 1, -1, -1):
            node = nodes[i]
            if int_value(node.extent) == 1:
                vmap[node.var] = const(0, node.var.dtype)
                continue
            if i == 0:
                vmap[node.var] = cast(node.var.dtype, fused // lower)
                continue
            upper = simplify(node.extent * lower)
            vmap[node.var] = cast(node.var.dtype, fused % upper // lower)
            lower = upper
        extent: Expr = const(1, dtype)
        for node in nodes:
            extent = extent * node.extent
        if sum(int_value(node.extent) is None for node in nodes) < 2:
            # A product of several symbolic extents stays in the order of the loops.
            extent = simplify(extent)
        self._remember_affine(state, nodes[0])
        dom = loop_dom(state.loops_above(nodes[0]))
        dom[fused] = Range(const(0, dtype), extent)
        body = Rebinder(vmap, None, dom, preserve_unit_iters).visit_stmt(nodes[-1].body)
        self.commit_nodes(state, {id(nodes[0]): For(fused, const(0, dtype), extent, "serial", body)})
        self._lineage.fuse(old, fused)
        return self.loop_rv(fused)

    def _nested(self, state: State, outer: For, inner: For) -> None:
        """Refuses loops of which the second is not the only statement inside the first."""
        if outer.body is inner:
            return
        above = state.loops_above(inner)
        if any(n is outer for n in above):
            if above[-1] is outer:
                self.refuse(f"loop {inner.var.name} is not the only child of loop {outer.var.name}",
                            [outer.var, inner.var], hint="move the other statements away first (compute_at)", code="place")
            self.refuse(f"loops stand between {outer.var.name} and {inner.var.name}", [outer.var, inner.var],
                        hint="list all loops from the outermost to the innermost, or reorder first", code="place")
        self.refuse(f"loop {outer.var.name} is not the parent of loop {inner.var.name}", [outer.var, inner.var],
                    hint="list the loops from the outermost to the innermost", code="place")

    @primitive(local="handles")
    def reorder(self, *ordered_loops: LoopRV | str) -> None:
        """Puts loops of one chain into a new order; loops in between stay where they are.

        Args:
            ordered_loops: handles or names in the new order, outermost first.

        Raises:
            ScheduleError: a loop given twice, loops not in one chain of single children, a block below with iterators
                other than spatial and reduction or bindings that are not affine, an extent that would depend on an
                inner loop, stores outside of blocks whose order would change.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * 2

        After ``sch.reorder("j", "i")``::

            for j, i in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * 2
        """
        if len(ordered_loops) < 2:
            return
        state, nodes = self.loops_at([x for x in ordered_loops if isinstance(x, LoopRV)])
        chosen = set()
        for node in nodes:
            if node.var in chosen:
                self.refuse(f"loop {node.var.name} is given twice", [node.var], hint="list each loop once, in the new order",
                            code="argument")
            chosen.add(node.var)
        chain = self._chain(state, nodes)
        self._reorderable(state, chain)
        order = iter(nodes)
        new_order = [next(order) if n.var in chosen else n for n in chain]
        self._init_first(state, chain, new_order)
        self._stores_in_order(state, chain, new_order)
        seen: set[Var] = {n.var for n in new_order}
        for node in new_order:
            for var in free_vars(node.min) | free_vars(node.extent):
                if var in seen:
                    self.refuse(f"the range of loop {node.var.name} would depend on loop {var.name}, inside it",
                                [node.var, var],
                                hint=f"keep {var.name} outside of {node.var.name}", code="loop")
            seen.discard(node.var)
        new: Stmt = chain[-1].body
        for node in reversed(new_order):
            new = with_body(node, new)
        self.commit_nodes(state, {id(chain[0]): new})

    def _chain(self, state: State, nodes: list[For]) -> list[For]:
        """The loops from the outermost to the innermost of ``nodes``, each the only child of the one before."""
        deepest = max(nodes, key=lambda n: len(state.loops_above(n)))
        path = [*state.loops_above(deepest), deepest]
        for node in nodes:
            if not any(node is p for p in path):
                if state.scope_of(node) is not state.scope_of(deepest):
                    self.refuse(f"the loops are not in a chain: {node.var.name} and {deepest.var.name} are not under "
                                "the same block", [node.var, deepest.var],
                                hint="reorder the loops of each block by themselves", code="place")
                common = state.lca([node, deepest])
                where = f"loop {common.var.name}" if isinstance(common, For) else "the scope"
                self.refuse(
                    f"the loops are not in a chain: {node.var.name} and {deepest.var.name} stand beside each other "
                    f"below {where}", [node.var, deepest.var], hint="reorder each nest by itself", code="place",
                )
        first = min(i for i, p in enumerate(path) if any(p is n for n in nodes))
        chain = path[first:]
        for outer, inner in pairwise(chain):
            if outer.body is not inner:
                below = {b.ident for b in state.children_of(inner)}
                others = [b.name for b in state.children_of(outer) if b.ident not in below]
                also = f" (also {', '.join(others)})" if others else ""
                self.refuse(
                    f"the loops are not in a chain: {inner.var.name} is not the only statement in loop "
                    f"{outer.var.name}{also}", [outer.var, inner.var],
                    hint="reorder before placing blocks between the loops", code="place",
                )
        return chain

    def _reorderable(self, state: State, chain: list[For]) -> None:
        """Refuses blocks whose instances cannot be told apart by affine bindings."""
        if state.trusted:
            return
        top = state.parent(chain[0])
        while top is not None and not isinstance(top, For | Block):
            top = state.parent(top)
        for block in state.children_of(chain[-1]):
            for iv in block.iter_vars:
                if iv.kind not in ("spatial", "reduce"):
                    self.refuse(f"block {block.name} has an iterator {iv.var.name} that is neither spatial nor a "
                                "reduction", [block.ident], code="loop")
            realize = state.realizes[block.ident]
            loops = state.loops_above(realize)
            if not block.iter_vars or block.ident in self._affine or affine_binding(realize, loops, pin=False):
                continue
            inner = loops[next(i for i, x in enumerate(loops) if x is chain[0]):]
            if isinstance(top, For) and affine_binding(realize, inner, pin=False):
                continue
            tied = "; its predicate ties several of them" if drives_one_each(realize, inner) else ""
            self.refuse(f"block {block.name} is required to have an affine binding of its iterators to the loops{tied}",
                        [block.ident], code="index")

    def _stores_in_order(self, state: State, chain: list[For], new_order: list[For]) -> None:
        """Refuses orders in which iterations that touch one element outside of blocks, where no iterator says how, turn round."""
        body = chain[-1].body
        if state.trusted or chain == new_order or (outside(body) is None and not walked(body).binding):
            return
        found = touched(body)
        try:
            require_bounds(chain, found[1])
            for buffer, one, other in conflicts(found, found):
                if not (one.loose or other.loose):
                    continue
                same = told(chain, one, other)
                before, after = ([n.var for n in order if n.var not in same] for order in (chain, new_order))
                if before != after:
                    raise Refusal(f"iterations of loops {together([v.name for v in before])} are not known to touch different "
                                  f"elements of {buffer.name}, outside of blocks", before, code="order")
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)

    def _remember_affine(self, state: State, loop: For) -> None:
        """Notes which blocks below a loop have affine bindings: split and fuse keep that, even where it is hard to see."""
        for block in () if state.trusted else state.children_of(loop):
            if block.ident not in self._affine:
                realize = state.realizes[block.ident]
                if affine_binding(realize, state.loops_above(realize), pin=False):
                    self._affine.add(block.ident)

    def _init_first(self, state: State, chain: list[For], new_order: list[For]) -> None:
        """Refuses orders in which a reduction's first instance, the one that runs its init, may come after others.

        Loops that drive spatial iterators only, or reduction iterators only, may change places freely, also with one that
        drives both (a fused one); two that drive both (parts of a fused one) may not pass each other.
        """
        place = {n.var: i for i, n in enumerate(new_order)}
        for block in state.children_of(chain[-1]):
            if block.init is None:
                continue
            fault = None if state.trusted or chain == new_order else not_accumulating(block)
            if fault is not None:
                self.refuse(f"block {block.name} has an init and is no reduction: {fault}", [block.ident], code="reduction")
            realize = state.realizes[block.ident]
            self._same_beginning(realize, late(realize, state.loops_above(realize)), chain, new_order)
            kinds: dict[Var, set[str]] = {}
            for iv, value in zip(block.iter_vars, realize.iter_values):
                for var in free_vars(value):
                    kinds.setdefault(var, set()).add(iv.kind)
            mixed = [n for n in chain if len(kinds.get(n.var, ())) > 1]
            for i, a in enumerate(mixed):
                for b in mixed[i + 1:]:
                    if place[a.var] < place[b.var]:
                        continue
                    if int_value(a.extent) != 1 and int_value(b.extent) != 1:
                        self.refuse(
                            f"loops {a.var.name} and {b.var.name} drive spatial and reduction iterators of block "
                            f"{block.name} together: its init might run late", [a.var, b.var, block.ident],
                            hint="decompose_reduction first, or reorder before fusing", code="reduction",
                        )

    def _same_beginning(
        self, realize: BlockRealize, behind: tuple[IterVar, Expr] | None, chain: list[For], new_order: list[For]
    ) -> None:
        """Refuses orders in which other iterations of a sum come before its init: of one that is late, or that is repeated."""
        block = realize.block
        said = (*realize.iter_values, realize.predicate)
        idle = [n.var for n in chain if int_value(n.extent) != 1 and not any(uses(e, {n.var}) for e in said)]
        if behind is None and not idle:
            return
        own = {v for iv, e in zip(block.iter_vars, realize.iter_values) if iv.kind == "reduce" for v in free_vars(e)}
        before, after = ([n.var for n in order if n.var in own and int_value(n.extent) != 1] for order in (chain, new_order))
        if behind is not None and before != after:
            self.refuse(
                f"loops {', '.join(v.name for v in before)} of block {block.name} begin with {behind[0].var.name} = "
                f"{expr_text(behind[1])}, and its init runs in the midst of them", [*before, block.ident], code="reduction",
            )
        was, now = ([n.var for n in order] for order in (chain, new_order))
        for var in idle:
            passed = set(before) & (set(was[: was.index(var)]) ^ set(now[: now.index(var)]))
            if passed:
                self.refuse(f"loop {var.name} repeats block {block.name}: where it stands among the loops of its sum, "
                            f"{', '.join(v.name for v in before)}, is what is summed up", [var, *before, block.ident],
                            hint="decompose_reduction first", code="reduction")

    @primitive(local="handles")
    def add_unit_loop(self, block_or_loop: BlockRV | LoopRV | str) -> LoopRV:
        """Puts a loop of extent one around a block or a loop.

        Args:
            block_or_loop: handle, or a block's name.

        Raises:
            ScheduleError: the root block.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2

        After ``sch.add_unit_loop("C")``::

            for i, u in T.grid(16, 1):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2
        """
        if isinstance(block_or_loop, LoopRV):
            state, target = self._stmt_of_loop(block_or_loop)
        else:
            assert isinstance(block_or_loop, BlockRV)
            state, realize = self.block_at(block_or_loop)
            if state.parent(realize) is None:
                self.refuse("cannot add loops on top of the root block", hint=inner_blocks(state), code="root")
            target = realize
        around = [n for n in (target, *state.ancestors(target)) if isinstance(n, For)]
        inside = [n for n in walk(target) if isinstance(n, For)]
        var = Var(fresh_name("u", {n.var.name for n in (*around, *inside)}))
        self.commit_nodes(state, {id(target): For(var, IntImm(0), IntImm(1), "serial", target)})
        return self.loop_rv(var)

    def _stmt_of_loop(self, rv: LoopRV) -> tuple[State, Stmt]:
        return self.loop_at(rv)
