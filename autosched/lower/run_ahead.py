"""Copies that run one iteration ahead: what double buffering is for, written out as loops.

``for i: fill(i); work(i)`` becomes ``fill(0); for i: (if i + 1 < n: fill(i + 1)); work(i)``. With two banks used in turn, the
copy of the next tile goes into one bank while the work reads the other, in one and the same iteration. A VTA needs no such loop:
its units run at once as far as the tokens let them. This is for targets that overlap what stands side by side, and for the eye.
"""

from __future__ import annotations

from autosched.ir.expr import BufferData, BufferLoad, Expr, Var, int_value
from autosched.ir.functor import Substitute, all_exprs, walk, walk_expr
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, BufferStore, For, IfThenElse, SeqStmt, Stmt, seq, with_body
from autosched.schedule.kit.refresh import refresh


def run_ahead(loop: For, banked: set[Buffer]) -> Stmt:
    """A loop whose copies into banked buffers run one iteration ahead; the loop itself where none can.

    Args:
        loop: a serial loop without blocks.
        banked: buffers with two banks, used in turn by its iterations, each filled anew by every iteration.
    """
    stmts = loop.body.stmts if isinstance(loop.body, SeqStmt) else (loop.body,)
    writes = [_stored(s) for s in stmts]
    # A call may write whatever it is given the address of.
    written = set().union(*writes, *[_given(s) for s in stmts])
    moved = {n for n, s in enumerate(stmts) if writes[n] and writes[n] <= banked and not _calls(s)}
    while True:
        # What it reads must be the same an iteration earlier, and nobody else may write what it fills.
        stays = {
            n for n in moved
            if _loaded(stmts[n]) & written or any(writes[n] & writes[k] for k in range(len(stmts)) if k not in moved)
        }
        if not stays:
            break
        moved -= stays
    rest = [s for n, s in enumerate(stmts) if n not in moved]
    if not moved or not rest:
        return loop
    fill = seq(*[stmts[n] for n in sorted(moved)])
    last = loop.min + loop.extent
    first = refresh(_At(loop.var, loop.min).visit_stmt(fill))
    if int_value(loop.extent) is None:
        first = IfThenElse(_simple(loop.min < last), first)
    after = _At(loop.var, loop.var + 1).visit_stmt(fill)
    return seq(first, with_body(loop, seq(IfThenElse(_simple(loop.var + 1 < last), after), *rest)))


def _stored(stmt: Stmt) -> set[Buffer]:
    return {s.buffer for s in walk(stmt) if isinstance(s, BufferStore)}


def _loaded(stmt: Stmt) -> set[Buffer]:
    return {e.buffer for e in all_exprs(stmt) if isinstance(e, BufferLoad)}


def _given(stmt: Stmt) -> set[Buffer]:
    places = [part for e in all_exprs(stmt) if e.dtype == "handle" for part in walk_expr(e)]
    return {e.buffer for e in places if isinstance(e, BufferData | BufferLoad)}


def _calls(stmt: Stmt) -> bool:
    """Whether a call may touch more than the loads and stores show."""
    return any(isinstance(e, BufferData) or e.dtype in ("handle", "void") for e in all_exprs(stmt))


def _simple(expr: Expr) -> Expr:
    return Analyzer().simplify(expr)


class _At(Substitute):
    """Puts a value in place of a loop variable, and simplifies the indices and conditions that it changes."""

    def __init__(self, var: Var, value: Expr) -> None:
        super().__init__({var: value})

    def visit_load(self, load: BufferLoad) -> Expr:
        new = super().visit_load(load)
        assert isinstance(new, BufferLoad)
        return BufferLoad(new.buffer, self.tidied(load.indices, new.indices), new.dtype)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        new = super().visit_stmt(stmt)
        if isinstance(stmt, BufferStore) and isinstance(new, BufferStore):
            return BufferStore(new.buffer, self.tidied(stmt.indices, new.indices), new.value)
        if isinstance(stmt, IfThenElse) and isinstance(new, IfThenElse):
            return IfThenElse(self.tidied((stmt.condition,), (new.condition,))[0], new.then_case, new.else_case)
        return new

    def tidied(self, old: tuple[Expr, ...], new: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """New expressions, simplified where they are others than before."""
        return tuple([b if a is b else _simple(b) for a, b in zip(old, new)])
