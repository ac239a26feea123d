"""Filters over planes, in groups: programs whose channels fill few lanes, or all of them."""

from __future__ import annotations

from typing import Any

from autosched import te
from autosched.ir.stmt import PrimFunc

INT32 = "int32"


def filters(
    size: tuple[int, ...] = (9, 20), taps: tuple[int, ...] = (3, 3), channels: int = 1, co: int = 1, groups: int = 1, n: int = 1,
    steps: tuple[int, ...] = (1, 1), strides: tuple[int, ...] = (1, 1), pads: tuple[int, ...] = (0, 0), bias: bool = True,
    end: str = "clip", inside: bool = False, made: bool = False,
) -> PrimFunc:
    """A sum over windows of as many dimensions as ``size`` has, with stages behind it.

    Args:
        size: of a plane, without what is put around it.
        taps: of a window.
        channels: of the data, in a group.
        co: of the result, in a group.
        groups: of channels.
        n: images.
        steps: from a window to the next one.
        strides: from a tap to the next one.
        pads: zeros in front of and behind a plane.
        bias: whether each channel has one.
        end: stages behind: ``clip``, ``shift``, ``residual`` of int8, or ``row``, an operand for every column.
        inside: whether zeros around are chosen in the sum.
        made: whether a stage makes the data.
    """
    rank = len(size)
    x = te.placeholder((n, groups * channels, *size), "int8", name="x")
    w = te.placeholder((groups * co, channels, *taps), "int8", name="w")
    given, image = [x, w], x

    def within(*at: Any) -> Any:
        return te.all(*[c for i, p, e in zip(at, pads, size) for c in ((i >= p), (i < p + e))])

    def padded(b: Any, c: Any, *at: Any) -> Any:
        return te.if_then_else(within(*at), x[(b, c, *[i - p for i, p in zip(at, pads)])], te.const(0, "int8"))

    if made:
        image = te.compute(x.shape, lambda *i: te.max(x[i], te.const(0, "int8")), name="made")
    elif any(pads) and not inside:
        image = te.compute((n, groups * channels, *[e + 2 * p for e, p in zip(size, pads)]), padded, name="padded")
    around = (0,) * rank if made else pads
    ends = [(e + 2 * p - (t - 1) * d - 1) // s + 1 for e, p, t, d, s in zip(size, around, taps, strides, steps)]
    over = [te.reduce_axis((0, e), name=f"r{k}") for k, e in enumerate((channels, *taps))]

    def term(b: Any, o: Any, *at: Any) -> Any:
        places = [i * s + t * d for i, s, t, d in zip(at, steps, over[1:], strides)]
        c = o if groups > 1 and channels == co == 1 else o // co * channels + over[0] if groups > 1 else over[0]
        read = padded(b, c, *places) if inside else image[(b, c, *places)]
        return te.sum(read.astype(INT32) * w[(o, *over)].astype(INT32), axis=over)

    s = te.compute((n, groups * co, *ends), term, name="s")
    if bias:
        b = te.placeholder((groups * co,), INT32, name="b")
        given.append(b)
        summed = s
        s = te.compute(s.shape, lambda *i: summed[i] + b[i[1]], name="t")
    if end in ("residual", "row"):
        r = te.placeholder(s.shape if end == "residual" else s.shape[-1:], "int8" if end == "residual" else INT32, name="r")
        given.append(r)
        plain = s
        s = te.compute(s.shape, lambda *i: (plain[i] >> 3) + (r[i].astype(INT32) if end == "residual" else r[i[-1]]), name="u")
    last = s
    return te.create_prim_func([*given, te.compute(s.shape, lambda *i: (
        last[i] >> 4 if end == "shift" else te.min(te.max(last[i] >> 4, -128), 127)).astype("int8"), name="out")])
