"""Reads the statements of a function into IR."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from autosched.errors import ProgramError
from autosched.ir.depth import DEEPEST, TOO_DEEP, check_depth, too_deep
from autosched.ir.expr import BufferLoad, Call, Expr, IntImm, Let, Select, Var, is_int
from autosched.ir.functor import walk_expr
from autosched.ir.print_expr import expr_text
from autosched.ir.printer import VALUE_RANGES
from autosched.ir.stmt import (
    TRUE,
    AssertStmt,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    While,
)
from autosched.ir.verify import misfit
from autosched.script import ops
from autosched.script.access import View, domain_of
from autosched.script.binding import Binder, Wrapper
from autosched.script.forms import (
    Axis,
    BlockHead,
    BufferSpec,
    DType,
    Loop,
    NewVar,
    Note,
    Scope,
    bad_place,
    describe,
)
from autosched.script.frames import BlockFrame, declared_types, finish, store, to_region


class FunctionParser(Binder):
    """Reads one function.

    Args:
        ev: evaluates its expressions, with the names around it.
    """

    # How many conditions enclose the statement that is read.
    conditions = 0

    def parse(self, node: ast.FunctionDef) -> PrimFunc:
        """The function of a definition.

        Raises:
            ProgramError: with line and column.
        """
        self.buffers.declared = declared_types(node.body)
        with self.scopes.nested():
            self._params(node)
            body = self.suite(node.body)
        for p in self.params:
            if isinstance(p, Var) and p.dtype == "handle" and any(isinstance(q, Buffer) for q in self.params):
                self.ev.fail(node, f"parameter {p.name} is a handle that no T.match_buffer gives a shape")
        root = self.frames[0]
        with self.ev.at(node):
            if not self._is_root(body):
                body = root.realize(body, is_root=True)
            name = str(self.attrs.pop("global_symbol", node.name))
            ranges = self._ranges(self.attrs.pop(VALUE_RANGES, {}))
            check_depth(body, BufferStore)
        attrs = {"tir." + k[5:] if k.startswith("tirx.") else k: v for k, v in self.attrs.items()}
        return PrimFunc(tuple(self.params), body, name, attrs, ranges, tuple(self.constants))

    def _is_root(self, body: Stmt) -> bool:
        root = self.frames[0]
        return (
            isinstance(body, BlockRealize) and not body.block.iter_vars and body.block.name == "root"
            and not root.allocs and not root.matches and not root.attrs
        )

    def _ranges(self, given: Any) -> tuple[tuple[int, int] | None, ...]:
        if not given:
            return ()
        names = [p.name for p in self.params]
        for name in given:
            if name not in names:
                raise ProgramError(f"{VALUE_RANGES} names {name!r}, which is no parameter; known: {', '.join(names)}")
        result: list[tuple[int, int] | None] = []
        for name in names:
            pair = given.get(name)
            if pair is not None and (len(pair) != 2 or int(pair[0]) > int(pair[1])):
                raise ProgramError(f"the value range of {name} must be a pair [lowest, highest], got {pair}")
            result.append(None if pair is None else (int(pair[0]), int(pair[1])))
        return tuple(result)

    # Parameters

    def _params(self, node: ast.FunctionDef) -> None:
        spec = node.args
        if spec.vararg or spec.kwarg or spec.kwonlyargs or spec.defaults:
            self.ev.fail(node, "a program takes plain parameters only, without defaults, * or **")
        late: list[ast.arg] = []
        done: dict[str, Buffer | Var] = {}
        names: set[str] = set()
        for arg in spec.args:
            if arg.arg in names:
                self.ev.fail(arg, f"two parameters are named {arg.arg}; expected one name for each")
            names.add(arg.arg)
            if arg.annotation is None:
                self.ev.fail(arg, f"parameter {arg.arg} has no type; expected {_PARAMETER}")
            # Scalars come first: the shape of a buffer may use one that stands after it.
            if isinstance(arg.annotation, ast.Call | ast.Subscript):
                late.append(arg)
                continue
            done[arg.arg] = self._param(arg.arg, arg.annotation)
        for arg in late:
            assert arg.annotation is not None
            done[arg.arg] = self._param(arg.arg, arg.annotation)
        self.params = [done[arg.arg] for arg in spec.args]

    def _param(self, name: str, node: ast.expr) -> Buffer | Var:
        value = self.annotation(node)
        if isinstance(value, BufferSpec) and value.source is None:
            buffer = self.buffers.make(name, value, node)
            self.scopes.define(name, buffer)
            return buffer
        if isinstance(value, DType | NewVar):  # T.int32, T.handle, or T.handle("float32")
            var = Var(name, value.name if isinstance(value, DType) else value.dtype)
            self.scopes.define(name, var)
            return var
        raise self.ev.error(node, f"parameter {name}: expected {_PARAMETER}, got {describe(value)}")

    # Suites

    def suite(self, nodes: Sequence[ast.stmt]) -> Stmt:
        """The statements of one indentation level."""
        levels: list[tuple[list[Stmt], Wrapper]] = []
        out: list[Stmt] = []
        for node in nodes:
            try:
                wrapper = self.statement(node, out)
            except RecursionError:
                self.ev.fail(node, TOO_DEEP)
            if wrapper is not None:
                # The form holds for all that follows on this level.
                levels.append((out, wrapper))
                out = []
        result = finish(out)
        for before, wrapper in reversed(levels):
            result = finish([*before, wrapper(result)])
        return result

    def nested(self, nodes: Sequence[ast.stmt]) -> Stmt:
        """An indented suite with its own names."""
        with self.scopes.nested():
            return self.suite(nodes)

    def statement(self, node: ast.stmt, out: list[Stmt]) -> Wrapper | None:
        """Reads one statement into ``out``; returns a wrapper where it holds for the rest of the suite."""
        if isinstance(node, ast.Assign):
            value = self.ev.eval(node.value)
            wrapper = None
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    out.append(self._store(target, value, node.value))
                else:
                    wrapper = self.bind_all(target, value, node) or wrapper
            return wrapper
        if isinstance(node, ast.Expr):
            return self._expression(node, out)
        if isinstance(node, ast.For):
            out.append(self._for(node))
        elif isinstance(node, ast.With):
            block = self._with(node, 0)
            if block is not None:
                out.append(block)
        elif isinstance(node, ast.If):
            self._if(node, out)
        elif isinstance(node, ast.AugAssign):
            self._augmented(node, out)
        elif isinstance(node, ast.AnnAssign):
            return self.annotated(node)
        elif isinstance(node, ast.While):
            condition = self.ev.expr(node.test)
            self.conditions += 1
            out.append(While(condition, self.nested(node.body)))
            self.conditions -= 1
        elif isinstance(node, ast.Assert):
            return self._assert(node)
        elif not isinstance(node, ast.Pass):
            kind = _KINDS.get(type(node), type(node).__name__)
            expected = "expected a loop, a block, a condition, an assignment or a call"
            self.ev.fail(node, f"{kind} is not part of the language; {expected}")
        return None

    # Assignments

    def _store(self, target: ast.Subscript, value: Any, node: ast.expr) -> Stmt:
        owner = self.ev.eval(target.value)
        if not isinstance(owner, Buffer | View):
            self.ev.fail(target, f"only an element of a buffer can be assigned, not of {describe(owner)}")
        load = self.ev.eval(target)
        if isinstance(load, BufferRegion):
            self.ev.fail(target, f"a slice of {owner.name} cannot be assigned; write a loop over its elements")
        with self.ev.at(node):
            stmt = store(load.buffer, load.indices, ops.operand(value))
            if isinstance(value, int) and is_int(stmt.value.dtype) and (fault := misfit(value, stmt.value.dtype)) is not None:
                raise ValueError(f"{fault}; {owner.name} holds {stmt.value.dtype}")
        nodes = list(walk_expr(stmt.value))
        self.ev.check_constants(node, nodes)
        if len(nodes) > DEEPEST and too_deep(stmt.value):
            self.ev.fail(node, TOO_DEEP)
        self._bounds(stmt, nodes, target, node)
        return stmt

    def _bounds(self, stmt: BufferStore, nodes: list[Expr], target: ast.expr, value: ast.expr) -> None:
        """Refuses constant indices outside their buffers; under a condition they may be harmless."""
        if self.conditions or any(f.predicate is not TRUE for f in self.frames):
            return
        self._inside(stmt, target)
        loads = [e for e in nodes if isinstance(e, BufferLoad)]
        if loads and not any(isinstance(e, Select | Let) or (isinstance(e, Call) and e.op == "if_then_else") for e in nodes):
            for load in loads:
                self._inside(load, value)

    def _inside(self, node: BufferStore | BufferLoad, place: ast.expr) -> None:
        for d, (index, extent) in enumerate(zip(node.indices, node.buffer.shape)):
            if isinstance(index, IntImm) and (
                index.value < 0 or (isinstance(extent, IntImm) and index.value >= extent.value > 0)
            ):
                upper = extent.value - 1 if isinstance(extent, IntImm) else f"{expr_text(extent)} - 1"
                self.ev.fail(place, f"index {index.value} is outside dimension {d} of buffer {node.buffer.name}; "
                                    f"expected 0 to {upper}")

    def _augmented(self, node: ast.AugAssign, out: list[Stmt]) -> None:
        load = ast.copy_location(ast.BinOp(_as_load(node.target), node.op, node.value), node)
        value = self.ev.eval(load)
        if isinstance(node.target, ast.Subscript):
            out.append(self._store(node.target, value, node.value))
        elif isinstance(node.target, ast.Name) and not isinstance(value, Expr):
            self.scopes.define(node.target.id, value)
        else:
            self.ev.fail(node, "a value of the program cannot be changed; use a buffer of one element")

    # Expressions as statements

    def _expression(self, node: ast.Expr, out: list[Stmt]) -> Wrapper | None:
        value = self.ev.eval(node.value)
        if isinstance(value, Note):
            with self.ev.at(node):
                self._note(value, out)
        elif isinstance(value, Scope):
            return self.scope(value, None, node)
        elif isinstance(value, Call):
            out.append(Evaluate(value))
        elif isinstance(value, str) or value is None or value is Ellipsis:
            return None  # A docstring, or a helper called for its effect while the program is read.
        elif isinstance(value, BlockHead):
            self.ev.fail(node, 'a block opens a suite: write "with T.sblock(...):"')
        else:
            self.ev.fail(node, f"{describe(value)} has no effect as a statement; use T.evaluate(...) to keep it")
        return None

    def _note(self, note: Note, out: list[Stmt]) -> None:
        frame = self.frames[-1]
        kind = note.kind
        if kind == "evaluate":
            out.append(Evaluate(note.value))
        elif kind == "func_attr":
            if len(self.frames) > 1:
                raise bad_place(note, "it at the top of the function")
            self.attrs.update(note.value)
        elif kind == "module_attrs":
            return
        elif len(self.frames) == 1:
            raise bad_place(note, "it inside a block")
        elif kind in ("reads", "writes"):
            if getattr(frame, kind) is not None:
                raise ProgramError(f"T.{kind} stands twice in block {frame.name!r}")
            setattr(frame, kind, tuple(to_region(r) for r in note.value))
        elif kind == "where":
            frame.predicate = ops.operand(note.value)
        elif kind == "bind":
            axis, value = note.value
            place = next((i for i, iv in enumerate(frame.iter_vars) if iv.var is axis), None)
            if place is None:
                raise ProgramError("tir.bind: the first argument is no axis of this block")
            frame.values[place] = value
        else:
            frame.attrs.update(note.value)

    def _assert(self, node: ast.Assert) -> Wrapper | None:
        condition = self.ev.eval(node.test)
        message = "" if node.msg is None else self.ev.eval(node.msg)
        if isinstance(message, tuple) and len(message) == 2:
            message = "".join(str(part) for part in message[1])  # (kind, [parts]), as today's TVM prints it.
        if not isinstance(condition, Expr):
            if not condition:
                self.ev.fail(node, f"the assertion is false: {message}")
            return None
        return lambda body: AssertStmt(condition, str(message), body)

    # Nests

    def _for(self, node: ast.For) -> Stmt:
        if node.orelse:
            self.ev.fail(node.orelse[0], "a loop has no else")
        loop = self.ev.eval(node.iter)
        if not isinstance(loop, Loop):
            self.ev.fail(node.iter, f"cannot loop over {describe(loop)}; expected range, T.grid, T.serial, T.parallel, "
                                    "T.vectorized, T.unroll or T.thread_binding")
        with self.ev.at(node.iter):
            domains = [domain_of(lo, hi, loop.step) for lo, hi in loop.spans]
        names: list[str] = []
        many = loop.grid and not (len(domains) == 1 and isinstance(node.target, ast.Name))
        for name, item in self.ev.pairs(node.target, domains if many else domains[0]):
            names += [f"{name.id}_{k}" for k in range(len(item))] if isinstance(item, list) else [name.id]
        variables = [Var(name, dom.extent.dtype) for name, dom in zip(names, domains)]
        with self.scopes.nested():
            first = variables[0] if loop.step == 1 else loop.spans[0][0] + variables[0] * loop.step
            self.ev.unpack(node.target, variables if many else first)
            for var, dom in zip(variables, domains):
                self.loops[var] = dom
            body = self.suite(node.body)
            for var in variables:
                del self.loops[var]
        for var, dom in reversed(list(zip(variables, domains))):
            body = For(var, dom.min, dom.extent, loop.kind, body, loop.thread, loop.annotations)
        return body

    def _if(self, node: ast.If, out: list[Stmt]) -> None:
        condition = self.ev.eval(node.test)
        if not isinstance(condition, Expr):
            chosen = node.body if condition else node.orelse
            if chosen:
                out.append(self.nested(chosen))
            return
        self.conditions += 1
        then = self.nested(node.body)
        out.append(IfThenElse(condition, then, self.nested(node.orelse) if node.orelse else None))
        self.conditions -= 1

    def _with(self, node: ast.With, place: int) -> Stmt | None:
        if place == len(node.items):
            return self.suite(node.body)
        item = node.items[place]
        value = self.ev.eval(item.context_expr)
        with self.scopes.nested():
            if isinstance(value, BlockHead):
                return self._block(value, item.optional_vars, node, place)
            if isinstance(value, Scope) and value.kind == "init":
                frame = self.frames[-1]
                if len(self.frames) == 1:
                    self.ev.fail(node, "T.init() stands inside a block")
                if frame.init is not None:
                    self.ev.fail(node, f"T.init() stands twice in block {frame.name!r}")
                frame.init = self._within(node, place + 1)
                return None
            name = item.optional_vars.id if isinstance(item.optional_vars, ast.Name) else None
            if isinstance(value, Scope):
                wrapper = self.scope(value, name, node)
                return wrapper(self._within(node, place + 1))
            if isinstance(value, BufferSpec) and name is not None:
                self.bind(name, value, node)
                return self._with(node, place + 1)
        expected = "expected T.sblock, T.init, T.attr or T.LetStmt"
        raise self.ev.error(item.context_expr, f"{describe(value)} opens no suite; {expected}")

    def _within(self, node: ast.With, place: int) -> Stmt:
        stmt = self._with(node, place)
        return finish([]) if stmt is None else stmt

    def _block(self, head: BlockHead, target: ast.expr | None, node: ast.With, place: int) -> Stmt:
        frame = BlockFrame(head.name)
        if head.domains is not None:
            axes = [d if isinstance(d, Axis) else Axis("spatial", d, None) for d in head.domains]
            names = [name.id for name, _ in self.ev.pairs(target, axes)] if target is not None else []
            with self.ev.at(node):
                names = names or [f"v{k}" for k in range(len(axes))]
                for name, axis in zip(names, axes):
                    self.scopes.define(name, frame.axis(name, axis, self.loops))
        elif target is not None:
            self.ev.fail(target, 'a block has no "as"; name its axes inside it: vi, vj = T.axis.remap("SS", [i, j])')
        self.frames.append(frame)
        body = self._within(node, place + 1)
        self.frames.pop()
        is_root = head.name == "root" and not frame.iter_vars and len(self.frames) == 1 and not self.loops
        with self.ev.at(node):
            return frame.realize(body, is_root)


_PARAMETER = 'T.Buffer((16, 16), "int8"), T.handle or T.int32'
_KINDS: dict[type[ast.stmt], str] = {
    ast.Return: "return", ast.FunctionDef: "a function inside a program", ast.Import: "import",
    ast.ImportFrom: "import", ast.Break: "break", ast.Continue: "continue", ast.Delete: "del", ast.Try: "try",
    ast.Raise: "raise",
    ast.ClassDef: "a class inside a program", ast.Global: "global", ast.Nonlocal: "nonlocal", ast.Match: "match",
}


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    assert isinstance(target, ast.Name)
    return ast.copy_location(ast.Name(target.id, ast.Load()), target)
