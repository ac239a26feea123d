"""One immutable function under scheduling, with the lookup tables that primitives need.

A ``State`` never changes: a primitive makes a new one from a rewritten body. Tables are built once, on first use, by
one walk over the statements (expressions are not visited), so a chain of primitives stays linear in the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain

from autosched.ir.expr import BufferLoad, Var
from autosched.ir.functor import found_in, stmt_exprs
from autosched.ir.host import HOST_STAGE, PACK, host_faults, is_move, kind_of, not_in_root
from autosched.ir.quick import quick
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, For, Ident, PrimFunc, Range, SeqStmt, Stmt, with_func_body
from autosched.schedule.kit.once import Again, afresh
from autosched.schedule.kit.rebuild import rebuild
from autosched.schedule.kit.walks import child_blocks, walked

_TOUCHED: dict[int, tuple[Stmt, list[Buffer], list[Buffer]]] = {}  # by address; what is known is kept with its address
_TOUCHED_LIMIT = 8192
_INSIDE: dict[int, tuple[Stmt, tuple[Block, ...]]] = {}  # of a statement, the outermost blocks; as above
_INSIDE_LIMIT = 8192
_NUMBERED = re.compile(r"_\d+$")


@quick
@dataclass(frozen=True, slots=True)
class Dependence:
    """``dst`` must run after ``src``.

    Args:
        src: ident of the earlier block.
        dst: ident of the later block.
        kind: ``RAW``, ``WAW`` or ``WAR``.
        buffer: what both touch.
    """

    src: Ident
    dst: Ident
    kind: str
    buffer: Buffer


class State:
    """A function and its tables.

    Args:
        func: the function; its body is the realize of the root block.
        trusted: whether its steps are known to be legal: what only proves it is left out (``Schedule.enable_check``).
    """

    def __init__(self, func: PrimFunc, trusted: bool = False) -> None:
        self.func = func
        self.trusted = trusted

    def __reduce__(self) -> tuple[type[State], tuple[PrimFunc, bool]]:
        return State, (self.func, self.trusted)  # the tables know nodes by address

    # -- tables ------------------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> _Tables:
        return _Tables(self.func.body)

    @property
    def root(self) -> Block:
        """The root block."""
        assert isinstance(self.func.body, BlockRealize)
        return self.func.body.block

    @property
    def loops(self) -> Mapping[Var, For]:
        """All loops by their variable, in program order."""
        return self._tables.loops

    @cached_property
    def _printed(self) -> dict[Var, str]:
        from autosched.ir.printer import Printer

        printer = Printer()
        printer.func(self.func)
        return {var: printer.names.text.get(var, var.name) for var in self.loops}

    def loop_name(self, var: Var) -> str:
        """The name under which a loop is printed: its own, numbered where something around it has that name."""
        return self._printed[var]

    def loops_named(self, name: str, loops: Iterable[For]) -> list[For]:
        """Those of some loops of this state that are printed under a name; if there are none, those that have it.

        Args:
            name: a name as printed.
            loops: where to look.
        """
        having = [x for x in loops if x.var.name == name]
        if len(having) == 1 and not _NUMBERED.search(name):
            return having  # no other loop can be printed so, and there is no need to print
        return [x for x in loops if self.loop_name(x.var) == name] or having

    @property
    def realizes(self) -> Mapping[Ident, BlockRealize]:
        """All realized blocks by ident, in program order (the root first)."""
        return self._tables.realizes

    def block(self, ident: Ident) -> Block:
        """The block with this ident (KeyError if there is none)."""
        return self._tables.realizes[ident].block

    @cached_property
    def host_fault(self) -> tuple[str, Block] | None:
        """The first thing that is wrong with the host stages of the program, and the block at fault."""
        marked = [r.block for r in self.realizes.values() if r.block.annotations and HOST_STAGE in r.block.annotations]
        inner = next((b for b in marked if self.scope_of(b) is not self.root), None)
        if inner is not None:
            return not_in_root(inner), inner
        return next(host_faults(self.func), None) if marked else None

    @property
    def packs_copies(self) -> bool:
        """Whether nothing is wrong with its host stages once copies that pack stages read are such stages, too."""
        wanted = {b for block in self.children_of(self.root) if kind_of(block) == PACK for b in self.touched(block)[0]}
        copies: dict[int, Stmt | None] = {
            id(block): replace(block, annotations={**block.annotations, HOST_STAGE: PACK})
            for block in self.children_of(self.root) if kind_of(block) is None and isinstance(block.body, BufferStore)
            and block.body.buffer in wanted and is_move(block.body.value)
        }
        return bool(copies) and self.replaced(copies).host_fault is None

    def blocks_named(self, name: str) -> list[Block]:
        """The blocks with this name, in program order."""
        return [r.block for r in self._tables.realizes.values() if r.block.name == name]

    def buffer_names(self, scope: Block) -> set[str]:
        """Names that a buffer of a scope must not have: those of parameters, of constants and of what the scope allocates."""
        return {b.name for b in (*self.func.given, *scope.alloc_buffers)}

    def block_names(self) -> list[str]:
        """Distinct names of blocks, in program order."""
        return list(dict.fromkeys(r.block.name for r in self._tables.realizes.values()))

    def parent(self, stmt: Stmt) -> Stmt | None:
        """The statement around ``stmt`` (a node of this state, by identity), or None at the top."""
        return self._tables.parent.get(id(stmt))

    def ancestors(self, stmt: Stmt) -> Sequence[Stmt]:
        """The statements around ``stmt``, innermost first."""
        tables = self._tables
        known = tables.above.get(id(stmt))
        if known is not None and known[0] is stmt:
            return known[1]
        parent, above = tables.parent, tables.above
        found: list[Stmt] = []
        node = parent.get(id(stmt))
        while node is not None:
            found.append(node)
            further = above.get(id(node))
            if further is not None and further[0] is node:
                found += further[1]
                break
            node = parent.get(id(node))
        tables.above[id(stmt)] = stmt, found
        return found

    def loops_above(self, stmt: Stmt) -> list[For]:
        """The loops around ``stmt`` up to the nearest block, outermost first (``stmt`` itself not included)."""
        found: list[For] = []
        for node in self.ancestors(stmt):
            kind = type(node)
            if kind is For:
                found.append(node)  # type: ignore[arg-type]
            elif kind is Block:
                break
        return found[::-1]

    def ranges_at(self, stmt: Stmt) -> dict[Var, Range]:
        """The ranges of what ``stmt`` may mention: all loops around it, the iterators of all blocks around it, and its own."""
        found: dict[Var, Range] = {}
        for node in (stmt, *self.ancestors(stmt)):
            if isinstance(node, For):
                found[node.var] = Range(node.min, node.extent)
            elif isinstance(node, Block):
                found.update({iv.var: iv.dom for iv in node.iter_vars})
        return found

    def loops_below(self, top: Stmt, stmt: Stmt) -> list[For]:
        """The loops around ``stmt`` inside ``top`` (a loop or a block around it), up to the nearest block, outermost first."""
        loops = self.loops_above(stmt)
        return loops[next((k for k, loop in enumerate(loops) if loop is top), -1) + 1:]

    def loops_of(self, block: Block | Ident) -> list[For]:
        """The loops around a block up to the block that contains it, outermost first."""
        return self.loops_above(self.realizes[block if isinstance(block, Ident) else block.ident])

    def scope_of(self, stmt: Stmt) -> Block | None:
        """The nearest block around ``stmt`` (for a block: the one that contains it); None for the root block."""
        start = self.realizes[stmt.ident] if isinstance(stmt, Block) else stmt
        return next((n for n in self.ancestors(start) if isinstance(n, Block)), None)

    def children_of(self, scope: Stmt) -> list[Block]:
        """The blocks directly below a loop, a block (its init not included) or any statement, in program order."""
        cached = self._tables.children.get(id(scope))
        if cached is None or cached[0] is not scope:
            # Held as well: another statement may come to stand where one stood that nobody holds.
            inside = branches(scope) if isinstance(scope, Block) else [(scope, tuple(child_blocks(scope)))]
            found = [block for _, blocks in inside for block in blocks]
            cached = self._tables.children[id(scope)] = scope, found
        return cached[1]

    def lca(self, stmts: list[Stmt]) -> Stmt:
        """The innermost loop or block that contains all of ``stmts`` (a single statement: the one around it)."""
        chains = [[n for n in self.ancestors(s) if isinstance(n, Block | For)][::-1] for s in stmts]
        common: Stmt = chains[0][0]
        for level in zip(*chains):
            if any(n is not level[0] for n in level):
                break
            common = level[0]
        return common

    # -- dependence --------------------------------------------------------------------------------

    def dependences(self, scope: Stmt) -> list[Dependence]:
        """The dependences between the blocks directly below ``scope``, by the buffers that they read and write."""
        cached = self._tables.deps.get(id(scope))
        if cached is not None and cached[0] is scope:
            return cached[1]
        deps: list[Dependence] = []
        readers: dict[Buffer, list[Ident]] = {}
        writers: dict[Buffer, list[Ident]] = {}
        for block in self.children_of(scope):
            reads, writes = self.touched(block)
            for b in reads:
                deps += [Dependence(src, block.ident, "RAW", b) for src in writers.get(b, ())]
            for b in writes:
                deps += [Dependence(src, block.ident, "WAW", b) for src in writers.get(b, ())]
                deps += [Dependence(src, block.ident, "WAR", b) for src in readers.get(b, ())]
            for b in reads:
                readers.setdefault(b, []).append(block.ident)
            for b in writes:
                writers.setdefault(b, []).append(block.ident)
        self._tables.deps[id(scope)] = scope, deps
        return deps

    def touched(self, block: Block) -> tuple[list[Buffer], list[Buffer]]:
        """The buffers that a block reads, and those that it writes; what its iterators are bound by is read, too.

        A block that declares nothing but holds blocks (``loop_partition`` makes such) touches what those touch.
        """
        site: Stmt = self.realizes.get(block.ident, block)
        known = _TOUCHED.get(id(site))
        if known is None or known[0] is not site:
            if len(_TOUCHED) >= _TOUCHED_LIMIT:
                _TOUCHED.clear()
            known = _TOUCHED[id(site)] = (site, *self._touched(block, site))
        return known[1], known[2]

    def _touched(self, block: Block, site: Stmt) -> tuple[list[Buffer], list[Buffer]]:
        if block.reads or block.writes or block.iter_vars:
            reads, writes = [r.buffer for r in block.reads], [w.buffer for w in block.writes]
        else:
            own = {*block.alloc_buffers, *(m.buffer for m in block.match_buffers)}
            inner = [self.touched(b) for b in self.children_of(block)]
            reads, writes = ([b for x in inner for b in x[side] if b not in own] for side in (0, 1))
        if site is not block:
            reads += [load.buffer for load in found_in(stmt_exprs(site), BufferLoad)]
        return list(dict.fromkeys(reads)), list(dict.fromkeys(writes))

    def writers(self, scope: Stmt, buffer: Buffer) -> list[Block]:
        """The blocks directly below ``scope`` that write ``buffer``, in program order."""
        return [b for b in self.children_of(scope) if buffer in self.touched(b)[1]]

    def readers(self, scope: Stmt, buffer: Buffer) -> list[Block]:
        """The blocks directly below ``scope`` that read ``buffer``, in program order."""
        return [b for b in self.children_of(scope) if buffer in self.touched(b)[0]]

    def producers(self, block: Block) -> list[Block]:
        """The blocks of the same scope whose results ``block`` reads or overwrites, buffer by buffer in program order."""
        return self._makers(block, self._beside(block)[0])

    def _makers(self, block: Block, before: Sequence[Block]) -> list[Block]:
        """Those of the blocks in front of a block whose results it reads or overwrites."""
        # Of all dependences of a scope these are few: they are looked for by themselves.
        writers: dict[Buffer, list[Block]] = {b: [] for side in self.touched(block) for b in side}
        for other in before:
            for b in self.touched(other)[1]:
                if b in writers:
                    writers[b].append(other)
        return list({other.ident: other for several in writers.values() for other in several}.values())

    def consumers(self, block: Block) -> list[Block]:
        """The blocks of the same scope that read or overwrite what ``block`` writes, in program order."""
        return self._users(block, self._beside(block)[1])

    def _users(self, block: Block, behind: Sequence[Block]) -> list[Block]:
        """Those of the blocks behind a block that read or overwrite what it writes."""
        written = frozenset(self.touched(block)[1])
        return [other for other in behind if not all(written.isdisjoint(side) for side in self.touched(other))]

    def around(self, block: Block) -> tuple[list[Block], list[Block]]:
        """The producers and the consumers of a block."""
        before, behind = self._beside(block)
        return self._makers(block, before), self._users(block, behind)

    def _beside(self, block: Block) -> tuple[list[Block], list[Block]]:
        """The blocks of its scope in front of a block, and those behind it, in program order; none where it is in an init."""
        scope = self.scope_of(block)
        every = [] if scope is None else self.children_of(scope)
        at = next((n for n, other in enumerate(every) if other.ident is block.ident), None)
        return ([], []) if at is None else (every[:at], every[at + 1 :])

    # -- rewriting ---------------------------------------------------------------------------------

    def rewrite(
        self, table: Mapping[int, Stmt | None], allocs: Mapping[int, tuple[Buffer, ...]] | None = None,
        inserts: Mapping[int, tuple[int, Stmt]] | None = None, again: Again = afresh,
    ) -> Stmt:
        """The body with nodes replaced; only the paths to them are rebuilt.

        Args:
            table: new statement by ``id`` of a node of this state; None removes the node and the loops left empty by
                that. The key of a ``BlockRealize`` replaces the realize, the key of its ``Block`` the block alone.
            allocs: new ``alloc_buffers`` by ``id`` of a block.
            inserts: by ``id`` of a loop or block, a statement put at a position of its body (counted before).
            again: ``once`` where a statement below the root is to be the same object for the same replacements in it.

        Raises:
            ValueError: a removal leaves a block or a branch empty.
        """
        parent = self._tables.parent
        if again is afresh:
            return rebuild(self.func.body, parent, table, allocs or {}, inserts or {})
        tops = {id(stmt): stmt for stmt in below(self.root)}
        inside: dict[int, dict[int, Stmt | None]] = {}
        for key, new in table.items():
            top = key
            while top not in tops:
                top = id(parent[top])
            inside.setdefault(top, {})[key] = new
        whole: dict[int, Stmt | None] = {
            top: new[top] if top in new else again(
                partial(rebuild, tops[top], parent, new, {}, {}), "rebuilt", tops[top], *chain.from_iterable(new.items())
            ) for top, new in inside.items()
        }
        return rebuild(self.func.body, parent, whole, allocs or {}, inserts or {})

    def replaced(self, table: Mapping[int, Stmt | None]) -> State:
        """A new state with nodes replaced as by ``rewrite``."""
        return self.with_body(self.rewrite(table))

    def with_body(self, body: Stmt) -> State:
        """A new state with another body."""
        return State(with_func_body(self.func, body), self.trusted)


class _Tables:
    """Look-ups of a whole body: those of the statements below the root, put together."""

    def __init__(self, body: Stmt) -> None:
        self.parent: dict[int, Stmt] = {}
        self.loops: dict[Var, For] = {}
        self.realizes: dict[Ident, BlockRealize] = {}
        self.above: dict[int, tuple[Stmt, Sequence[Stmt]]] = {}
        self.children: dict[int, tuple[Stmt, list[Block]]] = {}
        self.deps: dict[int, tuple[Stmt, list[Dependence]]] = {}
        parts: tuple[Stmt, ...] = (body,)
        if isinstance(body, BlockRealize) and body.block.init is None:
            root = body.block
            self.realizes[root.ident] = body
            self.parent[id(root)] = body
            self.parent[id(root.body)] = root
            parts = below(root)
            if root.body is not parts[0]:
                self.parent.update((id(stmt), root.body) for stmt in parts)
        walks = [walked(stmt) for stmt in parts]
        # Most stand in one: a table is copied in a fraction of the time that it is made anew in.
        largest = max([walk.parent for walk in walks], key=len)
        own, self.parent = self.parent, largest.copy()
        self.parent.update(own)
        for walk in walks:
            if walk.parent is not largest:
                self.parent.update(walk.parent)
            self.loops.update(walk.loops)
            self.realizes.update(walk.realizes)


def below(block: Block) -> tuple[Stmt, ...]:
    """The statements that a block's body is a sequence of."""
    return block.body.stmts if isinstance(block.body, SeqStmt) else (block.body,)


def branches(block: Block) -> list[tuple[Stmt, tuple[Block, ...]]]:
    """The statements that a block's body is a sequence of, each with the outermost blocks in it, in program order."""
    found = []
    for stmt in below(block):
        known = _INSIDE.get(id(stmt))
        if known is None or known[0] is not stmt:
            if len(_INSIDE) >= _INSIDE_LIMIT:
                _INSIDE.clear()
            known = _INSIDE[id(stmt)] = stmt, tuple(walked(stmt).outermost)
        found.append(known)
    return found
