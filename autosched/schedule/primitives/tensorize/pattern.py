"""Matching a block against the description of a tensor intrinsic.

Both sides are brought to one form: a nest of loops that are longer than one iteration, around a statement in terms
of their variables alone (block iterators are replaced by what they are bound to). Then the loops are paired, and the
statements compared.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from autosched.ir.expr import (
    BinOp,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Not,
    Select,
    StringImm,
    Var,
    int_value,
    is_int,
)
from autosched.ir.functor import Substitute, free_vars
from autosched.ir.simplify import Analyzer, linear_form
from autosched.ir.stmt import (
    TRUE,
    BlockRealize,
    Buffer,
    BufferStore,
    For,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from autosched.schedule.analysis.boxes import bindings, is_unit

COMMUTATIVE = frozenset({"+", "*", "min", "max"})


class Mismatch(Exception):
    """The program computes something else than the description; the argument tells what."""


@dataclass(frozen=True)
class Nest:
    """Loops of more than one iteration, and what is repeated.

    Args:
        loops: (variable, extent), outermost first; each starts at zero.
        body: statement in terms of these variables and of free ones.
    """

    loops: tuple[tuple[Var, int], ...]
    body: Stmt


@dataclass(frozen=True)
class Pattern:
    """A description in matching form.

    Args:
        desc: the description.
        nest: its loops and statement.
    """

    desc: PrimFunc
    nest: Nest


@dataclass(frozen=True)
class Match:
    """Where the tensors of an intrinsic lie.

    Args:
        operands: per parameter of the description: a buffer of the program and the first index of the part in each
            dimension.
    """

    operands: tuple[tuple[Buffer, tuple[Expr, ...]], ...]


_PATTERNS: OrderedDict[int, Pattern] = OrderedDict()


def pattern_of(desc: PrimFunc) -> Pattern:
    """The matching form of a description (kept for the next time).

    Raises:
        Mismatch: the description has predicates, an init, or other forms that cannot be matched.
    """
    hit = _PATTERNS.get(id(desc))
    if hit is not None:
        return hit
    assert isinstance(desc.body, BlockRealize)
    pattern = Pattern(desc, nest_of(desc.body.block.body))
    _PATTERNS[id(desc)] = pattern
    if len(_PATTERNS) > 256:
        _PATTERNS.popitem(last=False)
    return pattern


def nest_of(stmt: Stmt) -> Nest:
    """The matching form of a statement: leading loops and body, blocks dissolved, unit loops gone.

    Raises:
        Mismatch: a predicate, an init or views stand inside.
    """
    flat = dissolve(stmt, {})
    loops: list[tuple[Var, int]] = []
    while isinstance(flat, For):
        loops.append((flat.var, _extent(flat)))
        flat = flat.body
    return Nest(tuple(loops), flat)


def dissolve(stmt: Stmt, vmap: dict[Var, Expr]) -> Stmt:
    """A statement without blocks and unit loops, its block iterators and unit loop variables replaced."""
    if isinstance(stmt, For):
        if is_unit(stmt.extent):
            return dissolve(stmt.body, {**vmap, stmt.var: Substitute(vmap).visit_expr(stmt.min)})
        if int_value(stmt.min) != 0:
            raise Mismatch(f"loop {stmt.var.name} does not start at 0")
        return For(stmt.var, stmt.min, stmt.extent, "serial", dissolve(stmt.body, vmap))
    if isinstance(stmt, BlockRealize):
        block = stmt.block
        if stmt.predicate != TRUE:
            raise Mismatch(f"block {block.name} runs under a predicate")
        if block.init is not None:
            raise Mismatch(f"block {block.name} has an init")
        if block.match_buffers or block.alloc_buffers:
            raise Mismatch(f"block {block.name} has buffers of its own")
        sub = Substitute(vmap)
        return dissolve(block.body, {**vmap, **{v: sub.visit_expr(e) for v, e in bindings(stmt).items()}})
    if isinstance(stmt, SeqStmt):
        return SeqStmt(tuple([dissolve(s, vmap) for s in stmt.stmts]))
    return Substitute(vmap).visit_stmt(stmt)


def _extent(loop: For) -> int:
    extent = int_value(loop.extent)
    if extent is None:
        raise Mismatch(f"loop {loop.var.name} has no constant extent")
    return extent


def match_block(realize: BlockRealize, pattern: Pattern) -> Match:
    """Matches what one instance of a block does against a description.

    Raises:
        Mismatch: they differ; the first difference is told.
    """
    nest = nest_of(realize.block.body)
    want = pattern.nest
    have = [e for _, e in nest.loops]
    need = [e for _, e in want.loops]
    if sorted(have) != sorted(need):
        raise Mismatch(f"its loops run {_times(have)}, those of the intrinsic {_times(need)}")
    first: Mismatch | None = None
    for order in _orders(have, need):
        pairs = {want.loops[k][0]: nest.loops[at][0] for k, at in enumerate(order)}
        matcher = Matcher(pairs)
        try:
            matcher.stmt(nest.body, want.body)
            return matcher.result(pattern.desc)
        except Mismatch as error:
            first = first or error
    assert first is not None
    raise first


def _times(extents: Sequence[int]) -> str:
    return " x ".join(map(str, extents)) if extents else "once"


def _orders(have: Sequence[int], need: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Assignments of program loops to description loops of the same extent, the given order first."""
    count = len(have)
    if count > 5:
        yield from ((tuple(range(count)),) if list(have) == list(need) else ())
        return
    for order in permutations(range(count)):
        if all(have[at] == extent for at, extent in zip(order, need)):
            yield order


