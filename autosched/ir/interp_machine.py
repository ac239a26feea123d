"""The register machine behind the interpreter: one compiled loop that runs any program, strictly in its order.

A program becomes rows of eight integers, ``(op, a, b, c, d, e, f, w)``. Integers live in 64-bit registers and are
wrapped to their dtype by ``w``; floats live in double registers and are rounded to theirs (rounding a double result of
+, -, *, / or sqrt to float32 is exact, because 53 >= 2 * 24 + 2). All buffers share one arena that is seen through one
typed view per element type. Compiled once per installation, so that running a small program costs a millisecond, and
sequential order needs no dependence analysis: that is what makes it an oracle.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sim._kernels import kernel, refresh

refresh(__file__)

WIDTH = 8

# Control.
(HALT, JUMP, JZ, LOOP, CHECK, FAIL) = range(6)
# Integers: r[a] = op(r[b], r[c]), wrapped by w.
(ADD, SUB, MUL, FDIV, FMOD, TDIV, TMOD, MIN, MAX, EQ, NE, LT, LE, AND, OR, XOR, SHL, SHR) = range(6, 24)
(ULT, ULE, UDIV, UMOD, USHR, SEL, MOV, WRAP, NOT, BNOT, ABS, POPCOUNT) = range(24, 36)
# Loads and stores: r[a] = memory[r[b]], memory[r[b]] = r[a].
(LD_I8, LD_U8, LD_I16, LD_U16, LD_I32, LD_U32, LD_I64, LD_F16, LD_F32, LD_F64) = range(36, 46)
(ST_I8, ST_I16, ST_I32, ST_I64, ST_BOOL, ST_F16, ST_F32, ST_F64) = range(46, 54)
# Floats: f[a] = op(f[b], f[c]), rounded by w.
(FADD, FSUB, FMUL, FDIVIDE, FMIN, FMAX, FEQ, FNE, FLT, FLE, FSEL, FMOV, ITOF, UTOF, FTOI, FUNC, FUNC2) = range(54, 71)
# Whole loops of multiply-accumulate, c += x * y: (a: address of c, b: stride of c, c: address of x, d: its stride,
# e: address of y, f: its stride, w: count), followed by a row (type of c, type of x, type of y, wrap).
(DOT_INT, DOT_FLOAT) = range(71, 73)

INT_TYPES = {
    "int8": 0,
    "uint8": 1,
    "bool": 1,
    "int16": 2,
    "uint16": 3,
    "int32": 4,
    "uint32": 5,
    "int64": 6,
    "uint64": 6,
}

UNARY = (
    "exp",
    "log",
    "sqrt",
    "tanh",
    "sin",
    "cos",
    "tan",
    "floor",
    "ceil",
    "round",
    "trunc",
    "fabs",
    "rsqrt",
    "sigmoid",
    "erf",
    "exp2",
    "log2",
    "log10",
    "log1p",
    "sinh",
    "cosh",
    "atan",
    "asin",
    "acos",
    "isnan",
    "exp10",
    "isinf",
    "isfinite",
    "asinh",
    "acosh",
    "atanh",
)
BINARY = ("pow", "fmod", "atan2", "copysign", "hypot")


@kernel
def _wrap(x: Any, w: Any) -> Any:
    """``w`` = 64 - bits for signed types, -(64 - bits) for unsigned ones, 0 for 64-bit types."""
    if w > 0:
        return (x << w) >> w
    if w < 0:
        return x & ((1 << (64 + w)) - 1)
    return x


@kernel
def _half(x: Any) -> Any:
    """``x`` rounded to the nearest float16, ties to even."""
    if x == 0.0 or not math.isfinite(x):
        return x
    _, exponent = math.frexp(x)
    ulp = math.ldexp(1.0, max(exponent - 11, -24))
    r = np.rint(x / ulp) * ulp
    if abs(r) > 65504.0:
        return math.inf if r > 0 else -math.inf
    return r


@kernel
def _round(x: Any, w: Any) -> Any:
    if w == 32:
        return np.float64(np.float32(x))
    if w == 16:
        return _half(x)
    return x


@kernel
def _half_load(h: Any) -> Any:
    sign = -1.0 if h & 0x8000 else 1.0
    exponent = (h >> 10) & 31
    fraction = h & 1023
    if exponent == 31:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(float(fraction), -24)
    return sign * math.ldexp(float(1024 + fraction), exponent - 25)


@kernel
def _half_bits(x: Any) -> Any:
    """The bit pattern of a value that ``_half`` returned."""
    if math.isnan(x):
        return 0x7E00
    sign = 0x8000 if math.copysign(1.0, x) < 0 else 0
    x = abs(x)
    if math.isinf(x):
        return sign | 0x7C00
    if x < 6.103515625e-05:
        return sign | int(x * 16777216.0)
    _, exponent = math.frexp(x)
    return sign | ((exponent + 14) << 10) | (int(math.ldexp(x, 11 - exponent)) - 1024)


@kernel
def _to_int(x: Any) -> Any:
    if not math.isfinite(x) or abs(x) >= 9223372036854775808.0:
        return -9223372036854775808
    return int(x)


@kernel
def _func(which: Any, x: Any) -> Any:
    if which == 0:
        return np.exp(x)
    if which == 1:
        return np.log(x)
    if which == 2:
        return np.sqrt(x)
    if which == 3:
        return np.tanh(x)
    if which == 4:
        return np.sin(x)
    if which == 5:
        return np.cos(x)
    if which == 6:
        return np.tan(x)
    if which == 7:
        return np.floor(x)
    if which == 8:
        return np.ceil(x)
    if which == 9:
        return np.rint(x)
    if which == 10:
        return np.trunc(x)
    if which == 11:
        return abs(x)
    if which == 12:
        return 1.0 / np.sqrt(x)
    if which == 13:
        return 1.0 / (1.0 + np.exp(-x))
    if which == 14:
        return math.erf(x)
    if which == 15:
        return np.exp2(x)
    if which == 16:
        return np.log2(x)
    if which == 17:
        return np.log10(x)
    if which == 18:
        return np.log1p(x)
    if which == 19:
        return np.sinh(x)
    if which == 20:
        return np.cosh(x)
    if which == 21:
        return np.arctan(x)
    if which == 22:
        return np.arcsin(x)
    if which == 23:
        return np.arccos(x)
    if which == 24:
        return 1.0 if np.isnan(x) else 0.0
    if which == 25:
        return np.power(10.0, x)
    if which == 26:
        return 1.0 if np.isinf(x) else 0.0
    if which == 27:
        return 1.0 if np.isfinite(x) else 0.0
    if which == 28:
        return np.arcsinh(x)
    if which == 29:
        return np.arccosh(x)
    return np.arctanh(x)


@kernel
def _func2(which: Any, x: Any, y: Any) -> Any:
    if which == 0:
        return np.power(x, y)
    if which == 1:
        return np.fmod(x, y)
    if which == 2:
        return np.arctan2(x, y)
    if which == 3:
        return np.copysign(x, y)
    return np.hypot(x, y)


@kernel
def _load(kind: Any, at: Any, i8: Any, u8: Any, i16: Any, u16: Any, i32: Any, u32: Any, i64: Any) -> Any:
    if kind == 0:
        return np.int64(i8[at])
    if kind == 1:
        return np.int64(u8[at])
    if kind == 2:
        return np.int64(i16[at])
    if kind == 3:
        return np.int64(u16[at])
    if kind == 4:
        return np.int64(i32[at])
    if kind == 5:
        return np.int64(u32[at])
    return np.int64(i64[at])


@kernel
def _store(kind: Any, at: Any, x: Any, i8: Any, i16: Any, i32: Any, i64: Any) -> None:
    if kind <= 1:
        i8[at] = x
    elif kind <= 3:
        i16[at] = x
    elif kind <= 5:
        i32[at] = x
    else:
        i64[at] = x


@kernel
def _dot_int(
    kinds: Any,
    c: Any,
    cs: Any,
    x: Any,
    xs: Any,
    y: Any,
    ys: Any,
    n: Any,
    i8: Any,
    u8: Any,
    i16: Any,
    u16: Any,
    i32: Any,
    u32: Any,
    i64: Any,
) -> None:
    kc, kx, ky, w = kinds[0], kinds[1], kinds[2], kinds[3]
    for k in range(n):
        p = _load(kx, x + k * xs, i8, u8, i16, u16, i32, u32, i64) * _load(
            ky, y + k * ys, i8, u8, i16, u16, i32, u32, i64
        )
        total = _load(kc, c + k * cs, i8, u8, i16, u16, i32, u32, i64) + p
        _store(kc, c + k * cs, _wrap(total, w), i8, i16, i32, i64)


@kernel
def _dot_float(kind: Any, c: Any, cs: Any, x: Any, xs: Any, y: Any, ys: Any, n: Any, f32: Any, f64: Any) -> None:
    if kind == 32:
        for k in range(n):
            f32[c + k * cs] = f32[c + k * cs] + np.float32(f32[x + k * xs] * f32[y + k * ys])
    else:
        for k in range(n):
            f64[c + k * cs] = f64[c + k * cs] + f64[x + k * xs] * f64[y + k * ys]


@kernel
def execute(
    code: Any,
    r: Any,
    f: Any,
    i8: Any,
    u8: Any,
    i16: Any,
    u16: Any,
    i32: Any,
    u32: Any,
    i64: Any,
    f32: Any,
    f64: Any,
) -> int:
    """Runs ``code`` on registers and memory.

    Returns:
        -1 after HALT, else the row of the check that failed (the offending value is in ``r[0]``).
    """
    pc = 0
    while True:
        op, a, b, c, w = code[pc, 0], code[pc, 1], code[pc, 2], code[pc, 3], code[pc, 7]
        if op == LOOP:  # r[a] += 1; while r[a] < r[b]: back by c
            r[a] += 1
            pc += c if r[a] < r[b] else 1
            continue
        if op == ADD:
            r[a] = _wrap(r[b] + r[c], w)
        elif op == SUB:
            r[a] = _wrap(r[b] - r[c], w)
        elif op == MUL:
            r[a] = _wrap(r[b] * r[c], w)
        elif op == DOT_INT:
            at, x, y, n = r[a], r[c], r[code[pc, 5]], r[w]
            xs, ys = code[pc, 4], code[pc, 6]
            if code[pc + 1, 0] == 4 and code[pc + 1, 1] == 0 and code[pc + 1, 2] == 0:  # int32 += int8 * int8
                if b == 0:
                    # c is no operand, having another type, so wrapping once at the end equals wrapping at every step.
                    total = np.int64(i32[at])
                    if xs == 1 and ys == 1:
                        for k in range(n):
                            total += np.int64(i8[x + k]) * np.int64(i8[y + k])
                    else:
                        for k in range(n):
                            total += np.int64(i8[x + k * xs]) * np.int64(i8[y + k * ys])
                    i32[at] = total
                else:
                    for k in range(n):
                        i32[at + k * b] += np.int32(i8[x + k * xs]) * np.int32(i8[y + k * ys])
            else:
                _dot_int(code[pc + 1], at, b, x, xs, y, ys, n, i8, u8, i16, u16, i32, u32, i64)
            pc += 2
            continue
        elif op == DOT_FLOAT:
            _dot_float(code[pc + 1, 3], r[a], b, r[c], code[pc, 4], r[code[pc, 5]], code[pc, 6], r[w], f32, f64)
            pc += 2
            continue
        elif op == JZ:
            if r[a] == 0:
                pc += b
                continue
        elif op == JUMP:
            pc += b
            continue
        elif op == MOV:
            r[a] = r[b]
        elif op == LD_I8:
            r[a] = i8[r[b]]
        elif op == LD_I32:
            r[a] = i32[r[b]]
        elif op == LD_F32:
            f[a] = f32[r[b]]
        elif op == ST_I8:
            i8[r[b]] = r[a]
        elif op == ST_I32:
            i32[r[b]] = r[a]
        elif op == ST_F32:
            f32[r[b]] = f[a]
        elif op == CHECK:  # c <= r[b] < d
            if r[b] < c or r[b] >= code[pc, 4]:
                r[0] = r[b]
                return pc
        elif op == MIN:
            r[a] = min(r[b], r[c])
        elif op == MAX:
            r[a] = max(r[b], r[c])
        elif op == SHR:
            r[a] = _wrap(r[b] >> r[c], w)
        elif op == SHL:
            r[a] = _wrap(r[b] << r[c], w)
        elif op == WRAP:
            r[a] = _wrap(r[b], w)
        elif op in (FDIV, FMOD, TDIV, TMOD):
            x, y = r[b], r[c]
            if y == 0:
                return pc
            if y == -1:
                # The one quotient that overflows (lowest / -1) traps on some processors.
                r[a] = _wrap(-x, w) if op in (FDIV, TDIV) else 0
            else:
                q = x // y
                rest = x - q * y
                if op in (TDIV, TMOD) and rest != 0 and (x < 0) != (y < 0):
                    q += 1
                    rest -= y
                r[a] = q if op in (FDIV, TDIV) else rest
        elif op == EQ:
            r[a] = 1 if r[b] == r[c] else 0
        elif op == NE:
            r[a] = 1 if r[b] != r[c] else 0
        elif op == LT:
            r[a] = 1 if r[b] < r[c] else 0
        elif op == LE:
            r[a] = 1 if r[b] <= r[c] else 0
        elif op == AND:
            r[a] = r[b] & r[c]
        elif op == OR:
            r[a] = r[b] | r[c]
        elif op == XOR:
            r[a] = r[b] ^ r[c]
        elif op == ULT:
            r[a] = 1 if np.uint64(r[b]) < np.uint64(r[c]) else 0
        elif op == ULE:
            r[a] = 1 if np.uint64(r[b]) <= np.uint64(r[c]) else 0
        elif op == UDIV:
            if r[c] == 0:
                return pc
            r[a] = np.int64(np.uint64(r[b]) // np.uint64(r[c]))
        elif op == UMOD:
            if r[c] == 0:
                return pc
            r[a] = np.int64(np.uint64(r[b]) % np.uint64(r[c]))
        elif op == USHR:
            r[a] = np.int64(np.uint64(r[b]) >> np.uint64(r[c]))
        elif op == SEL:  # r[a] = r[b] ? r[c] : r[d]
            r[a] = r[c] if r[b] != 0 else r[code[pc, 4]]
        elif op == NOT:
            r[a] = 1 if r[b] == 0 else 0
        elif op == BNOT:
            r[a] = _wrap(~r[b], w)
        elif op == ABS:
            r[a] = _wrap(abs(r[b]), w)
        elif op == POPCOUNT:
            x = np.uint64(r[b])
            n = 0
            for _ in range(64 if w == 0 else 64 - abs(w)):
                n += np.int64(x & np.uint64(1))
                x = x >> np.uint64(1)
            r[a] = n
        elif op == LD_U8:
            r[a] = u8[r[b]]
        elif op == LD_I16:
            r[a] = i16[r[b]]
        elif op == LD_U16:
            r[a] = u16[r[b]]
        elif op == LD_U32:
            r[a] = u32[r[b]]
        elif op == LD_I64:
            r[a] = i64[r[b]]
        elif op == LD_F16:
            f[a] = _half_load(np.int64(u16[r[b]]))
        elif op == LD_F64:
            f[a] = f64[r[b]]
        elif op == ST_I16:
            i16[r[b]] = r[a]
        elif op == ST_I64:
            i64[r[b]] = r[a]
        elif op == ST_BOOL:
            u8[r[b]] = 1 if r[a] != 0 else 0
        elif op == ST_F16:
            u16[r[b]] = _half_bits(f[a])
        elif op == ST_F64:
            f64[r[b]] = f[a]
        elif op == FADD:
            f[a] = _round(f[b] + f[c], w)
        elif op == FSUB:
            f[a] = _round(f[b] - f[c], w)
        elif op == FMUL:
            f[a] = _round(f[b] * f[c], w)
        elif op == FDIVIDE:
            if f[c] == 0.0:
                f[a] = (
                    math.nan
                    if f[b] == 0.0 or math.isnan(f[b])
                    else math.copysign(math.inf, f[b]) * math.copysign(1.0, f[c])
                )
            else:
                f[a] = _round(f[b] / f[c], w)
        elif op == FMIN:
            f[a] = f[b] if f[b] < f[c] else f[c]
        elif op == FMAX:
            f[a] = f[b] if f[b] > f[c] else f[c]
        elif op == FEQ:
            r[a] = 1 if f[b] == f[c] else 0
        elif op == FNE:
            r[a] = 1 if f[b] != f[c] else 0
        elif op == FLT:
            r[a] = 1 if f[b] < f[c] else 0
        elif op == FLE:
            r[a] = 1 if f[b] <= f[c] else 0
        elif op == FSEL:
            f[a] = f[c] if r[b] != 0 else f[code[pc, 4]]
        elif op == FMOV:
            f[a] = _round(f[b], w)
        elif op == ITOF:
            f[a] = _round(float(r[b]), w)
        elif op == UTOF:
            f[a] = _round(float(np.uint64(r[b])), w)
        elif op == FTOI:
            r[a] = _wrap(_to_int(f[b]), w)
        elif op == FUNC:
            f[a] = _round(_func(code[pc, 4], f[b]), w)
        elif op == FUNC2:
            f[a] = _round(_func2(code[pc, 4], f[b], f[c]), w)
        elif op == FAIL:
            return pc
        else:
            return -1
        pc += 1
