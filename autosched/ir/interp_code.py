"""Building machine code: registers, nested scopes, hoisting of what does not change in a loop.

A scope is the body of a loop or of a branch. An operation without side effects is emitted into the outermost open scope
in which its operands exist, so invariant index arithmetic leaves the inner loops by itself, and equal operations share
one register. Integers stay unevaluated linear forms for as long as possible, because an address is a sum whose terms
belong to different loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autosched.ir import interp_machine as m
from autosched.ir.expr import bits

FAR = 1 << 62
PURE = frozenset(
    {
        m.ADD,
        m.SUB,
        m.MUL,
        m.FDIV,
        m.FMOD,
        m.MIN,
        m.MAX,
        m.EQ,
        m.NE,
        m.LT,
        m.LE,
        m.AND,
        m.OR,
        m.XOR,
        m.SHL,
        m.SHR,
        m.SEL,
        m.MOV,
        m.WRAP,
        m.NOT,
        m.BNOT,
        m.ABS,
    }
)
LOADS = {
    "int8": m.LD_I8,
    "uint8": m.LD_U8,
    "bool": m.LD_U8,
    "int16": m.LD_I16,
    "uint16": m.LD_U16,
    "int32": m.LD_I32,
    "uint32": m.LD_U32,
    "int64": m.LD_I64,
    "uint64": m.LD_I64,
    "float16": m.LD_F16,
    "float32": m.LD_F32,
    "float64": m.LD_F64,
}
STORES = {
    "int8": m.ST_I8,
    "uint8": m.ST_I8,
    "bool": m.ST_BOOL,
    "int16": m.ST_I16,
    "uint16": m.ST_I16,
    "int32": m.ST_I32,
    "uint32": m.ST_I32,
    "int64": m.ST_I64,
    "uint64": m.ST_I64,
    "float16": m.ST_F16,
    "float32": m.ST_F32,
    "float64": m.ST_F64,
}
ITEMSIZE = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float16": 2,
    "float32": 4,
    "float64": 8,
}


def int_range(dtype: str) -> tuple[int, int]:
    """Lowest and highest value of an integer type (or bool), inclusive, as the machine's 64-bit registers see it."""
    if dtype == "bool":
        return 0, 1
    width = bits(dtype)
    if dtype.startswith("uint") and width < 64:
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def wrap_code(dtype: str) -> int:
    """The ``w`` column that wraps a result to ``dtype``."""
    if dtype == "bool":
        return -63
    shift = 64 - bits(dtype)
    return -shift if dtype.startswith("uint") else shift


def round_code(dtype: str) -> int:
    """The ``w`` column that rounds a result to a floating ``dtype``."""
    return {"float16": 16, "float32": 32}.get(dtype, 0)


class Val:
    """A value at compile time: a register, or (integers) a linear form over registers that is not computed yet.

    ``level`` is the index of the innermost scope it depends on; ``coef`` its slope in that scope's loop variable, None
    if not affine.
    """

    __slots__ = ("coef", "const", "floating", "hi", "level", "lo", "reg", "terms")

    def __init__(
        self,
        reg: int,
        level: int,
        lo: int,
        hi: int,
        coef: int | None = None,
        floating: bool = False,
        terms: dict[int, tuple[Val, int]] | None = None,
        const: int = 0,
    ) -> None:
        self.reg = reg
        self.level = level
        self.lo = lo
        self.hi = hi
        self.coef = coef
        self.floating = floating
        self.terms = {reg: (self, 1)} if terms is None and not floating else terms or {}
        self.const = const

    @property
    def value(self) -> int | None:
        """The value of an integer known at compile time, or None."""
        if self.floating:
            return None
        if not self.terms:
            return self.const
        return self.lo if self.lo == self.hi else None


@dataclass
class Scope:
    """The body of a loop or branch being emitted."""

    loop: bool
    rows: list[list[int]] = field(default_factory=list)
    known: dict[tuple[object, ...], Val] = field(default_factory=dict)


def constant(value: int) -> Val:
    """An integer constant."""
    return Val(-1, 0, value, value, 0, False, {}, value)


