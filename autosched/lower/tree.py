"""The scheduled program as the lowering sees it: loops, and at their leaves the sites that become instructions.

Walking the IR substitutes block iterators by their bindings, so that every index is a form of loops alone. Blocks, matched
views, predicates and the init of a reduction disappear here; what remains is loops, accesses and conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import LoweringError
from autosched.ir.expr import BufferData, Call, Expr, IntImm, StringImm, Var, int_value
from autosched.ir.scopes import ACC, INP, WGT
from autosched.ir.stmt import (
    TRUE,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from autosched.lower import parts
from autosched.lower.affine import Lin, Loop, constraints, linear, negation
from autosched.target.intrin import GEMM

VIRTUAL_THREADS = ("vthread", "cthread")
MOST_BANKS = 64


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """What one instance of a site touches of a buffer: ``extents`` elements from ``indices`` in each dimension."""

    buffer: Buffer
    indices: tuple[Lin, ...]
    extents: tuple[int, ...]

    def same_place(self, other: Access) -> bool:
        """Whether the indices are equal (the buffers may differ)."""
        return self.extents == other.extents and self.indices == other.indices

    def loops(self) -> set[Loop]:
        """The loops that the place depends on."""
        found: set[Loop] = set()
        for index in self.indices:
            found |= index.loops()
        return found


@dataclass(eq=False, slots=True)
class Site:
    """A leaf: a copy between memories, a matrix product or an elementwise computation.

    Args:
        kind: ``load`` (DRAM to SRAM), ``store`` (ACC to DRAM), ``gemm`` or ``alu``.
        name: the block it came from.
        write: what one instance writes.
        reads: what it reads (gemm: the input, then the weight).
        value: the expression of an ``alu`` site.
        conds: forms that must all be >= 0 for an instance to run.
        pads: for a load, forms that must all be >= 0 for the source to count; else the element is 0.
        notes: annotations of the block.
        init: whether it is the init of a reduction that the update follows in the same loops.
        path: loops around it, outermost first.
        own: how many of the innermost loops of ``path`` hold nothing but this site.
        order: number in program order.
    """

    kind: str
    name: str
    write: Access
    reads: list[Access]
    value: Any = None
    conds: list[Lin] = field(default_factory=list)
    pads: list[Lin] = field(default_factory=list)
    notes: Mapping[str, Any] = field(default_factory=dict)
    init: bool = False
    path: tuple[Loop, ...] = ()
    own: int = 0
    order: int = 0

    @property
    def outer(self) -> tuple[Loop, ...]:
        """The loops that sequence this site with others."""
        return self.path[: len(self.path) - self.own]

    @property
    def inner(self) -> tuple[Loop, ...]:
        """The loops that are this site's alone."""
        return self.path[len(self.path) - self.own :]

    def accesses(self) -> Iterator[tuple[Access, bool]]:
        """All accesses, reads first, with whether it is the write."""
        for read in self.reads:
            yield read, False
        yield self.write, True


@dataclass(eq=False, slots=True)
class Tree:
    """A whole program.

    Args:
        root: a loop of one iteration around everything.
        given: the buffers of the signature, then the constants.
        allocated: all other buffers, in order of appearance.
        banks: copies that buffers ask for, to be used in turn: two under ``double_buffer_scope``, or as many as ``vta.banks``
            beside it says; under ``software_pipeline_stage``, one more than the stages between a buffer's writer and its last
            reader.
        doubled: the buffers that say so themselves, by ``double_buffer_scope``.
        parts: what it is made of, to be put back after use.
        indexed: the sites in order, unless the structure has changed since.
    """

    root: Loop
    given: tuple[Buffer, ...]
    allocated: list[Buffer]
    banks: dict[Buffer, int]
    doubled: frozenset[Buffer]
    parts: list[parts.Part] = field(default_factory=list)
    indexed: list[Site] | None = None

    def index(self) -> list[Site]:
        """All sites in order, with ``path``, ``own`` and ``order`` set; who changes the structure clears ``indexed``."""
        if self.indexed is not None:
            return self.indexed
        order = 0
        found: list[Site] = []

        def visit(loop: Loop, path: tuple[Loop, ...], own: int) -> None:
            nonlocal order
            alone = len(loop.body) == 1
            for node in loop.body:
                if isinstance(node, Loop):
                    inside = own + 1 if alone else 1
                    visit(node, (*path, node), 0 if node.thread else inside)
                else:
                    node.path = path
                    node.own = own if alone else 0
                    node.order = order
                    order += 1
                    found.append(node)

        visit(self.root, (), 0)
        self.indexed = found
        return found


