"""What a well-formed program is: one table of rules, checked in one walk.

A rule names the kinds of nodes that it looks at and yields one line per fault. To add a rule, add a line to ``RULES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import ProgramError, shortened
from autosched.ir.expr import (
    COMPARISON,
    LOGICAL,
    BinOp,
    BufferData,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Let,
    Select,
    Var,
    element,
    int_value,
    is_int,
)
from autosched.ir.functor import expr_children, stmt_exprs, walk_expr
from autosched.ir.host import HOST_STAGE, host_faults, not_in_root
from autosched.ir.region import access_regions
from autosched.ir.stmt import (
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    Ident,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    While,
)
from autosched.ir.value_bounds import dtype_bounds

LOOP_KINDS = ("serial", "unrolled", "vectorized", "parallel", "thread_binding")
ITER_KINDS = ("spatial", "reduce", "scan", "opaque")


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule.

    Args:
        rule: name of the rule.
        message: what is wrong, in one line.
        block: name of the innermost block around it.
        node: the node at fault.
    """

    rule: str
    message: str
    block: str
    node: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.message} (in block {self.block!r}, rule {self.rule!r})" if self.block else (
            f"{self.message} (rule {self.rule!r})"
        )


@dataclass(slots=True)
class Scope:
    """What is visible at a node."""

    func: PrimFunc
    vars: dict[Var, str] = field(default_factory=dict)
    buffers: set[Buffer] = field(default_factory=set)
    blocks: list[Block] = field(default_factory=list)
    bound: set[Var] = field(default_factory=set)
    idents: set[Ident] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    # Loop variables that a block with iterators hides from its body, by the block's name.
    hidden: dict[Var, str] = field(default_factory=dict)


