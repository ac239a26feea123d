"""Index arithmetic of the lowering: linear forms over loops, with what is not linear kept as opaque atoms.

Every index of a scheduled program becomes a ``Lin``: an integer plus integer multiples of loops and atoms. Divisions and
remainders by constants are taken apart where the loops' extents allow it, so that what a split and a fuse made is linear again.
Anything can be evaluated with NumPy over many iterations at once, so that nothing that stays opaque is lost, only slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import LoweringError
from autosched.ir.expr import BinOp, Call, Cast, Expr, IntImm, Not, Var
from autosched.ir.patterns import choice_of

Ints = npt.NDArray[np.int64]
Pick = npt.NDArray[Any]  # a mask, or indices


@dataclass(eq=False, slots=True)
class Loop:
    """A loop of the program being lowered, from 0; its identity is the variable.

    Args:
        name: the variable's name.
        extent: iterations.
        thread: whether it is a virtual thread, whose iterations interleave.
        notes: the schedule's annotations.
        body: loops and sites inside, in order.
    """

    name: str
    extent: int
    thread: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)
    body: list[Any] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.name}<{self.extent}"


class Atom:
    """A value that is not linear: ``a op b`` with op one of //, %, min, max, and, or, not, >=0."""

    __slots__ = ("_hash", "a", "b", "loops", "op")

    def __init__(self, op: str, a: Lin, b: Lin) -> None:
        self.op, self.a, self.b = op, a, b
        self.loops: frozenset[Loop] = a.loops() | b.loops()
        self._hash = hash((op, a.key(), b.key()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Atom) and self._hash == other._hash and self.op == other.op
            and self.a.key() == other.a.key() and self.b.key() == other.b.key()
        )


Term = Loop | Atom