class Builder:
    """Walks a function into a ``Tree``."""

    def __init__(self) -> None:
        self.env: dict[Var, Lin] = {}
        self.views: dict[Buffer, Access] = {}
        self.allocated: list[Buffer] = []
        self.banks: dict[Buffer, int] = {}
        self.doubled: set[Buffer] = set()

    def build(self, func: PrimFunc) -> Tree:
        """The tree of a function.

        Raises:
            LoweringError: a statement or an extent that no target instruction can express.
        """
        for param in func.params:
            if isinstance(param, Var):
                raise LoweringError("symbolic", f"parameter {param.name} is a symbolic extent; lowering needs constants")
            for extent in param.shape:
                if not isinstance(extent, IntImm):
                    raise LoweringError("symbolic", f"{param.name} has a symbolic shape; lowering needs constants")
        root = Loop("root", 1)
        body = func.body
        if not isinstance(body, BlockRealize) or body.iter_values or body.predicate != TRUE or not _plain(body.block):
            self.visit(body, root, [], {}, "root")
            _prune(root)
            return Tree(root, func.given, self.allocated, self.banks, frozenset(self.doubled))
        made: list[parts.Part] = []
        allocated = list(body.block.alloc_buffers)
        for stmt in body.block.body.stmts if isinstance(body.block.body, SeqStmt) else (body.block.body,):
            part = parts.take(stmt) or Builder().part(stmt, body.block.name)
            made.append(part)
            root.body += part.nodes
            allocated += part.allocated
            for buffer, banks in part.banks.items():
                self.ask(buffer, banks)
            self.doubled |= part.doubled
        return Tree(root, func.given, allocated, self.banks, frozenset(self.doubled), made)

    def part(self, stmt: Stmt, name: str) -> parts.Part:
        """What a statement below the root becomes; ``name`` is the root's."""
        alone = Loop("root", 1)
        self.visit(stmt, alone, [], {}, name)
        _prune(alone)
        return parts.Part(stmt, alone.body, self.allocated, self.banks, self.doubled)

    def visit(self, stmt: Stmt, parent: Loop, conds: list[Lin], notes: Mapping[str, Any], name: str) -> None:
        """Appends what ``stmt`` becomes to ``parent``."""
        if isinstance(stmt, SeqStmt):
            for child in stmt.stmts:
                self.visit(child, parent, conds, notes, name)
        elif isinstance(stmt, For):
            self.loop(stmt, parent, conds, notes, name)
        elif isinstance(stmt, BlockRealize):
            self.realize(stmt, parent, conds)
        elif isinstance(stmt, BufferStore):
            self.store(stmt, parent, conds, notes, name)
        elif isinstance(stmt, Evaluate):
            self.evaluate(stmt.value, parent, conds, notes, name)
        elif isinstance(stmt, IfThenElse):
            chosen = constraints(stmt.condition, self.env)
            if not any(c.bounds()[1] < 0 for c in chosen):
                self.visit(stmt.then_case, parent, conds + chosen, notes, name)
            if stmt.else_case is not None and chosen:
                self.visit(stmt.else_case, parent, conds + negation(chosen), notes, name)
        elif isinstance(stmt, LetStmt):
            self.env[stmt.var] = linear(stmt.value, self.env)
            self.visit(stmt.body, parent, conds, notes, name)
        elif isinstance(stmt, AttrStmt | AssertStmt):
            self.visit(stmt.body, parent, conds, notes, name)
        else:
            raise LoweringError("statement", f"{type(stmt).__name__} in block {name} has no equivalent on the target")

    def loop(self, stmt: For, parent: Loop, conds: list[Lin], notes: Mapping[str, Any], name: str) -> None:
        low, count = stmt.min, stmt.extent
        # Most begin and end with numbers.
        lo = Lin(None, low.value) if type(low) is IntImm else linear(low, self.env)
        extent = Lin(None, count.value) if type(count) is IntImm else linear(count, self.env)
        if stmt.kind == "thread_binding" and (stmt.thread or "").split(".")[0] not in VIRTUAL_THREADS:
            raise LoweringError("thread", f"loop {stmt.var.name} is bound to {stmt.thread}; VTA has vthread and cthread")
        trips = extent.bounds()[1]
        if trips <= 0:
            return
        if extent.terms:
            # A trip count that varies: all iterations of the longest, under a condition.
            node = self.open(stmt, trips, parent)
            index = Lin({node: 1}) if trips > 1 else Lin()
            conds = [*conds, extent.add(index, -1).plus(-1)]
        else:
            node = self.open(stmt, trips, parent)
            index = Lin({node: 1}) if trips > 1 else Lin()
        self.env[stmt.var] = lo.add(index) if lo.terms else index.plus(lo.const)
        inner = {**notes, "vta.dma": stmt.annotations["vta.dma"]} if "vta.dma" in stmt.annotations else notes
        begin = len(node.body)
        self.visit(stmt.body, node, conds, inner, name)
        if "software_pipeline_stage" in stmt.annotations:
            self.pipeline(stmt, node.body[begin:])

    def ask(self, buffer: Buffer, banks: int) -> None:
        """Notes that a buffer wants so many copies."""
        self.banks[buffer] = max(banks, self.banks.get(buffer, 1))

    def pipeline(self, stmt: For, body: list[Any]) -> None:
        """Banks for a pipelined loop. The order of statements stays: the engines' queues overlap what tokens allow."""
        given = stmt.annotations["software_pipeline_stage"]
        stages = [n for s in given if (n := int_value(s)) is not None] if isinstance(given, list | tuple) else []
        if not isinstance(given, list | tuple) or len(stages) != len(given):
            raise LoweringError(
                "annotation", f"software_pipeline_stage of loop {stmt.var.name} is {given!r}; a list of integers, one a statement"
            )
        if len(stages) != len(body):
            raise LoweringError(
                "annotation",
                f"software_pipeline_stage of loop {stmt.var.name} has {len(stages)} stages for {len(body)} statements",
            )
        written: dict[Buffer, int] = {}
        for stage, node in zip(stages, body):
            inside = _sites_of(node)
            for site in inside:
                for read in site.reads:
                    if read.buffer in written and stage > written[read.buffer]:
                        self.ask(read.buffer, stage - written[read.buffer] + 1)
            for site in inside:
                written[site.write.buffer] = stage

    def open(self, stmt: For, trips: int, parent: Loop) -> Loop:
        """A new loop inside ``parent``, or ``parent`` itself for a single iteration."""
        if trips == 1:
            return parent
        node = Loop(stmt.var.name, trips, stmt.kind == "thread_binding", stmt.annotations)
        parent.body.append(node)
        return node

    def realize(self, stmt: BlockRealize, parent: Loop, conds: list[Lin]) -> None:
        block = stmt.block
        predicate = constraints(stmt.predicate, self.env)
        if any(c.bounds()[1] < 0 for c in predicate):
            return
        inner = [*conds, *predicate]
        values = [linear(v, self.env) for v in stmt.iter_values]
        for iter_var, value in zip(block.iter_vars, values):
            self.env[iter_var.var] = value
        self.allocated.extend(block.alloc_buffers)
        for match in block.match_buffers:
            self.views[match.buffer] = self.region(match.source.buffer, match.source.region)
        if "double_buffer_scope" in block.annotations:
            buffer = doubled(block)
            self.ask(buffer, _banks(block))
            self.doubled.add(buffer)
        elif "vta.banks" in block.annotations:
            reason = f"vta.banks of block {block.name} counts the banks of a double_buffer, and it has none"
            raise LoweringError("annotation", reason)
        if block.init is not None:
            first = list(inner)
            for iter_var, value in zip(block.iter_vars, values):
                if iter_var.kind == "reduce":
                    away = linear(iter_var.dom.min, self.env).add(value, -1)
                    first += [c for c in (away, away.scale(-1)) if c.bounds()[0] < 0]
            start = len(parent.body)
            self.visit(block.init, parent, first, block.annotations, f"{block.name}_init")
            for site in parent.body[start:]:
                if isinstance(site, Site):
                    site.init = True
        self.visit(block.body, parent, inner, block.annotations, block.name)

    def region(self, buffer: Buffer, region: tuple[Any, ...]) -> Access:
        indices = tuple([linear(r.min, self.env) for r in region])
        extents = []
        for r in region:
            if type(r.extent) is IntImm:
                extents.append(r.extent.value)
                continue
            extent = linear(r.extent, self.env)
            if extent.terms:
                raise LoweringError("symbolic", f"a view of {buffer.name} has an extent that varies")
            extents.append(extent.const)
        return self.resolve(Access(buffer, indices, tuple(extents)))

    def resolve(self, access: Access) -> Access:
        """The same place in the buffer that a view is a view of."""
        view = self.views.get(access.buffer)
        if view is None:
            return access
        lead = len(view.indices) - len(access.indices)
        if lead < 0:
            raise LoweringError("pattern", f"view {access.buffer.name} has more dimensions than {view.buffer.name}")
        # A view may leave out leading dimensions of extent 1; the others line up from the end.
        moved = [v.add(i) for v, i in zip(view.indices[lead:], access.indices)]
        return Access(view.buffer, (*view.indices[:lead], *moved), (1,) * lead + access.extents)

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Access:
        """The place of one element."""
        return self.resolve(Access(buffer, tuple([linear(i, self.env) for i in indices]), (1,) * len(indices)))

    def store(self, stmt: BufferStore, parent: Loop, conds: list[Lin], notes: Mapping[str, Any], name: str) -> None:
        from autosched.lower.classify import classify

        site = classify(self, self.access(stmt.buffer, stmt.indices), stmt.value, name)
        site.conds, site.notes = conds, notes
        parent.body.append(site)

    def evaluate(self, value: Expr, parent: Loop, conds: list[Lin], notes: Mapping[str, Any], name: str) -> None:
        if isinstance(value, IntImm):
            return
        callee = value.args[0] if isinstance(value, Call) and value.op == "call_extern" and value.args else None
        if not (isinstance(callee, StringImm) and callee.value == GEMM):
            what = callee.value if isinstance(callee, StringImm) else getattr(value, "op", type(value).__name__)
            raise LoweringError("extern", f"block {name} calls {what!r}; the target only has {GEMM}")
        assert isinstance(value, Call)
        operands = value.args[1:]
        if len(operands) != 3 or not all(isinstance(a, BufferData) for a in operands):
            raise LoweringError("extern", f"block {name}: {GEMM} takes the addresses of an acc, an inp and a wgt buffer")
        views = []
        for operand, scope in zip(operands, (ACC, INP, WGT)):
            assert isinstance(operand, BufferData)
            view = self.views.get(operand.buffer)
            if view is None:
                zeros = (Lin(),) * operand.buffer.ndim
                view = Access(operand.buffer, zeros, tuple([int(getattr(s, "value", 0)) for s in operand.buffer.shape]))
            if view.buffer.scope != scope:
                reason = f"block {name}: {view.buffer.name} is in {view.buffer.scope}, {GEMM} needs {scope} there"
                raise LoweringError("scope", reason)
            views.append(view)
        parent.body.append(Site("gemm", name, views[0], views[1:], conds=conds, notes=notes))