def linear(parts: Sequence[tuple[Val, int]], const: int = 0) -> Val:
    """The sum of ``val * factor`` over ``parts`` plus ``const``, not computed yet; bounds are exact interval sums."""
    terms: dict[int, tuple[Val, int]] = {}
    lo = hi = const
    for val, factor in parts:
        a, b = val.lo * factor, val.hi * factor
        lo, hi = lo + min(a, b), hi + max(a, b)
        const += val.const * factor
        for reg, (atom, coef) in val.terms.items():
            total = coef * factor + (terms[reg][1] if reg in terms else 0)
            if total:
                terms[reg] = (atom, total)
            elif reg in terms:
                del terms[reg]
    if not terms:
        return constant(const)
    low = high = const
    for atom, coef in terms.values():
        a, b = atom.lo * coef, atom.hi * coef
        low, high = low + min(a, b), high + max(a, b)
    level = max(atom.level for atom, _ in terms.values())
    return Val(-1, level, max(lo, low), min(hi, high), None, False, terms, const)


class Emitter:
    """Registers, scopes and rows of one program."""

    def __init__(self) -> None:
        self.scopes = [Scope(False)]
        self.ints: dict[int, int] = {0: 0}  # initial values of integer registers; r[0] reports a failed check
        self.floats: dict[int, float] = {}
        self.n_int = 1
        self.n_float = 0
        self.atoms: dict[int, Val] = {}
        self.int_consts: dict[int, int] = {}
        self.float_consts: dict[str, Val] = {}
        self.sites: list[str] = []

    @property
    def level(self) -> int:
        """Index of the innermost open scope."""
        return len(self.scopes) - 1

    def new(self, floating: bool = False) -> int:
        """A fresh register."""
        if floating:
            self.n_float += 1
            return self.n_float - 1
        self.n_int += 1
        return self.n_int - 1

    def site(self, text: str) -> int:
        """A number for an error message."""
        self.sites.append(text)
        return len(self.sites) - 1

    def emit(self, op: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0, e: int = 0, f: int = 0, w: int = 0) -> None:
        """Appends a row to the innermost scope."""
        self.scopes[-1].rows.append([op, a, b, c, d, e, f, w])

    def atom(self, lo: int, hi: int, level: int | None = None, coef: int | None = None, floating: bool = False) -> Val:
        """A value in a fresh register, by default of the innermost scope."""
        val = Val(self.new(floating), self.level if level is None else level, lo, hi, coef, floating)
        if not floating:
            self.atoms[val.reg] = val
        return val

    def float_const(self, value: float) -> Val:
        """A floating constant."""
        key = repr(value)
        if key not in self.float_consts:
            val = self.float_consts[key] = self.atom(0, 0, 0, None, True)
            self.floats[val.reg] = value
        return self.float_consts[key]

    def reg(self, val: Val) -> int:
        """The register of a value; a linear form is computed now, each partial sum in the loop to which it belongs."""
        if val.reg >= 0:
            return val.reg
        if not val.terms:
            if val.const not in self.int_consts:
                reg = self.int_consts[val.const] = self.new()
                self.ints[reg] = val.const
                self.atoms[reg] = Val(reg, 0, val.const, val.const, 0)
            return self.int_consts[val.const]
        total: Val | None = None if val.const == 0 else self.atoms[self.reg(constant(val.const))]
        for atom, coef in sorted(val.terms.values(), key=lambda t: t[0].level):
            part = atom
            if coef != 1:
                slope = None if atom.coef is None else atom.coef * coef
                lo, hi = sorted((atom.lo * coef, atom.hi * coef))
                part = self.pure(m.MUL, atom, self.atoms[self.reg(constant(coef))], lo=lo, hi=hi, coef=slope)
            if total is None:
                total = part
                continue
            level = max(total.level, part.level)
            slopes = [v.coef for v in (total, part) if v.level == level]
            known = [s for s in slopes if s is not None]
            total = self.pure(
                m.ADD,
                total,
                part,
                lo=total.lo + part.lo,
                hi=total.hi + part.hi,
                coef=sum(known) if len(known) == len(slopes) else None,
            )
        assert total is not None
        val.reg = total.reg
        return total.reg

    def pure(
        self,
        op: int,
        *operands: Val,
        w: int = 0,
        lo: int = 0,
        hi: int = 0,
        coef: int | None = None,
        floating: bool = False,
        extra: int = 0,
    ) -> Val:
        """The result of an operation without side effects, in the outermost scope where its operands exist.

        Args:
            op: operation.
            operands: at most three.
            w: wrap or rounding code.
            lo: lowest possible result.
            hi: highest possible result.
            coef: slope in the loop of the result's scope, or None.
            floating: whether the result is in a float register.
            extra: column ``d`` when there are at most two operands.
        """
        regs = [self.reg(v) for v in operands]
        level = max([v.level for v in operands], default=0)
        key = (op, *regs, w, extra)
        scope = self.scopes[level]
        hit = scope.known.get(key)
        if hit is not None:
            return hit
        val = self.atom(lo, hi, level, coef, floating)
        b, c, d = (*regs, 0, 0, 0)[:3]
        scope.rows.append([op, val.reg, b, c, d if len(regs) == 3 else extra, 0, 0, w])
        scope.known[key] = val
        return val

    def check(self, val: Val, lo: int, hi: int, text: str) -> None:
        """Fails at run time unless ``lo <= val < hi``; emits nothing where that is certain or was checked before."""
        if lo <= val.lo and val.hi < hi:
            return
        reg = self.reg(val)
        key = ("check", reg, lo, hi)
        if any(key in s.known for s in self.scopes):
            return
        self.emit(m.CHECK, 0, reg, lo, hi, self.site(text))
        self.scopes[-1].known[key] = val

    def push(self, loop: bool) -> None:
        """Opens a scope."""
        self.scopes.append(Scope(loop))

    def pop(self) -> list[list[int]]:
        """Closes the innermost scope and returns its rows."""
        return self.scopes.pop().rows

    def extend(self, rows: list[list[int]]) -> None:
        """Appends finished rows to the innermost scope."""
        self.scopes[-1].rows.extend(rows)

    def fused(self, var: Val, rows: list[list[int]], count: int) -> list[list[int]] | None:
        """The rows of a loop body as one multiply-accumulate over the whole loop, or None where it is anything else.

        The body must be ``c[..] = c[..] + x[..] * y[..]`` with addresses affine in the loop variable. The operands may
        be in the buffer of ``c``: the machine loads and stores in the same order.

        Args:
            var: the loop variable (its register holds the first value when the rows run).
            rows: the body.
            count: register of the trip count.
        """
        loads: dict[int, list[int]] = {}
        data: set[int] = set()  # registers that hold loaded values or results of them
        before: list[list[int]] = []
        product = total = store = None
        for row in rows:
            op, a, b, c = row[:4]
            if store is not None:
                return None
            if m.LD_I8 <= op <= m.LD_F64 and len(loads) < 3 and b not in data:
                loads[a] = row
            elif op in (m.MUL, m.FMUL) and product is None and b in loads and c in loads:
                product = row
            elif op in (m.ADD, m.FADD) and product is not None and total is None and product[1] in (b, c):
                total = row
            elif m.ST_I8 <= op <= m.ST_F64 and total is not None and a == total[1] and b not in data:
                store = row
            elif op in PURE and not {b, c, row[4]} & data:
                before.append(row)
                continue
            else:
                return None
            if store is None:
                data.add(a)
        if store is None or total is None or product is None or len(loads) != 3:
            return None
        acc = loads.get(total[3] if total[2] == product[1] else total[2])
        x, y = loads[product[2]], loads[product[3]]
        if (
            acc is None
            or acc is x
            or acc is y
            or acc[2] != store[2]
            or _integer(x) != _integer(acc)
        ):
            return None
        if _integer(y) != _integer(acc) or (product[0] == m.MUL) != _integer(acc):
            return None
        slopes = [self._slope(row[2], var.level) for row in (acc, x, y)]
        if None in slopes:
            return None
        cs, xs, ys = (s or 0 for s in slopes)
        if _integer(acc):
            if product[7] not in (0, total[7]) or store[0] == m.ST_BOOL:
                return None
            kinds = [acc[0] - m.LD_I8, x[0] - m.LD_I8, y[0] - m.LD_I8, total[7]]
            return [*before, [m.DOT_INT, acc[2], cs, x[2], xs, y[2], ys, count], [*kinds, 0, 0, 0, 0]]
        kind = {m.LD_F32: 32, m.LD_F64: 0}.get(acc[0])
        if kind is None or not (acc[0] == x[0] == y[0]) or product[7] != kind or total[7] != kind:
            return None
        return [*before, [m.DOT_FLOAT, acc[2], cs, x[2], xs, y[2], ys, count], [0, 0, 0, kind, 0, 0, 0, 0]]

    def _slope(self, reg: int, level: int) -> int | None:
        atom = self.atoms[reg]
        return atom.coef if atom.level == level else 0 if atom.level < level else None


def _integer(load: list[int]) -> bool:
    return load[0] <= m.LD_I64