class Lin:
    """``const + sum(coefficient * term)``; never changed once built."""

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[Term, int] | None = None, const: int = 0) -> None:
        self.terms: dict[Term, int] = terms or {}
        self.const = const

    def key(self) -> tuple[frozenset[tuple[Term, int]], int]:
        """What equality means."""
        return frozenset(self.terms.items()), self.const

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lin) and self.const == other.const and self.terms == other.terms

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [f"{c}*{t}" for t, c in self.terms.items()]
        return " + ".join([*parts, str(self.const)])

    def add(self, other: Lin, scale: int = 1) -> Lin:
        """``self + scale * other``."""
        if not other.terms:
            return Lin(self.terms, self.const + scale * other.const)
        terms = dict(self.terms)
        mixed = False
        for term, c in other.terms.items():
            value = terms.get(term, 0) + scale * c
            if value:
                terms[term] = value
                mixed = mixed or type(term) is Atom
            else:
                terms.pop(term, None)
        result = Lin(terms, self.const + scale * other.const)
        return _rejoin(result) if mixed else result

    @staticmethod
    def total(parts: Sequence[tuple[Lin, int]]) -> Lin:
        """The sum of ``scale * lin`` over pairs of these: ``add`` one after the other, mostly in one go."""
        terms: dict[Term, int] = {}
        const = 0
        for lin, scale in parts:
            const += scale * lin.const
            for term, c in lin.terms.items():
                if type(term) is Atom:
                    # What belongs together is put together on the way.
                    return reduce(lambda known, part: known.add(*part), parts, Lin())
                value = terms.get(term, 0) + scale * c
                if value:
                    terms[term] = value
                else:
                    terms.pop(term, None)
        return Lin(terms, const)

    def plus(self, value: int) -> Lin:
        """``self + value``."""
        return Lin(self.terms, self.const + value) if value else self

    def scale(self, factor: int) -> Lin:
        """``factor * self``."""
        if factor == 1:
            return self
        if factor == 0:
            return Lin()
        return Lin({t: c * factor for t, c in self.terms.items()}, self.const * factor)

    def tight(self) -> Lin:
        """What ``self >= 0`` says with coprime coefficients: ``2 * i - 1 >= 0`` is ``i - 1 >= 0``."""
        divisor = gcd(*self.terms.values())
        if divisor <= 1:
            return self
        return Lin({t: c // divisor for t, c in self.terms.items()}, self.const // divisor)

    def loops(self) -> frozenset[Loop]:
        """Every loop that the value depends on."""
        found: set[Loop] = set()
        for term in self.terms:
            if isinstance(term, Loop):
                found.add(term)
            else:
                found |= term.loops
        return frozenset(found)

    def opaque_loops(self) -> frozenset[Loop]:
        """The loops inside atoms."""
        found: set[Loop] = set()
        for term in self.terms:
            if isinstance(term, Atom):
                found |= term.loops
        return frozenset(found)

    def coef(self, loop: Loop) -> int:
        """Coefficient of a loop."""
        return self.terms.get(loop, 0)

    def bounds(self) -> tuple[int, int]:
        """An interval that holds every value (inclusive)."""
        lo = hi = self.const
        for term, c in self.terms.items():
            a, b = (0, term.extent - 1) if type(term) is Loop else _atom_bounds(term)  # type: ignore[arg-type]
            if c > 0:
                lo, hi = lo + c * a, hi + c * b
            else:
                lo, hi = lo + c * b, hi + c * a
        return lo, hi

    def restrict(self, fixed: Iterable[Loop]) -> tuple[Lin, int, int]:
        """The part that the ``fixed`` loops decide, and the interval (inclusive) that the others add."""
        keep = set(fixed)
        part: dict[Term, int] = {}
        rest: dict[Term, int] = {}
        for term, c in self.terms.items():
            inside = term in keep if isinstance(term, Loop) else term.loops <= keep
            (part if inside else rest)[term] = c
        lo, hi = Lin(rest, self.const).bounds()
        return Lin(part), lo, hi

    def evaluate(self, values: Mapping[Loop, Ints]) -> Any:
        """The value for arrays of loop indices (an int where nothing varies); loops without a value are at 0."""
        total: Any = self.const
        for term, c in self.terms.items():
            value = values.get(term) if isinstance(term, Loop) else _atom_value(term, values)
            if value is None:
                continue
            total = total + (value if c == 1 else c * value)
        return total

    def substitute(self, table: Mapping[Loop, Lin]) -> Lin:
        """``self`` with loops replaced, simplified again."""
        if not (self.loops() & table.keys()):
            return self
        total = Lin(None, self.const)
        for term, c in self.terms.items():
            if isinstance(term, Loop):
                new = table.get(term)
                total = total.add(Lin({term: 1}) if new is None else new, c)
            else:
                total = total.add(_make(term.op, term.a.substitute(table), term.b.substitute(table)), c)
        return total


def _rejoin(lin: Lin) -> Lin:
    """Puts ``c * (e // c) + e % c`` together again."""
    for term, k in lin.terms.items():
        if isinstance(term, Atom) and term.op == "%":
            quotient = Atom("//", term.a, term.b)
            if lin.terms.get(quotient, 0) == k * term.b.const:
                terms = {t: c for t, c in lin.terms.items() if t != term and t != quotient}
                return Lin(terms, lin.const).add(term.a, k)
    return lin


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    a_lo, a_hi = atom.a.bounds()
    if atom.op == "//":
        return a_lo // atom.b.const, a_hi // atom.b.const
    if atom.op == "%":
        return 0, min(atom.b.const - 1, a_hi) if a_lo >= 0 else atom.b.const - 1
    b_lo, b_hi = atom.b.bounds()
    if atom.op == "min":
        return min(a_lo, b_lo), min(a_hi, b_hi)
    if atom.op == "max":
        return max(a_lo, b_lo), max(a_hi, b_hi)
    return 0, 1


def _atom_value(atom: Atom, values: Mapping[Loop, Ints]) -> Any:
    a = atom.a.evaluate(values)
    if atom.op == "//":
        return a // atom.b.const
    if atom.op == "%":
        return a % atom.b.const
    if atom.op == ">=0":
        return np.asarray(a >= 0).astype(np.int64)
    if atom.op == "not":
        return 1 - a
    b = atom.b.evaluate(values)
    if atom.op in ("min", "and"):
        return np.minimum(a, b)
    return np.maximum(a, b)


def _small_part(lin: Lin, c: int) -> tuple[int, Lin, Lin] | None:
    """``(g, big, small)`` with ``lin = g * big + small``, g dividing c and 0 <= small < g; g = c is preferred."""
    divisors = sorted({gcd(abs(k), c) for k in lin.terms.values()} | {c}, reverse=True)
    for g in divisors:
        if g == 1:
            break
        big = {t: k // g for t, k in lin.terms.items() if k % g == 0}
        small = Lin({t: k for t, k in lin.terms.items() if k % g}, lin.const % g)
        lo, hi = small.bounds()
        if lo >= 0 and hi < g:
            return g, Lin(big, lin.const // g), small
    return None


def floordiv(lin: Lin, c: int) -> Lin:
    """``lin // c`` for a positive constant."""
    if c == 1:
        return lin
    found = _small_part(lin, c)
    if found is not None:
        g, big, _ = found
        return big if g == c else floordiv(big, c // g)
    whole = {t: k // c for t, k in lin.terms.items() if k % c == 0}
    rest = Lin({t: k for t, k in lin.terms.items() if k % c}, lin.const % c)
    return Lin(whole, lin.const // c).add(Lin({Atom("//", rest, Lin(None, c)): 1}))


def floormod(lin: Lin, c: int) -> Lin:
    """``lin % c`` for a positive constant."""
    if c == 1:
        return Lin()
    found = _small_part(lin, c)
    if found is not None:
        g, big, small = found
        return small if g == c else floormod(big, c // g).scale(g).add(small)
    rest = Lin({t: k for t, k in lin.terms.items() if k % c}, lin.const % c)
    return Lin({Atom("%", rest, Lin(None, c)): 1})


def _make(op: str, a: Lin, b: Lin) -> Lin:
    if op == "//":
        return floordiv(a, b.const)
    if op == "%":
        return floormod(a, b.const)
    if op in ("min", "max"):
        low, high = (a, b) if op == "min" else (b, a)
        if high.add(low, -1).bounds()[0] >= 0:
            return a
        if low.add(high, -1).bounds()[0] >= 0:
            return b
    if not a.terms and not b.terms:
        value = _atom_value(Atom(op, a, b), {})
        return Lin(None, int(value))
    return Lin({Atom(op, a, b): 1})


Env = Mapping[Var, Lin]


def linear(expr: Expr, env: Env) -> Lin:
    """The linear form of an integer expression.

    Args:
        expr: the expression.
        env: what each variable stands for.

    Raises:
        LoweringError: kind ``index``: a value that only running the program would give.
    """
    if isinstance(expr, Var):
        try:
            return env[expr]
        except KeyError:
            reason = f"{expr.name} has no value when a program is lowered; extents must be constants"
            raise LoweringError("symbolic", reason) from None
    if isinstance(expr, IntImm):
        return Lin(None, expr.value)
    if isinstance(expr, Cast):
        return linear(expr.value, env)
    if isinstance(expr, BinOp):
        if expr.dtype == "bool":
            return _truth(expr, env)
        a, b = linear(expr.a, env), linear(expr.b, env)
        match expr.op:
            case "+":
                return a.add(b)
            case "-":
                return a.add(b, -1)
            case "*":
                if not a.terms:
                    a, b = b, a
                if not b.terms:
                    return a.scale(b.const)
            case "//" | "%" | "truncdiv" | "truncmod":
                if not b.terms and b.const > 0 and (expr.op in ("//", "%") or a.bounds()[0] >= 0):
                    return floordiv(a, b.const) if expr.op in ("//", "truncdiv") else floormod(a, b.const)
            case "min" | "max":
                return _make(expr.op, a, b)
    if isinstance(expr, Call) and expr.op in ("shift_right", "shift_left") and isinstance(expr.args[1], IntImm):
        a, amount = linear(expr.args[0], env), 1 << expr.args[1].value
        return floordiv(a, amount) if expr.op == "shift_right" else a.scale(amount)
    if isinstance(expr, Call) and expr.op == "likely":
        return linear(expr.args[0], env)
    if isinstance(expr, Call) and expr.op == "abs":
        a = linear(expr.args[0], env)
        return _make("max", a, a.scale(-1))
    if isinstance(expr, Not):
        return _truth(expr, env)
    choice = choice_of(expr)
    if choice is not None:
        return _chosen(_truth(choice[0], env), linear(choice[1], env), linear(choice[2], env))
    from autosched.ir.printer import expr_text

    raise LoweringError("index", f"{expr_text(expr)} is not an index that is known before the program runs")


def _chosen(holds: Lin, yes: Lin, no: Lin) -> Lin:
    """``yes`` where ``holds`` is 1, ``no`` where it is 0: the larger one, when the other one is far enough below it."""
    if not holds.terms:
        return yes if holds.const else no
    (low, high), (least, most) = yes.bounds(), no.bounds()
    far = max(most - low, high - least, 0)
    # The least of both says so to bounds, which see only what is far below.
    return _make("max", _make("max", yes.add(holds, far).plus(-far), no.add(holds, -far)), Lin(None, min(low, least)))


def _truth(expr: Expr, env: Env) -> Lin:
    """A condition as a linear form that is 1 where it holds and 0 where not."""
    if isinstance(expr, Not):
        return _make("not", _truth(expr.a, env), Lin())
    if isinstance(expr, BinOp) and expr.op in ("and", "or"):
        return _make(expr.op, _truth(expr.a, env), _truth(expr.b, env))
    if isinstance(expr, BinOp) and expr.op == "!=":
        return _make("not", _all([*constraints(BinOp("==", expr.a, expr.b, "bool"), env)]), Lin())
    return _all(constraints(expr, env))


def _all(conditions: list[Lin]) -> Lin:
    total = Lin(None, 1)
    for k, condition in enumerate(conditions):
        term = _make(">=0", condition, Lin())
        total = term if k == 0 else _make("and", total, term)
    return total


def negation(conditions: list[Lin]) -> list[Lin]:
    """The constraints under which not all ``conditions`` hold."""
    if len(conditions) == 1:
        return [conditions[0].scale(-1).plus(-1)]
    return [_make("not", _all(conditions), Lin()).plus(-1)]


def constraints(expr: Expr, env: Env) -> list[Lin]:
    """The linear forms that must all be >= 0 for a condition to hold; those that always are, are left out."""
    found: list[Lin] = []
    if isinstance(expr, IntImm):
        found = [] if expr.value else [Lin(None, -1)]
    elif isinstance(expr, Call) and expr.op == "likely":
        found = constraints(expr.args[0], env)
    elif isinstance(expr, BinOp) and expr.op == "and":
        found = constraints(expr.a, env) + constraints(expr.b, env)
    elif isinstance(expr, BinOp) and expr.op in ("<", "<=", ">", ">=", "=="):
        diff = linear(expr.b, env).add(linear(expr.a, env), -1)
        match expr.op:
            case "<":
                found = [diff.plus(-1)]
            case "<=":
                found = [diff]
            case ">":
                found = [diff.scale(-1).plus(-1)]
            case ">=":
                found = [diff.scale(-1)]
            case _:
                found = [diff, diff.scale(-1)]
    else:
        found = [_truth(expr, env).plus(-1)]
    return [c for c in found if c.bounds()[0] < 0]