@dataclass
class Matcher:
    """Compares statements under a pairing of loop variables, and collects which part of which buffer each tensor is.

    Args:
        loops: variable of the description -> variable of the program.
        free: if set, unpaired variables of the description may be paired on the way, with these variables of the
            program.
        elsewhere: if given, buffers in another memory than the intrinsic's are no mismatch: they are noted here, with the
            memory that it wants.
    """

    loops: dict[Var, Var]
    free: frozenset[Var] = frozenset()
    buffers: dict[Buffer, Buffer] = field(default_factory=dict)
    bases: dict[Buffer, tuple[Expr, ...]] = field(default_factory=dict)
    written: set[Buffer] = field(default_factory=set)
    elsewhere: dict[Buffer, str] | None = None

    def result(self, desc: PrimFunc) -> Match:
        """The operands, in the order of the description's parameters."""
        operands = []
        for param in desc.buffers:
            if param not in self.buffers:
                raise Mismatch(f"the intrinsic's {param.name} is not used by its description")
            operands.append((self.buffers[param], self.bases[param]))
        for out in self.written:
            if any(self.buffers[p] is self.buffers[out] for p in desc.buffers if p is not out):
                raise Mismatch(f"{self.buffers[out].name} would be both the result and another operand")
        return Match(tuple(operands))

    # -- statements --------------------------------------------------------------------------------------------------

    def stmt(self, p: Stmt, d: Stmt) -> None:
        """Compares two statements."""
        if isinstance(p, BufferStore) and isinstance(d, BufferStore):
            self.written.add(d.buffer)
            self.access(p.buffer, p.indices, d.buffer, d.indices)
            self.expr(p.value, d.value)
            return
        if isinstance(p, SeqStmt) and isinstance(d, SeqStmt) and len(p.stmts) == len(d.stmts):
            for x, y in zip(p.stmts, d.stmts):
                self.stmt(x, y)
            return
        if isinstance(p, For) and isinstance(d, For):
            if p.extent != d.extent:
                runs = f"{int_value(p.extent)} times, the intrinsic's {int_value(d.extent)}"
                raise Mismatch(f"loop {p.var.name} runs {runs}")
            self.loops[d.var] = p.var
            self.stmt(p.body, d.body)
            return
        raise Mismatch(f"its body is {_kind(p)}, that of the intrinsic {_kind(d)}")

    # -- expressions -------------------------------------------------------------------------------------------------

    def expr(self, p: Expr, d: Expr) -> None:
        """Compares two values."""
        if p.dtype != d.dtype:
            raise Mismatch(f"it computes {_show(p)} in {p.dtype}, the intrinsic in {d.dtype}")
        if type(p) is not type(d):
            raise Mismatch(f"it computes {_show(p)} where the intrinsic computes {_show(d)}")
        if isinstance(p, BufferLoad) and isinstance(d, BufferLoad):
            self.access(p.buffer, p.indices, d.buffer, d.indices)
        elif isinstance(p, BinOp) and isinstance(d, BinOp):
            if p.op != d.op:
                raise Mismatch(f"it computes {_show(p)} where the intrinsic computes {_show(d)}")
            if p.op in COMMUTATIVE and is_int(p.dtype):
                saved = self._save()
                try:
                    self.expr(p.a, d.a)
                    self.expr(p.b, d.b)
                    return
                except Mismatch as error:
                    first = error
                self._restore(saved)
                try:
                    self.expr(p.a, d.b)
                    self.expr(p.b, d.a)
                except Mismatch:
                    self._restore(saved)
                    raise first from None
            else:
                self.expr(p.a, d.a)
                self.expr(p.b, d.b)
        elif isinstance(p, Cast) and isinstance(d, Cast):
            self.expr(p.value, d.value)
        elif isinstance(p, Call) and isinstance(d, Call):
            if p.op != d.op or len(p.args) != len(d.args):
                raise Mismatch(f"it calls {p.op}, the intrinsic {d.op}")
            for x, y in zip(p.args, d.args):
                self.expr(x, y)
        elif isinstance(p, Select) and isinstance(d, Select):
            self.expr(p.condition, d.condition)
            self.expr(p.true_value, d.true_value)
            self.expr(p.false_value, d.false_value)
        elif isinstance(p, Not) and isinstance(d, Not):
            self.expr(p.a, d.a)
        elif isinstance(p, Var) and isinstance(d, Var):
            if self.loops.get(d) is not p:
                raise Mismatch(f"it uses {p.name} where the intrinsic uses {d.name}")
        elif not isinstance(p, IntImm | FloatImm | StringImm) or p != d:
            raise Mismatch(f"it computes {_show(p)} where the intrinsic computes {_show(d)}")

    def access(self, pb: Buffer, pi: tuple[Expr, ...], db: Buffer, di: tuple[Expr, ...]) -> None:
        """Compares two accesses; the first of a tensor tells where its part begins."""
        known = self.buffers.get(db)
        if known is not None and known is not pb:
            raise Mismatch(f"it uses {pb.name} where the intrinsic's {db.name}, matched to {known.name}, is used")
        if pb.dtype != db.dtype:
            raise Mismatch(f"{pb.name} holds {pb.dtype}, the intrinsic's {db.name} {db.dtype}")
        if pb.scope != db.scope and self.elsewhere is not None:
            self.elsewhere[pb] = db.scope
        elif pb.scope != db.scope:
            raise Mismatch(f"{pb.name} is in scope {pb.scope}, the intrinsic's {db.name} in {db.scope}")
        lead = len(pi) - len(di)
        if lead < 0:
            raise Mismatch(f"{pb.name} has {len(pi)} dimensions, the intrinsic's {db.name} {len(di)}")
        base: list[Expr] = []
        for k, index in enumerate(pi):
            base.append(self._base(pb, index, db, di[k - lead] if k >= lead else None))
        old = self.bases.get(db)
        if old is None:
            self.buffers[db] = pb
            self.bases[db] = tuple(base)
        elif any(x != y and not Analyzer().can_prove_equal(x, y) for x, y in zip(old, base)):
            raise Mismatch(f"{pb.name} is accessed at two places")

    def _base(self, pb: Buffer, index: Expr, db: Buffer, want: Expr | None) -> Expr:
        inner = set(self.loops.values()) | self.free
        form = linear_form(index, inner)
        wanted = ({}, IntImm(0, index.dtype)) if want is None else linear_form(want, list(free_vars(want)))
        if form is None or wanted is None:
            raise Mismatch(f"the index {_show(index)} of {pb.name} is not affine in the loops")
        have = dict(form[0])
        for var, coeff in wanted[0].items():
            mine = self.loops.get(var)
            if mine is None:
                taken = set(self.loops.values())
                unpaired = [v for v, c in have.items() if v in self.free and c == coeff and v not in taken]
                mine = unpaired[0] if unpaired else None
                if mine is None:
                    raise Mismatch(f"no loop of the block runs over {db.name} as the intrinsic's {var.name} does")
                self.loops[var] = mine
            if have.pop(mine, None) != coeff:
                raise self._differs(pb, index, db, want)
        if self.free:
            # Iterators that no loop of the description moves are fixed for one call, as far as this comparison is
            # concerned.
            rest = {v: c for v, c in have.items() if v not in self.free or v in self.loops.values()}
        else:
            rest = have
        if rest:
            raise self._differs(pb, index, db, want)
        offset = int_value(wanted[1]) or 0
        return form[1] - offset if offset else form[1]

    @staticmethod
    def _differs(pb: Buffer, index: Expr, db: Buffer, want: Expr | None) -> Mismatch:
        there = "the intrinsic does not move" if want is None else f"the intrinsic indexes {db.name} by {_show(want)}"
        return Mismatch(f"{pb.name} is indexed by {_show(index)} where {there}")

    def _save(self) -> tuple[dict[Var, Var], dict[Buffer, Buffer], dict[Buffer, tuple[Expr, ...]]]:
        return dict(self.loops), dict(self.buffers), dict(self.bases)

    def _restore(self, saved: tuple[dict[Var, Var], dict[Buffer, Buffer], dict[Buffer, tuple[Expr, ...]]]) -> None:
        self.loops, self.buffers, self.bases = dict(saved[0]), dict(saved[1]), dict(saved[2])


def _kind(stmt: Stmt) -> str:
    return {"BufferStore": "a store", "SeqStmt": "several statements", "For": "a loop", "Evaluate": "a call"}.get(
        type(stmt).__name__, type(stmt).__name__
    )


def _show(expr: Expr | None) -> str:
    if expr is None:
        return "nothing"
    from autosched.ir.printer import expr_text

    return expr_text(expr)
