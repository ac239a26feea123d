"""Names in a program: what an assignment, a declaration or a scope form binds."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from autosched.errors import ProgramError
from autosched.ir.expr import Expr, IntImm, Var, as_expr, cast
from autosched.ir.stmt import AssertStmt, AttrStmt, Buffer, Constant, For, LetStmt, MatchBuffer, Range, Stmt
from autosched.script import ops
from autosched.script.evaluate import Evaluator, Scopes
from autosched.script.forms import Axis, BufferSpec, ConstantSpec, DType, Form, LetMarker, NewVar, Scope, bad_place, describe
from autosched.script.frames import BlockFrame, BufferMaker, Memory, to_region

# What encloses the rest of a suite: it takes the statements that follow.
Wrapper = Callable[[Stmt], Stmt]


class Binder:
    """The names, parameters and open blocks of one function.

    Args:
        ev: evaluates its expressions, with the names around it.
    """

    def __init__(self, ev: Evaluator) -> None:
        self.ev = ev
        self.scopes: Scopes = ev.scopes
        self.buffers = BufferMaker(ev)
        self.frames: list[BlockFrame] = [BlockFrame("root")]
        self.loops: dict[Var, Range] = {}
        self.params: list[Buffer | Var] = []
        self.constants: list[Constant] = []
        self.attrs: dict[str, Any] = {}
        self.lets: set[Var] = set()
        self.threads: dict[str, str] = {}

    def bind_all(self, target: ast.expr, value: Any, node: ast.stmt) -> Wrapper | None:
        """Binds a value to all names of a target."""
        pairs = self.ev.pairs(target, value)
        wrappers = [w for name, item in pairs if (w := self.bind(name.id, item, node)) is not None]
        if not wrappers:
            return None

        def wrap(body: Stmt) -> Stmt:
            for w in reversed(wrappers):
                body = w(body)
            return body

        return wrap

    def bind(self, name: str, value: Any, node: ast.AST) -> Wrapper | None:
        """Gives a value a name; returns a wrapper where the statement has to enclose what follows."""
        with self.ev.at(node):
            if isinstance(value, Axis):
                if len(self.frames) == 1:
                    raise bad_place(value, "it inside a block")
                self.scopes.define(name, self.frames[-1].axis(name, value, self.loops))
            elif isinstance(value, ConstantSpec):
                if len(self.frames) > 1 or self.loops:
                    raise bad_place(value, "it at the top of the function")
                self.constants.append(self.buffers.constant(name, value, node))
                self.scopes.define(name, self.constants[-1].buffer)
            elif isinstance(value, BufferSpec):
                self.scopes.define(name, self._buffer(name, value, node))
            elif isinstance(value, NewVar):
                self.scopes.define(name, self._variable(name, value.dtype))
            elif isinstance(value, Scope):
                return self._bind_scope(name, value, node)
            elif isinstance(value, list | tuple) and any(isinstance(v, Form) for v in value):
                made = []
                for i, v in enumerate(value):
                    self.bind(f"{name}_{i}", v, node)
                    made.append(self.scopes.find(f"{name}_{i}")[1])
                self.scopes.define(name, made)
            elif isinstance(value, Form):
                raise bad_place(value, "a value")
            elif isinstance(value, Expr) and not isinstance(value, Var | IntImm):
                return self._let(name, value, value.dtype)
            else:
                self._check_immutable(name)
                self.scopes.define(name, value)
        return None

    def _variable(self, name: str, dtype: str) -> Var:
        known = self.buffers.symbols.get(name)
        # ``n = T.int32()`` after a quoted shape names the variable that the shape introduced.
        return known if known is not None and known.dtype == dtype else Var(name, dtype)

    def _check_immutable(self, name: str) -> None:
        found, old = self.scopes.find(name)
        if found and isinstance(old, Var) and old in self.lets:
            raise ProgramError(f"{name} already has a value, and values do not change; use a buffer of one element")

    def _let(self, name: str, value: Expr, dtype: str) -> Wrapper:
        self._check_immutable(name)
        var = Var(name, dtype)
        self.lets.add(var)
        self.scopes.define(name, var)
        bound = cast(dtype, value) if value.dtype != dtype and dtype != "handle" else value
        return lambda body: LetStmt(var, bound, body)

    def _bind_scope(self, name: str, scope: Scope, node: ast.AST) -> Wrapper:
        if scope.kind == "env_thread":
            var = Var(name, "int32")
            self.scopes.define(name, var)
            self.threads[name] = scope.args[0]
            return lambda body: body
        return self.scope(scope, name, node)

    def _buffer(self, name: str, spec: BufferSpec, node: ast.AST) -> Any:
        if spec.role == "data":
            return Memory(name, spec, self.frames[-1])
        if spec.role == "param":
            if spec.source is None:
                raise ProgramError(
                    f"{name}: a buffer inside the program is allocated with T.sblock_alloc_buffer, or declared over "
                    "memory with data="
                )
            return self.buffers.over(name, spec, node)
        buffer = self.buffers.make(name, spec, node)
        if spec.role == "alloc":
            self.frames[-1].allocs.append(buffer)
            return buffer
        source = spec.source
        if isinstance(source, Var) and source.dtype == "handle":
            place = next((i for i, p in enumerate(self.params) if p is source), None)
            if place is None:
                raise ProgramError(f"{source.name} is no parameter, or is already matched")
            self.params[place] = buffer
            return buffer
        region = to_region(source)
        if len(self.frames) == 1:
            raise ProgramError(f"{name}: a region can only be matched inside a block")
        self.frames[-1].matches.append(MatchBuffer(buffer, region))
        return buffer

    def annotation(self, node: ast.expr) -> Any:
        """The value of an annotation, also one given as a string."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                inner = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                self.ev.fail(node, f"the annotation {node.value!r} is not an expression")
            return self.ev.eval(ast.copy_location(inner, node))
        return self.ev.eval(node)

    def annotated(self, node: ast.AnnAssign) -> Wrapper | None:
        """``x: T.int32 = value``."""
        if not isinstance(node.target, ast.Name):
            self.ev.fail(node, "only a name can be annotated")
        kind = self.annotation(node.annotation)
        name = node.target.id
        if node.value is None:
            if not isinstance(kind, DType):
                self.ev.fail(node, f"expected a type such as T.int32, got {describe(kind)}")
            return self.bind(name, NewVar(kind.name), node)
        value = self.ev.eval(node.value)
        if isinstance(value, Form):
            return self.bind(name, value, node)
        with self.ev.at(node):
            expr = ops.operand(value)
            if isinstance(kind, DType):
                return self._let(name, expr, kind.name)
            if isinstance(kind, NewVar):
                return self._let(name, expr, kind.dtype)
            if isinstance(kind, LetMarker):
                return self._let(name, expr, kind.dtype or expr.dtype)
            raise TypeError(f"expected a type such as T.int32 or T.let, got {describe(kind)}")

    def scope(self, scope: Scope, name: str | None, node: ast.AST) -> Wrapper:
        """The wrapper of attr, let, assertion and thread forms."""
        kind, args = scope.kind, scope.args
        if kind == "attr":
            target, key, value = args
            value = as_expr(value) if not isinstance(value, str) else ops.argument(value)
            return lambda body: AttrStmt(target, key, value, body)
        if kind == "Assert":
            return lambda body: AssertStmt(args[0], args[1], body)
        if kind == "LetStmt":
            value, var = args
            if var is not None:
                return lambda body: LetStmt(var, value, body)
            if name is None:
                self.ev.fail(node, 'T.LetStmt needs a name: "with T.LetStmt(value) as x:"')
            return self._let(name, value, value.dtype)
        if kind == "launch_thread":
            return self._thread(args[0], args[1], name)
        raise self.ev.error(node, f'{describe(scope)} opens a suite: write "with {describe(scope)}():" inside a block')

    def _thread(self, thread: Any, extent: Expr, name: str | None) -> Wrapper:
        if isinstance(thread, Var):
            var, tag = thread, self.threads.get(thread.name, thread.name)
        else:
            tag = str(thread)
            var = Var(name or tag.replace(".", "_"), extent.dtype)
            if name is not None:
                self.scopes.define(name, var)
        zero = IntImm(0, extent.dtype)
        self.loops[var] = Range(zero, extent)
        return lambda body: For(var, zero, extent, "thread_binding", body, tag)
