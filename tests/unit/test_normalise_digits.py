"""Axes that are taken apart in one place and whole in another: heads of attention side by side, channels that become pixels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from spaces import computes, formed
from turns import MACHINES, in_turn

from autosched import te
from autosched.ir.expr import BufferLoad
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.target import get_target
from space.normalise import Wanted, digits, normalise
from space.normalise.blocks import device_blocks, is_packed, store_of

DE10 = "vta-de10"
SPLIT = Wanted(digits=True)

Heads = Callable[..., object]  # an element of a tensor of heads, by (head, row, channel)


def narrow(e, shift: int, low: int = -128):
    return te.max(te.min(e >> shift, 127), low).astype("int8")


def product(a: te.Tensor, b: te.Tensor, name: str) -> te.Tensor:
    (n, k), m = a.shape, b.shape[1]
    r = te.reduce_axis((0, k), name=f"r_{name}")
    return te.compute((n, m), lambda i, j: te.sum(a[i, r].astype("int32") * b[r, j].astype("int32"), axis=r), name=name)


class Attention:
    """Attention of some heads, written in one of many ways.

    Args:
        rows: of queries.
        keys: of keys and values.
        heads: how many.
        deep: channels of a head.
    """

    def __init__(self, rows: int = 9, keys: int = 9, heads: int = 2, deep: int = 16) -> None:
        self.rows, self.keys, self.heads, self.deep, self.wide = rows, keys, heads, deep, heads * deep
        self.given: list[te.Tensor] = []

    def tensor(self, name: str, *shape: int, dtype: str = "int8") -> te.Tensor:
        self.given.append(te.placeholder(shape, dtype, name=name))
        return self.given[-1]

    def flat(self, name: str, x: te.Tensor | None, n: int, bias: bool = False, heads: int | None = None) -> Heads:
        """Heads side by side, given or made of ``x``."""
        wide = self.deep * (heads or self.heads)
        if x is None:
            t = self.tensor(name, n, wide)
        else:
            s = product(x, self.tensor(f"w{name}", self.wide, wide), f"{name}s")
            b = self.tensor(f"b{name}", wide, dtype="int32") if bias else None
            t = te.compute(s.shape, lambda i, j: narrow(s[i, j] if b is None else s[i, j] + b[j], 9), name=name)
        return lambda h, i, d: t[i, h * self.deep + d] if heads is None else t[i, d]

    def apart(self, name: str, x: te.Tensor, n: int) -> Heads:
        """Heads as an axis, made of weights that lie side by side."""
        w, r = self.tensor(f"w{name}", self.wide, self.wide), te.reduce_axis((0, self.wide), name=f"r_{name}")
        s = te.compute((self.heads, n, self.deep), lambda h, i, d: te.sum(
            x[i, r].astype("int32") * w[r, h * self.deep + d].astype("int32"), axis=r), name=f"{name}s")
        t = te.compute(s.shape, lambda *i: narrow(s(*i), 9), name=name)
        return lambda h, i, d: t[h, i, d]

    def attended(self, q: Heads, k: Heads, v: Heads) -> te.Tensor:
        """Sums by (head, row, channel)."""
        d, t = te.reduce_axis((0, self.deep), name="d"), te.reduce_axis((0, self.keys), name="t")
        s = te.compute((self.heads, self.rows, self.keys), lambda h, i, j: te.sum(
            q(h, i, d).astype("int32") * k(h, j, d).astype("int32"), axis=d), name="s")
        p = te.compute(s.shape, lambda *i: narrow(s(*i), 8, 0), name="p")
        return te.compute((self.heads, self.rows, self.deep), lambda h, i, e: te.sum(
            p[h, i, t].astype("int32") * v(h, t, e).astype("int32"), axis=t), name="o")

    def merged(self, o: te.Tensor, copied: bool = False) -> te.Tensor:
        """The heads side by side, narrowed on the way or before."""
        shape, deep = (self.rows, self.wide), self.deep
        if copied:
            each = te.compute(o.shape, lambda *i: narrow(o(*i), 7), name="each")
            return te.compute(shape, lambda i, c: each[c // deep, i, c % deep], name="a")
        return te.compute(shape, lambda i, c: narrow(o[c // deep, i, c % deep], 7), name="a")

    def projected(self, a: te.Tensor, x: te.Tensor | None = None, wide: int = 20) -> PrimFunc:
        """The program, that ends with ``a`` times a parameter, and what it is added to."""
        y = product(a, self.tensor("wo", self.wide, wide if x is None else self.wide), "y")
        z = te.compute(y.shape, lambda i, j: narrow(y[i, j], 9) if x is None else te.max(te.min(
            (y[i, j] >> 9) + (x[i, j] >> 1).astype("int32"), 127), -128).astype("int8"), name="z")
        return te.create_prim_func([*self.given, z])


def block(deep: int = 16, copied: bool = False, bias: bool = False, apart: bool = False) -> PrimFunc:
    """A whole block with its residual."""
    m = Attention(deep=deep)
    x = m.tensor("x", m.rows, m.wide)
    q, k, v = (m.apart(n, x, m.rows) if apart else m.flat(n, x, m.rows, bias) for n in "qkv")
    return m.projected(m.merged(m.attended(q, k, v), copied), x)


def across(deep: int = 8, heads: int = 3) -> PrimFunc:
    """Queries of one sequence, keys and values of another one, all given."""
    m = Attention(7, 18, heads, deep)
    return m.projected(m.merged(m.attended(m.flat("q", None, 7), m.flat("k", None, 18), m.flat("v", None, 18))))


def summed_by_digits() -> PrimFunc:
    """The projection itself takes its channels apart."""
    m = Attention()
    o = m.attended(*(m.flat(n, None, 9) for n in "qkv"))
    a = te.compute(o.shape, lambda *i: narrow(o(*i), 7), name="a")
    w, r = m.tensor("wo", m.wide, 20), te.reduce_axis((0, m.wide), name="r")
    y = te.compute((9, 20), lambda i, j: te.sum(
        a[r // m.deep, i, r % m.deep].astype("int32") * w[r, j].astype("int32"), axis=r), name="y")
    return te.create_prim_func([*m.given, te.compute(y.shape, lambda *i: narrow(y(*i), 9), name="z")])


def one_key() -> PrimFunc:
    """All heads have the same keys and values; their sums are written side by side."""
    m = Attention(deep=32)
    x = m.tensor("x", m.rows, m.wide)
    q, k, v = (m.flat(n, x, m.rows, heads=None if n == "q" else 1) for n in "qkv")
    d, t = te.reduce_axis((0, m.deep), name="d"), te.reduce_axis((0, m.keys), name="t")
    s = te.compute((m.heads, m.rows, m.keys), lambda h, i, j: te.sum(
        q(h, i, d).astype("int32") * k(0, j, d).astype("int32"), axis=d), name="s")
    p = te.compute(s.shape, lambda *i: narrow(s(*i), 9, 0), name="p")
    o = te.compute((m.rows, m.wide), lambda i, c: te.sum(
        p[c // m.deep, i, t].astype("int32") * v(0, t, c % m.deep).astype("int32"), axis=t), name="o")
    return m.projected(te.compute(o.shape, lambda *i: narrow(o(*i), 7), name="a"), x)


def images() -> PrimFunc:
    """Rows of two sequences, one behind the other, are taken apart as well: what is given and what is the result lie so."""
    many, rows, heads, deep = 2, 6, 2, 16
    wide = heads * deep
    x = te.placeholder((many * rows, wide), "int8", name="x")
    ws = [te.placeholder((wide, wide), "int8", name=f"w{n}") for n in "qkvo"]

    def made(name: str, w: te.Tensor) -> te.Tensor:
        s = product(x, w, f"{name}s")
        return te.compute(s.shape, lambda *i: narrow(s(*i), 9), name=name)

    q, k, v = map(made, "qkv", ws)
    d, t = te.reduce_axis((0, deep), name="d"), te.reduce_axis((0, rows), name="t")
    s = te.compute((many, heads, rows, rows), lambda b, h, i, j: te.sum(
        q[b * rows + i, h * deep + d].astype("int32") * k[b * rows + j, h * deep + d].astype("int32"), axis=d), name="s")
    p = te.compute(s.shape, lambda *i: narrow(s(*i), 8, 0), name="p")
    o = te.compute((many, heads, rows, deep), lambda b, h, i, e: te.sum(
        p[b, h, i, t].astype("int32") * v[b * rows + t, h * deep + e].astype("int32"), axis=t), name="o")
    a = te.compute((many * rows, wide), lambda r, c: narrow(o[r // rows, c // deep, r % rows, c % deep], 7), name="a")
    y = product(a, ws[3], "y")
    z = te.compute(y.shape, lambda i, j: te.max(te.min(
        (y[i, j] >> 9) + (x[i, j] >> 1).astype("int32"), 127), -128).astype("int8"), name="z")
    return te.create_prim_func([x, *ws, z])


def layers(deal: Callable[[te.Tensor], te.Tensor], channels: int, taps: int = 1, size: int = 6) -> PrimFunc:
    """Two convolutions, and what moves elements between them."""
    given = [te.placeholder((9, size, size), "int8", name="x")]

    def layer(x: te.Tensor, n: int, taps: int) -> te.Tensor:
        w = te.placeholder((n, x.shape[0], taps, taps), "int8", name=f"w{len(given)}")
        given.append(w)
        c, p, q = (te.reduce_axis((0, e), name=f"{v}{len(given)}") for v, e in zip("cpq", w.shape[1:]))
        s = te.compute((n, x.shape[1] - taps + 1, x.shape[2] - taps + 1), lambda o, y, z: te.sum(
            x[c, y + p, z + q].astype("int32") * w[o, c, p, q].astype("int32"), axis=[c, p, q]), name=f"s{len(given)}")
        return te.compute(s.shape, lambda *i: narrow(s(*i), 8, 0), name=f"y{len(given)}")

    last = layer(deal(layer(given[0], channels, 1)), 7, taps)
    return te.create_prim_func([*given, last])


def pixels(a: te.Tensor) -> te.Tensor:
    """Channels become pixels."""
    c, h, w = (int(e.value) for e in a.shape)
    return te.compute((c // 4, h * 2, w * 2), lambda k, y, z: a[k * 4 + y % 2 * 2 + z % 2, y // 2, z // 2], name="moved")


def channels(a: te.Tensor) -> te.Tensor:
    """Pixels become channels."""
    c, h, w = (int(e.value) for e in a.shape)
    return te.compute((c * 4, h // 2, w // 2), lambda k, y, z: a[k // 4, y * 2 + k % 4 // 2, z * 2 + k % 2], name="moved")


def planes(a: te.Tensor) -> te.Tensor:
    """As ``channels``, all of a pixel behind each other."""
    c, h, w = (int(e.value) for e in a.shape)
    return te.compute((c * 4, h // 2, w // 2), lambda k, y, z: a[k % c, y * 2 + k // (2 * c), z * 2 + k // c % 2], name="moved")


def shuffled(a: te.Tensor) -> te.Tensor:
    """Channels of two groups by turns."""
    c = int(a.shape[0].value)
    return te.compute(a.shape, lambda k, y, z: a[k % 2 * (c // 2) + k // 2, y, z], name="moved")


PROGRAMS = {
    "pixels": lambda: layers(pixels, 64, size=3), "few pixels": lambda: layers(pixels, 20, size=3),
    "channels": lambda: layers(channels, 8, 3), "planes": lambda: layers(planes, 8, 2),
    "shuffled": lambda: layers(shuffled, 32, 3),
    "merged": block, "copied": lambda: block(copied=True), "of eight": lambda: block(deep=8),
    "of 24, copied": lambda: block(24, True), "of 32": lambda: block(32), "with biases": lambda: block(bias=True),
    "made apart": lambda: block(apart=True), "across": across, "across, of 32": lambda: across(32, 2),
    "summed by digits": summed_by_digits, "one key": one_key, "images": images,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_axes_that_are_taken_apart_are_several_everywhere(name: str) -> None:
    func = PROGRAMS[name]()
    new = formed(func, DE10, SPLIT)
    moves = [store_of(b).buffer for b in device_blocks(func) if isinstance(store_of(b).value, BufferLoad)]
    assert not {b.name for b in moves} & {store_of(b).buffer.name for b in device_blocks(new)}  # nothing is moved


@pytest.mark.parametrize(("name", "target"), in_turn((
    "across", "across, of 32", "summed by digits", "pixels", "planes", "shuffled")))
def test_such_programs_have_schedules_on_every_machine(name: str, target: str) -> None:
    computes(PROGRAMS[name](), target, 2, SPLIT)


@pytest.mark.slow
@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_have_schedules_on_every_machine(name: str, target: str) -> None:
    computes(PROGRAMS[name](), target, 2)


def fused(sch: Schedule) -> None:
    sch.fuse(*sch.get_loops("a"))


def turned(sch: Schedule) -> None:
    sch.reorder(*reversed(sch.get_loops("a")))


def zero_first(sch: Schedule) -> None:
    sch.decompose_reduction("y", sch.get_loops("y")[1])


@pytest.mark.parametrize("change", [fused, turned, zero_first])
def test_loops_may_be_any(change: Callable[[Schedule], None]) -> None:
    sch, target = Schedule(across(), seed=0), get_target(DE10)
    change(sch)
    new, steps = normalise(sch.func, target, SPLIT)
    assert steps and is_packed(split_host(new).device, target)
    inputs = random_inputs(sch.func, 2)
    assert all(map(np.array_equal, run(new, *inputs), run(sch.func, *inputs)))


def again(first: int, second: int) -> PrimFunc:
    """48 channels that are put together of heads of one size, and taken apart by another one."""
    m = Attention(deep=first, heads=48 // first)
    a = m.merged(m.attended(*(m.flat(n, None, 9) for n in "qkv")))
    other, r = m.tensor("other", 48 // second, 9, second), te.reduce_axis((0, second), name="r")
    s = te.compute((48 // second, 9, 9), lambda h, i, j: te.sum(
        a[i, h * second + r].astype("int32") * other[h, j, r].astype("int32"), axis=r), name="again")
    return te.create_prim_func([*m.given, te.compute(s.shape, lambda *i: narrow(s(*i), 8), name="last")])


@pytest.mark.parametrize(("first", "second", "fit"), [
    (8, 16, True), (16, 8, True), (16, 16, True), pytest.param(8, 12, False, marks=pytest.mark.slow), (16, 24, False)])
def test_heads_of_other_sizes_are_axes_where_these_go_into_each_other(first: int, second: int, fit: bool) -> None:
    func, target = again(first, second), get_target(DE10)
    new, steps = normalise(func, target, SPLIT)
    assert bool(steps) == fit and (fit or new is func)
    inputs = random_inputs(func, 1)
    assert all(map(np.array_equal, run(new, *inputs), run(func, *inputs)))


def test_windows_that_overlap_take_nothing_apart() -> None:
    """The twin of windows side by side: of three with step two, the places of one are those of its neighbour."""
    def program(taps: int, step: int) -> PrimFunc:
        x, w = te.placeholder((16, 9), "int8", name="x"), te.placeholder((16, 16), "int8", name="w")
        y = product(w, x, "y")
        a = te.compute(y.shape, lambda *i: narrow(y(*i), 8), name="a")
        p = te.reduce_axis((0, taps), name="p")
        s = te.compute((16, (9 - taps) // step + 1), lambda c, i: te.sum(a[c, i * step + p].astype("int32"), axis=p), name="s")
        return te.create_prim_func([x, w, te.compute(s.shape, lambda *i: narrow(s(*i), 2), name="z")])

    for taps, step, apart in ((3, 3, True), (3, 2, False), (2, 4, False), (7, 1, False), (2, 2, False)):
        found = digits.apart(Schedule(program(taps, step), seed=0), get_target(DE10))
        assert (found is not None) == apart, (taps, step)


def test_a_program_that_takes_nothing_apart_has_no_such_form(user_programs) -> None:
    for name in ("dense_chain", "attention_linear", "dense_fused_loop", "conv_upsampled", "conv_chain", "conv_pool_padded"):
        func = user_programs.program(name)
        assert normalise(func, get_target(DE10), SPLIT) == (func, ()), name