def doubled(block: Block) -> Buffer:
    """The buffer that a block's ``double_buffer_scope`` names, by its position among those that it writes.

    Raises:
        LoweringError: kind ``annotation``: it names none.
    """
    given = block.annotations["double_buffer_scope"]
    which = int_value(given)
    if which is None or not 0 <= which < len(block.writes):
        shown = repr(given) if which is None else which
        raise LoweringError(
            "annotation", f"double_buffer_scope {shown} of block {block.name}: it writes {len(block.writes)} buffers"
        )
    return block.writes[which].buffer


def _banks(block: Block) -> int:
    """How many copies a block's ``double_buffer`` asks for: two, or what ``vta.banks`` says."""
    given = block.annotations.get("vta.banks", 2)
    banks = int_value(given)
    if banks is None or not 2 <= banks <= MOST_BANKS:
        reason = f"vta.banks of block {block.name} is {(given if banks is None else banks)!r}; an integer from 2 to {MOST_BANKS}"
        raise LoweringError("annotation", reason)
    return banks


def _plain(root: Block) -> bool:
    """Whether a root block says nothing that its statements would have to know."""
    return not (root.iter_vars or root.match_buffers or root.annotations or root.init is not None)


def build(func: PrimFunc) -> Tree:
    """The tree of a scheduled function; see ``Builder.build``."""
    return Builder().build(func)


def _sites_of(node: Any) -> list[Site]:
    """The sites of a loop or a site."""
    return [s for child in node.body for s in _sites_of(child)] if isinstance(node, Loop) else [node]


def _prune(loop: Loop) -> None:
    """Removes loops around nothing."""
    for node in loop.body:
        if isinstance(node, Loop):
            _prune(node)
    loop.body = [n for n in loop.body if not isinstance(n, Loop) or n.body]


