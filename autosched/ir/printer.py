"""Programs as text: TVMScript in today's dialect and in that of TVM up to 0.23.

``autosched.script`` reads this text back to an equal program, at every stage of scheduling. Where the dialects differ:

=================  ==========================  ===================
what               ``"tvm"`` (0.24 and later)  ``"block"``
=================  ==========================  ===================
decorator          ``@T.prim_func(s_tir=True)``  ``@T.prim_func``
block              ``T.sblock``                ``T.block``
block attributes   ``T.sblock_attr``           ``T.block_attr``
allocation         ``T.sblock_alloc_buffer``   ``T.alloc_buffer``
symbolic shapes    ``T.Buffer(("n",))``        ``T.handle`` and ``T.match_buffer``
=================  ==========================  ===================
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any

from autosched.ir.constant import values
from autosched.ir.depth import shallow
from autosched.ir.expr import Expr, IntImm, Var, binary
from autosched.ir.functor import free_vars
from autosched.ir.print_expr import ExprPrinter, Names, expr_text, identifier, quoted
from autosched.ir.stmt import (
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Constant,
    Evaluate,
    For,
    IfThenElse,
    IRModule,
    IterVar,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
)

VALUE_RANGES = "autosched.value_ranges"
DIALECTS = {
    "tvm": {"block": "sblock", "attr": "sblock_attr", "alloc": "sblock_alloc_buffer", "module": "tirx"},
    "block": {"block": "block", "attr": "block_attr", "alloc": "alloc_buffer", "module": "tir"},
}
__all__ = ["DIALECTS", "VALUE_RANGES", "Printer", "expr_text", "script", "stmt_text"]
READABLE = 4096  # elements of a constant that are printed as numbers; those of larger ones in base 64
_LOOPS = {"serial": "serial", "unrolled": "unroll", "vectorized": "vectorized", "parallel": "parallel",
          "thread_binding": "thread_binding"}
_AXES = {"spatial": "spatial", "reduce": "reduce", "scan": "scan", "opaque": "opaque"}


class Printer:
    """Prints one function; keeps, for each statement, the line where it starts.

    Args:
        dialect: ``"tvm"`` or ``"block"``.
        depth: indentation of the first line, in levels.
    """

    def __init__(self, dialect: str = "tvm", depth: int = 0) -> None:
        if dialect not in DIALECTS:
            raise ValueError(f"unknown dialect {dialect!r}; known: {', '.join(DIALECTS)}")
        self.words = DIALECTS[dialect]
        self.dialect = dialect
        self.lines: list[str] = []
        self.starts: list[tuple[Stmt | Buffer, int]] = []
        self.depth = depth
        self.names = Names(self._free)
        self.exprs = ExprPrinter(self.names)
        self._top: int | None = None
        self._declared: list[str] = []
        self._loops: dict[Var, For] = {}
        self._unbound: set[Var] = set()
        self._scalars: set[Var] = set()
        self._in_body: set[Var] = set()

    # Lines and names

    def emit(self, text: str) -> None:
        """Adds one line at the current depth."""
        self.lines.append("    " * self.depth + text)

    def _free(self, node: Var | Buffer) -> str:
        # A variable that nothing defines is declared at the top of the function.
        if self._top is None:
            return self.names.define(node)
        name = self.names.define(node, globally=True)
        if isinstance(node, Var):
            dtype = "handle" if node.dtype == "handle" else node.dtype
            self._declared.append(f"{name} = T.{dtype}()")
        else:
            self._declared.append(f"{name} = {self._buffer_call('Buffer', node, dtype=True)}")
        return name

    def expr(self, e: Expr) -> str:
        """The text of an expression."""
        return self.exprs.text(e)

    # Buffers

    def _buffer_call(self, method: str, buffer: Buffer, first: str = "", dtype: bool = False,
                     shape: str | None = None) -> str:
        args = [first] if first else []
        args.append(shape if shape is not None else self.exprs.shape(buffer.shape))
        if dtype or buffer.dtype != "float32":
            args.append(quoted(buffer.dtype))
        name = self.names.text.get(buffer, buffer.name)
        if buffer.strides:
            strides = [self._implicit(s, f"{name}.strides[{i}]", buffer) for i, s in enumerate(buffer.strides)]
            args.append(f"strides=({', '.join(strides)}{',' if len(strides) == 1 else ''})")
        factor = 0
        if isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in self.names.text:
            # Reading ``offset_factor`` without an offset makes a fresh offset variable.
            self.names.alias(buffer.elem_offset, f"{name}.elem_offset")
            factor = buffer.offset_factor or 1
        elif buffer.elem_offset is not None:
            args.append(f"elem_offset={self.expr(buffer.elem_offset)}")
            factor = buffer.offset_factor if buffer.offset_factor > 1 else 0
        if buffer.scope != "global":
            args.append(f"scope={quoted(buffer.scope)}")
        if buffer.align > 0:
            args.append(f"align={buffer.align}")
        if factor:
            args.append(f"offset_factor={factor}")
        if buffer.axis_separators:
            args.append(f"axis_separators=[{', '.join(map(str, buffer.axis_separators))}]")
        return f"T.{method}({', '.join(args)})"

    def _implicit(self, e: Expr, text: str, buffer: Buffer) -> str:
        """A stride; a variable that only the buffer defines is named by a string and used as ``A.strides[i]``."""
        if isinstance(e, Var) and e not in self.names.text and not _in_shape(e, buffer):
            self.names.alias(e, text)
            return quoted(e.name)
        return self.expr(e)

    # Functions

    def func(self, func: PrimFunc, name: str | None = None) -> None:
        """Prints a whole function."""
        self.emit("@T.prim_func(s_tir=True)" if self.dialect == "tvm" else "@T.prim_func")
        self.names.push()
        # Scalars are named first: a shape may use one that stands later in the signature.
        for p in func.params:
            if isinstance(p, Var):
                self.names.define(p)
                self._unbound.add(p)
        late: list[str] = []
        params = [self._param(p, late) for p in func.params]
        symbol = name if name is not None else func.name
        spelled = identifier(symbol)
        self.emit(f"def {spelled}({', '.join(params)}):")
        self.depth += 1
        self._top = len(self.lines)
        for line in late:
            self.emit(line)
        # A name that Python cannot spell is stated as TVM states it.
        self._func_attr(func, None if spelled == symbol else symbol)
        for constant in func.constants:
            self._constant(constant)
        self._func_body(func.body)
        self.lines[self._top:self._top] = ["    " * self.depth + d for d in self._declared]
        self.starts = [(n, at + len(self._declared) if at >= self._top else at) for n, at in self.starts]
        self.depth -= 1
        self.names.pop()

    def _param(self, p: Buffer | Var, late: list[str]) -> str:
        if isinstance(p, Var):
            self._unbound.discard(p)
            self._scalars.add(p)
            return f"{self.names.of(p)}: T.{p.dtype}"
        symbols = [v for s in p.shape for v in free_vars(s) if v not in self._scalars]
        # A quoted extent defines int32 variables; others are declared in the body, and so is all that uses them.
        if symbols and (self.dialect == "block" or any(v.dtype != "int32" or v in self._in_body for v in symbols)):
            for v in dict.fromkeys(v for v in symbols if v not in self.names.text):
                self._in_body.add(v)
                late.append(f"{self.names.define(v)} = T.{v.dtype}()")
            handle = self.names.define(Buffer("var_" + p.name, ()))
            name = self.names.define(p)
            late.append(f"{name} = {self._buffer_call('match_buffer', p, handle)}")
            return f"{handle}: T.handle"
        name = self.names.define(p)
        shape = []
        declared: dict[str, str] = {}
        for s in p.shape:
            # TVM reads a signature from left to right: the first use of a variable is quoted, and defines it.
            fresh = [v for v in free_vars(s) if v not in self.names.text or v in self._unbound]
            for v in fresh:
                if v in self._unbound:
                    self._unbound.discard(v)
                else:
                    declared[self.names.define(v)] = f"T.{v.dtype}()"
            shape.append(quoted(self.expr(s)) if fresh else self.expr(s))
        if declared:
            # Says again what the quoted extents said, as TVM does.
            late.append(f"{', '.join(declared)} = {', '.join(declared.values())}")
        text = ", ".join(shape) + ("," if len(shape) == 1 else "")
        return f"{name}: {self._buffer_call('Buffer', p, dtype=True, shape=f'({text})')}"

    def _func_attr(self, func: PrimFunc, symbol: str | None = None) -> None:
        attrs: dict[str, Any] = {} if symbol is None else {"global_symbol": symbol}
        for key, value in func.attrs.items():
            attrs["tirx." + key[4:] if self.dialect == "tvm" and key.startswith("tir.") else key] = value
        ranges = {self.names.of(p): list(r) for p, r in zip(func.params, func.value_ranges) if r is not None}
        if ranges:
            attrs[VALUE_RANGES] = ranges
        if attrs:
            self.emit(f"T.func_attr({self.exprs.value(attrs)})")

    def _constant(self, constant: Constant) -> None:
        buffer = constant.buffer
        array = values(constant)
        # Numbers are to be read; what is too long for that is spelled briefly.
        numbers = array.size <= READABLE
        data = f"[{', '.join(map(str, array.ravel().tolist()))}]" if numbers else quoted(b64encode(constant.data).decode())
        self.starts.append((buffer, len(self.lines)))
        shape = ", ".join(map(self.expr, buffer.shape))
        self.emit(f"{self.names.define(buffer)} = T.allocate_const({data}, {quoted(buffer.dtype)}, [{shape}])")

    def _func_body(self, body: Stmt) -> None:
        root = body.block if isinstance(body, BlockRealize) else None
        if root is None or not _implicit_root(body, root):
            self.body(body)
            return
        self.starts.append((root, len(self.lines)))
        self.emit(f"# with T.{self.words['block']}(\"root\"):")
        self._allocs(root)
        self.body(root.body)

    def _allocs(self, block: Block) -> None:
        for buffer in block.alloc_buffers:
            self.starts.append((buffer, len(self.lines)))
            name = self.names.define(buffer)
            self.emit(f"{name} = {self._buffer_call(self.words['alloc'], buffer)}")

    # Statements

    def body(self, stmt: Stmt) -> None:
        """Prints a statement that fills a whole indented suite."""
        stmts = stmt.stmts if isinstance(stmt, SeqStmt) else (stmt,)
        if not stmts:
            self.emit("pass")
        for i, s in enumerate(stmts):
            self.stmt(s, last=i == len(stmts) - 1)

    def stmt(self, s: Stmt, last: bool = True) -> None:
        """Prints one statement.

        Args:
            s: the statement.
            last: whether nothing follows it in its suite; only then may its body continue on the same level.
        """
        self.starts.append((s, len(self.lines)))
        if isinstance(s, For):
            self._for(s)
        elif isinstance(s, BlockRealize):
            self._block(s.block, s)
        elif isinstance(s, BufferStore):
            self.emit(f"{self.exprs.load(s.buffer, s.indices)} = {self.expr(s.value)}")
        elif isinstance(s, SeqStmt):
            self.body(s)
        elif isinstance(s, Evaluate):
            text = self.expr(s.value)
            bare = text.startswith("T.") and type(s.value).__name__ == "Call"
            self.emit(text if bare else f"T.evaluate({text})")
        elif isinstance(s, IfThenElse):
            self.emit(f"if {self.expr(s.condition)}:")
            self._suite(s.then_case)
            if s.else_case is not None:
                self.emit("else:")
                self._suite(s.else_case)
        elif isinstance(s, While):
            self.emit(f"while {self.expr(s.condition)}:")
            self._suite(s.body)
        elif isinstance(s, Block):
            self._block(s, None)
        else:
            self._scoped(s, last)

    def _suite(self, stmt: Stmt) -> None:
        self.names.push()
        self.depth += 1
        self.body(stmt)
        self.depth -= 1
        self.names.pop()

    def _scoped(self, s: Stmt, last: bool) -> None:
        """Let, attribute and assertion: flat when nothing follows, else a ``with`` that shows where they end."""
        if isinstance(s, LetStmt):
            value = self.expr(s.value)
            if last:
                kind = f"T.let[T.{s.var.dtype}]" if self.dialect == "tvm" else f"T.{s.var.dtype}"
                self.emit(f"{self.names.define(s.var)}: {kind} = {value}")
            else:
                self.names.push()
                self.emit(f"with T.LetStmt({value}) as {self.names.define(s.var)}:")
        elif isinstance(s, AttrStmt):
            node = self.expr(s.node) if isinstance(s.node, Expr) else self.exprs.value(s.node)
            text = f"T.attr({node}, {quoted(s.key)}, {self.expr(s.value)})"
            self.emit(text if last else f"with {text}:")
        else:
            assert isinstance(s, AssertStmt), type(s)
            condition = self.expr(s.condition)
            flat = f"assert {condition}, {quoted(s.message)}"
            self.emit(flat if last else f"with T.Assert({condition}, {quoted(s.message)}):")
        if last:
            self.body(s.body)
            return
        self._suite(s.body)
        if isinstance(s, LetStmt):
            self.names.pop()

    def _for(self, loop: For) -> None:
        grid = list(_grid(loop))
        self.names.push()
        if len(grid) > 1:
            for inner in grid[1:]:
                self.starts.append((inner, len(self.lines)))
            extents = ", ".join(self.expr(f.extent) for f in grid)
            names = ", ".join(self.names.define(f.var) for f in grid)
            self.emit(f"for {names} in T.grid({extents}):")
        else:
            args = self._span(loop.min, loop.extent)
            if loop.kind == "thread_binding":
                args.append(f"thread={quoted(loop.thread or '')}")
            if loop.annotations:
                args.append(f"annotations={self.exprs.value(loop.annotations)}")
            head = "range" if loop.kind == "serial" and not loop.annotations else f"T.{_LOOPS[loop.kind]}"
            self.emit(f"for {self.names.define(loop.var)} in {head}({', '.join(args)}):")
            grid = [loop]
        for f in grid:
            self._loops[f.var] = f
        self._suite(grid[-1].body)
        for f in grid:
            del self._loops[f.var]
        self.names.pop()

    def _span(self, lo: Expr, extent: Expr) -> list[str]:
        if isinstance(lo, IntImm) and lo.value == 0 and lo.dtype == extent.dtype:
            return [self.expr(extent)]
        return [self.expr(lo), self.expr(binary("+", lo, extent))]

    def _block(self, block: Block, realize: BlockRealize | None) -> None:
        if realize is not None:
            self.starts.append((block, len(self.lines)))
        tail = "" if realize is not None else ", no_realize=True"
        self.emit(f"with T.{self.words['block']}({quoted(block.name)}{tail}):")
        self.names.push()
        self.depth += 1
        self._iters(block, realize)
        if realize is not None and not (isinstance(realize.predicate, IntImm) and realize.predicate.value):
            self.emit(f"T.where({self.expr(realize.predicate)})")
        self.emit(f"T.reads({', '.join(self.exprs.region(r) for r in block.reads)})")
        self.emit(f"T.writes({', '.join(self.exprs.region(r) for r in block.writes)})")
        if block.annotations:
            self.emit(f"T.{self.words['attr']}({self.exprs.value(block.annotations)})")
        self._allocs(block)
        for match in block.match_buffers:
            self.starts.append((match.buffer, len(self.lines)))
            name = self.names.define(match.buffer)
            self.emit(f"{name} = {self._buffer_call('match_buffer', match.buffer, self.exprs.region(match.source))}")
        if block.init is not None:
            self.emit("with T.init():")
            self._suite(block.init)
        self.body(block.body)
        self.depth -= 1
        self.names.pop()

    def _iters(self, block: Block, realize: BlockRealize | None) -> None:
        run: list[tuple[IterVar, Expr]] = []
        values: Sequence[Expr | None] = realize.iter_values if realize is not None else [None] * len(block.iter_vars)
        for iv, value in zip(block.iter_vars, values):
            loop = self._loops.get(value) if isinstance(value, Var) else None
            if (
                loop is not None and value is not None and iv.kind in ("spatial", "reduce")
                and loop.min == iv.dom.min and loop.extent == iv.dom.extent
            ):
                run.append((iv, value))
                continue
            self._remap(run)
            run = []
            self._axis(iv, value)
        self._remap(run)

    def _remap(self, run: list[tuple[IterVar, Expr]]) -> None:
        if len(run) == 1:
            self._axis(*run[0])
        elif run:
            values = ", ".join(self.expr(v) for _, v in run)
            kinds = "".join("S" if iv.kind == "spatial" else "R" for iv, _ in run)
            names = ", ".join(self.names.define(iv.var) for iv, _ in run)
            self.emit(f'{names} = T.axis.remap("{kinds}", [{values}])')

    def _axis(self, iv: IterVar, value: Expr | None) -> None:
        span = self._span(iv.dom.min, iv.dom.extent)
        dom = span[0] if len(span) == 1 else f"({', '.join(span)})"
        args = dom if value is None else f"{dom}, {self.expr(value)}"
        self.emit(f"{self.names.define(iv.var)} = T.axis.{_AXES[iv.kind]}({args})")


def _in_shape(var: Var, buffer: Buffer) -> bool:
    return any(var in free_vars(s) for s in buffer.shape) or sum(s is var for s in buffer.strides) > 1


def _implicit_root(realize: Stmt, root: Block) -> bool:
    """Whether the root block may be left out: reading the text puts it back."""
    assert isinstance(realize, BlockRealize)
    if root.name != "root" or root.iter_vars or root.annotations or root.reads or root.writes or root.init is not None:
        return False
    if root.match_buffers or not (isinstance(realize.predicate, IntImm) and realize.predicate.value):
        return False
    inner = root.body
    return bool(root.alloc_buffers) or not (isinstance(inner, BlockRealize) and not inner.block.iter_vars)


def _grid(loop: For) -> Iterator[For]:
    """The loops of a perfect nest that ``T.grid`` can state: plain, from zero, extents independent of each other."""
    seen: set[Var] = set()
    node: Stmt = loop
    while isinstance(node, For):
        plain = node.kind == "serial" and not node.annotations and isinstance(node.min, IntImm) and node.min.value == 0
        if not plain or node.min.dtype != node.extent.dtype or seen & free_vars(node.extent).keys():
            return
        yield node
        seen.add(node.var)
        node = node.body


@shallow()
def script(program: PrimFunc | IRModule, dialect: str = "tvm") -> str:
    """A program as text that ``autosched.script.parse`` reads back to an equal one.

    Args:
        program: a function, or a module of functions.
        dialect: ``"tvm"`` (``T.sblock``, read by TVM 0.25 and later) or ``"block"`` (``T.block``, TVM up to 0.23).

    Raises:
        ValueError: unknown dialect.
        ProgramError: an expression is nested too deeply to be walked.
    """
    if dialect not in DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}; known: {', '.join(DIALECTS)}")
    head = f"# from tvm.script import {DIALECTS[dialect]['module']} as T\n\n"
    if isinstance(program, PrimFunc):
        printer = Printer(dialect)
        printer.func(program)
        return head + "\n".join(printer.lines) + "\n"
    parts = []
    for name, func in program.functions.items():
        printer = Printer(dialect, depth=1)
        printer.func(func, name)
        parts.append("\n".join(printer.lines))
    text = "\n\n".join(parts) or "    pass"
    return f"# from tvm.script import ir as I\n{head}@I.ir_module\nclass Module:\n{text}\n"


def stmt_text(stmt: Stmt, dialect: str = "tvm") -> str:
    """A statement as text; variables and buffers defined outside appear under their own names."""
    printer = Printer(dialect)
    if isinstance(stmt, BlockRealize):
        for value in stmt.iter_values:
            for var in free_vars(value):
                printer.names.of(var)
    printer.body(stmt)
    return "\n".join(printer.lines)