Check = Callable[[Any, Scope], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A line of the table.

    Args:
        name: short name, part of the message.
        about: what a well-formed program satisfies.
        nodes: the kinds of nodes it looks at.
        check: yields a line per fault.
    """

    name: str
    about: str
    nodes: tuple[type, ...]
    check: Check


def _defined(var: Var, scope: Scope) -> Iterator[str]:
    if var in scope.hidden:
        yield f"loop variable {var.name!r} is used inside block {scope.hidden[var]!r}; bind it to an iterator"
    elif var not in scope.vars:
        yield f"variable {var.name!r} is used but not defined here"


def _once(node: For | IterVarNode | LetStmt | Let, scope: Scope) -> Iterator[str]:
    var = node.var
    if var in scope.bound:
        yield f"variable {var.name!r} is defined twice"
    scope.bound.add(var)


def _visible(node: BufferLoad | BufferStore | BufferData | BufferRegion, scope: Scope) -> Iterator[str]:
    if node.buffer not in scope.buffers:
        yield f"buffer {node.buffer.name!r} is used outside the block that allocates it"


def _rank(node: BufferLoad | BufferStore | BufferRegion, scope: Scope) -> Iterator[str]:
    given = len(node.region) if isinstance(node, BufferRegion) else len(node.indices)
    if given != node.buffer.ndim:
        yield f"buffer {node.buffer.name!r} has {node.buffer.ndim} dimensions, {given} indices given"


def _inside(node: BufferLoad | BufferStore, scope: Scope) -> Iterator[str]:
    for d, (index, size) in enumerate(zip(node.indices, node.buffer.shape)):
        i, n = int_value(index), int_value(size)
        if i is not None and (i < 0 or (n is not None and i >= n)):
            yield f"index {i} is outside dimension {d} of buffer {node.buffer.name!r}"


def _index_type(node: BufferLoad | BufferStore, scope: Scope) -> Iterator[str]:
    for index in node.indices:
        if not is_int(index.dtype):
            yield f"an index of buffer {node.buffer.name!r} is {index.dtype}, not an integer"


def _value_type(node: BufferStore, scope: Scope) -> Iterator[str]:
    if element(node.value.dtype) != element(node.buffer.dtype):
        yield f"a {node.value.dtype} value is stored into {node.buffer.dtype} buffer {node.buffer.name!r}"


def _load_type(node: BufferLoad, scope: Scope) -> Iterator[str]:
    if element(node.dtype) != element(node.buffer.dtype):
        yield f"a load from {node.buffer.dtype} buffer {node.buffer.name!r} claims to be {node.dtype}"


def _operand_types(node: BinOp, scope: Scope) -> Iterator[str]:
    a, b = node.a.dtype, node.b.dtype
    if node.op in LOGICAL:
        if (a, b) != ("bool", "bool"):
            yield f"operands of {node.op!r} are {a} and {b}, not conditions"
    elif a != b:
        yield f"operands of {node.op!r} are {a} and {b}"
    elif node.dtype != ("bool" if node.op in COMPARISON else a):
        yield f"{node.op!r} of {a} operands claims to be {node.dtype}"


def _conditions(node: IfThenElse | While | AssertStmt | Select | BlockRealize | Call, scope: Scope) -> Iterator[str]:
    if isinstance(node, Call):
        if node.op != "if_then_else":
            return
        condition = node.args[0]
    else:
        condition = node.predicate if isinstance(node, BlockRealize) else node.condition
    if condition.dtype.split("x")[0] != "bool":
        yield f"a condition is {condition.dtype}, not bool"


def misfit(value: int, dtype: str) -> str | None:
    """What is wrong with a constant of an integer type, or None; the parser asks the same of what it reads."""
    low, high = dtype_bounds(dtype)
    return None if low <= value <= high else f"constant {shortened(str(value), 40)} does not fit {dtype}"


def _literal(node: IntImm, scope: Scope) -> Iterator[str]:
    found = misfit(node.value, node.dtype)
    if found is not None:
        yield found


def _loop(node: For, scope: Scope) -> Iterator[str]:
    if node.kind not in LOOP_KINDS:
        yield f"loop {node.var.name!r} has unknown kind {node.kind!r}"
    if (node.kind == "thread_binding") != (node.thread is not None):
        yield f"loop {node.var.name!r} of kind {node.kind!r} has thread {node.thread!r}"
    if not (node.var.dtype == node.min.dtype == node.extent.dtype):
        types = f"{node.var.dtype}, {node.min.dtype}, {node.extent.dtype}"
        yield f"variable, minimum and extent of loop {node.var.name!r} are of different types: {types}"
    extent = int_value(node.extent)
    if extent is not None and extent < 0:
        yield f"loop {node.var.name!r} has extent {extent}"


def _binding(node: BlockRealize, scope: Scope) -> Iterator[str]:
    given, wanted = len(node.iter_values), len(node.block.iter_vars)
    if given != wanted:
        yield f"block {node.block.name!r} has {wanted} iterators, {given} values given"
    for iv, value in zip(node.block.iter_vars, node.iter_values):
        if iv.var.dtype != value.dtype:
            yield f"iterator {iv.var.name!r} is {iv.var.dtype}, its value {value.dtype}"


def _iterators(node: Block, scope: Scope) -> Iterator[str]:
    for iv in node.iter_vars:
        if iv.kind not in ITER_KINDS:
            yield f"iterator {iv.var.name!r} has unknown kind {iv.kind!r}"


def _unique_block(node: Block, scope: Scope) -> Iterator[str]:
    if node.ident in scope.idents:
        yield f"block {node.name!r} occurs twice"
    scope.idents.add(node.ident)


def _allocations(node: Block, scope: Scope) -> Iterator[str]:
    for buffer in node.alloc_buffers:
        if buffer in scope.buffers:
            yield f"buffer {buffer.name!r} is allocated twice"


def _views(node: Block, scope: Scope) -> Iterator[str]:
    for m in node.match_buffers:
        source, view = m.source.region, m.buffer
        lead = len(source) - view.ndim
        if lead < 0:
            yield f"view {view.name!r} has more dimensions than its source {m.source.buffer.name!r}"
            continue
        if view.dtype != m.source.buffer.dtype:
            yield f"view {view.name!r} is {view.dtype}, its source {m.source.buffer.dtype}"
        for r in source[:lead]:
            if int_value(r.extent) not in (1, None):
                yield f"view {view.name!r} drops a dimension of extent {int_value(r.extent)}"
        for d, (r, size) in enumerate(zip(source[lead:], view.shape)):
            a, b = int_value(r.extent), int_value(size)
            if a is not None and b is not None and a != b:
                yield f"dimension {d} of view {view.name!r} is {b}, its source's {a}"


def _signature(node: Block, scope: Scope) -> Iterator[str]:
    if len(scope.blocks) < 1 or not (node.reads or node.writes or node.iter_vars):
        return  # the root, and opaque groups, may leave their regions empty
    try:
        reads, writes, opaque = access_regions(node)
    except (IndexError, ValueError):
        return  # other rules report what is broken
    local = {m.buffer for m in node.match_buffers} | set(node.alloc_buffers)
    listed = {r.buffer for r in (*node.reads, *node.writes)}
    written = {r.buffer for r in node.writes}
    for region in (*reads, *opaque):
        if region.buffer not in listed and region.buffer not in local:
            yield f"block {node.name!r} reads buffer {region.buffer.name!r}, which its regions do not list"
    for region in writes:
        if region.buffer not in written and region.buffer not in local:
            yield f"block {node.name!r} writes buffer {region.buffer.name!r}, which its regions do not list"


def _root(node: PrimFunc, scope: Scope) -> Iterator[str]:
    body = node.body
    if not isinstance(body, BlockRealize):
        yield "the body of a function is the root block"
    elif body.block.iter_vars:
        yield "the root block has iterators"


def _parameters(node: PrimFunc, scope: Scope) -> Iterator[str]:
    if len(set(node.params)) != len(node.params):
        yield "a parameter is listed twice"
    if node.value_ranges and len(node.value_ranges) != len(node.params):
        yield f"{len(node.value_ranges)} value ranges for {len(node.params)} parameters"
    for r in node.value_ranges:
        if r is not None and r[0] > r[1]:
            yield f"value range {list(r)} is empty"


def _constants(node: PrimFunc, scope: Scope) -> Iterator[str]:
    from autosched.ir.constant import fault

    given = node.given
    if len(set(given)) != len(given):
        yield "a constant is listed twice, or is a parameter"
    yield from (f for c in node.constants if (f := fault(c)) is not None)


def _unwritten(node: BufferStore, scope: Scope) -> Iterator[str]:
    if any(c.buffer is node.buffer for c in scope.func.constants):
        yield f"constant {node.buffer.name!r} is written"


def _stages(node: PrimFunc, scope: Scope) -> Iterator[str]:
    yield from (message for message, _ in host_faults(node))


def _stage_place(node: Block, scope: Scope) -> Iterator[str]:
    if HOST_STAGE in node.annotations and len(scope.blocks) != 1:
        yield not_in_root(node)


@dataclass(frozen=True, slots=True)
class IterVarNode:
    """A block iterator as a node of the walk."""

    var: Var


RULES: tuple[Rule, ...] = (
    Rule("root", "a function's body realizes one root block without iterators", (PrimFunc,), _root),
    Rule("parameters", "parameters are distinct and their value ranges hold something", (PrimFunc,), _parameters),
    Rule("constants", "a constant has the elements that its shape asks for", (PrimFunc,), _constants),
    Rule("unwritten", "a constant is never written", (BufferStore,), _unwritten),
    Rule("host stages", "a pack stage depends on parameters only, and only unpack stages follow the accelerator", (PrimFunc,),
         _stages),
    Rule("host place", "a host stage stands directly in the root block", (Block,), _stage_place),
    Rule("defined", "a variable is used where it is defined; a block's body sees its own iterators", (Var,), _defined),
    Rule("once", "a variable is defined once", (For, IterVarNode, LetStmt, Let), _once),
    Rule("visible", "a buffer is used below its allocation", (BufferLoad, BufferStore, BufferData, BufferRegion),
         _visible),
    Rule("rank", "a buffer has one index per dimension", (BufferLoad, BufferStore, BufferRegion), _rank),
    Rule("bounds", "a constant index lies in its dimension", (BufferLoad, BufferStore), _inside),
    Rule("index type", "indices are integers", (BufferLoad, BufferStore), _index_type),
    Rule("stored type", "a stored value has its buffer's type", (BufferStore,), _value_type),
    Rule("loaded type", "a load has its buffer's type", (BufferLoad,), _load_type),
    Rule("operands", "operands of an operation have one type", (BinOp,), _operand_types),
    Rule("constant", "a constant lies in the range of its type", (IntImm,), _literal),
    Rule("condition", "a condition is a bool", (IfThenElse, While, AssertStmt, Select, BlockRealize, Call), _conditions),
    Rule("loop", "a loop has a known kind, one type and no negative extent", (For,), _loop),
    Rule("binding", "every iterator of a block has a value of its type", (BlockRealize,), _binding),
    Rule("iterators", "an iterator has a known kind", (Block,), _iterators),
    Rule("one place", "a block occurs once", (Block,), _unique_block),
    Rule("allocation", "a buffer is allocated once", (Block,), _allocations),
    Rule("view", "a view has the shape and type of the region it views", (Block,), _views),
    Rule("signature", "a block's regions list every buffer that it touches", (Block,), _signature),
)


class _Walk:
    def __init__(self, func: PrimFunc) -> None:
        self.scope = Scope(func)
        self.found: list[Violation] = []
        self.table: dict[type, list[Rule]] = {}
        for rule in RULES:
            for kind in rule.nodes:
                self.table.setdefault(kind, []).append(rule)

    def visit(self, node: Any) -> None:
        for rule in self.table.get(type(node), ()):
            for message in rule.check(node, self.scope):
                block = self.scope.blocks[-1].name if self.scope.blocks else ""
                self.found.append(Violation(rule.name, message, block, node))

    def func(self, func: PrimFunc) -> None:
        self.visit(func)
        for p in func.params:
            if isinstance(p, Buffer):
                self.scope.buffers.add(p)
                self.declare(p)
            else:
                self.scope.vars[p] = "parameter"
        self.scope.buffers.update(c.buffer for c in func.constants)
        self.stmt(func.body)

    def declare(self, buffer: Buffer) -> None:
        """The variables that a matched buffer's description defines."""
        for e in (*buffer.shape, *buffer.strides, *((buffer.elem_offset,) if buffer.elem_offset is not None else ())):
            for v in walk_expr(e):
                if isinstance(v, Var):
                    self.scope.vars.setdefault(v, "shape")

    def expr(self, e: Expr) -> None:
        self.visit(e)
        if isinstance(e, Let):
            self.expr(e.value)
            self.scope.vars[e.var] = "let"
            self.expr(e.body)
            del self.scope.vars[e.var]
            return
        for child in expr_children(e):
            self.expr(child)

    def ranges(self, ranges: tuple[Range, ...]) -> None:
        for r in ranges:
            self.expr(r.min)
            self.expr(r.extent)

    def region(self, r: BufferRegion) -> None:
        self.visit(r)
        self.ranges(r.region)

    def stmt(self, s: Stmt) -> None:
        self.visit(s)
        scope = self.scope
        if isinstance(s, For):
            self.expr(s.min)
            self.expr(s.extent)
            scope.vars[s.var] = "loop"
            self.stmt(s.body)
            scope.vars.pop(s.var, None)
        elif isinstance(s, BlockRealize):
            for value in s.iter_values:
                self.expr(value)
            self.expr(s.predicate)
            self.stmt(s.block)
        elif isinstance(s, Block):
            self.block(s)
        elif isinstance(s, BufferStore):
            for e in (*s.indices, s.value):
                self.expr(e)
        elif isinstance(s, LetStmt):
            self.expr(s.value)
            scope.vars[s.var] = "let"
            self.stmt(s.body)
            scope.vars.pop(s.var, None)
        elif isinstance(s, SeqStmt):
            for child in s.stmts:
                self.stmt(child)
        elif isinstance(s, IfThenElse):
            self.expr(s.condition)
            self.stmt(s.then_case)
            if s.else_case is not None:
                self.stmt(s.else_case)
        elif isinstance(s, AttrStmt | AssertStmt | While):
            self.expr(s.value if isinstance(s, AttrStmt) else s.condition)
            self.stmt(s.body)
        else:
            for e in stmt_exprs(s):
                self.expr(e)

    def block(self, b: Block) -> None:
        scope = self.scope
        outer_vars, outer_buffers, outer_hidden = dict(scope.vars), set(scope.buffers), dict(scope.hidden)
        for iv in b.iter_vars:
            self.ranges((iv.dom,))
        if b.iter_vars:
            # Only iterators reach the body: what it does must not depend on how the loops around it are arranged.
            for v, kind in outer_vars.items():
                if kind == "loop":
                    scope.hidden[v] = b.name
        for iv in b.iter_vars:
            self.visit(IterVarNode(iv.var))
            scope.vars[iv.var] = "iterator"
        scope.blocks.append(b)
        for r in (*b.reads, *b.writes, *(m.source for m in b.match_buffers)):
            self.region(r)
        for buffer in b.alloc_buffers:
            scope.buffers.add(buffer)
        for m in b.match_buffers:
            scope.buffers.add(m.buffer)
            self.declare(m.buffer)
        if b.init is not None:
            self.stmt(b.init)
        self.stmt(b.body)
        scope.blocks.pop()
        scope.vars, scope.buffers, scope.hidden = outer_vars, outer_buffers, outer_hidden


def verify(func: PrimFunc) -> list[Violation]:
    """All broken rules of a program, in program order; empty when it is well-formed."""
    walk = _Walk(func)
    walk.func(func)
    return walk.found


def check(func: PrimFunc) -> None:
    """Refuses a malformed program.

    Raises:
        ProgramError: with the first violation, and the number of others.
    """
    found = verify(func)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise ProgramError(f"{func.name}: {found[0]}{more}")
