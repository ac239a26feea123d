"""What stands behind a border of rows that are given, or made otherwise: class tokens, and rows appended to a cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused
from spaces import computes, formed
from turns import in_turn

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.target import get_target
from space import Space
from space.normalise import Wanted, beside, normalise
from space.normalise.blocks import device_blocks, store_of

DE10 = "vta-de10"
BESIDE = Wanted(beside=True)
ROWS, WIDE = 9, 32


def narrow(e, shift: int, low: int = -128):
    return te.max(te.min(e >> shift, 127), low).astype("int8")


class Program:
    """A program as it is written: its parameters in order, and tensors of (rows, channels)."""

    def __init__(self) -> None:
        self.given: list[te.Tensor] = []

    def tensor(self, *shape: int, dtype: str = "int8") -> te.Tensor:
        self.given.append(te.placeholder(shape, dtype, name=f"x{len(self.given)}"))
        return self.given[-1]

    def layer(self, x: te.Tensor, name: str, bias: bool = False, stored: bool = True) -> te.Tensor:
        """A product with a parameter; ``stored`` as int8."""
        w, r = self.tensor(WIDE, int(x.shape[1].value)), te.reduce_axis((0, x.shape[1]), name=f"r_{name}")
        s = te.compute((x.shape[0], WIDE), lambda i, j: te.sum(
            x[i, r].astype("int32") * w[j, r].astype("int32"), axis=r), name=f"{name}s")
        b = self.tensor(WIDE, dtype="int32") if bias else None
        return te.compute(s.shape, lambda i, j: narrow(s[i, j] if b is None else s[i, j] + b[j], 8), name=name) if stored else s

    def attended(self, q: te.Tensor, k: te.Tensor, v: te.Tensor) -> te.Tensor:
        d, u = te.reduce_axis((0, WIDE), name="d"), te.reduce_axis((0, k.shape[0]), name="u")
        s = te.compute((q.shape[0], k.shape[0]), lambda i, j: te.sum(
            q[i, d].astype("int32") * k[j, d].astype("int32"), axis=d), name="s")
        p = te.compute(s.shape, lambda *i: narrow(s(*i), 7, 0), name="p")
        o = te.compute(q.shape, lambda i, e: te.sum(p[i, u].astype("int32") * v[u, e].astype("int32"), axis=u), name="o")
        return te.compute(o.shape, lambda *i: narrow(o(*i), 7), name="a")

    def func(self, *results: te.Tensor) -> PrimFunc:
        return te.create_prim_func([*self.given, *results])


def rows(one: te.Tensor, two: te.Tensor, name: str) -> te.Tensor:
    """One above the other."""
    n = int(one.shape[0].value)
    return te.compute((n + int(two.shape[0].value), WIDE), lambda i, c: te.if_then_else(
        i < n, one[i, c], two[i - n, c]), name=name)


def tokens(p: Program, positions: bool = True, behind: bool = False, bias: bool = False, more: bool = False) -> te.Tensor:
    """A class token, and what is made of patches."""
    e = p.layer(p.tensor(ROWS, 20), "e", bias)
    t = rows(e, p.tensor(1, WIDE), "t") if behind else rows(p.tensor(1, WIDE), e, "t")
    t = rows(p.tensor(1, WIDE), t, "more") if more else t
    if not positions:
        return t
    at = p.tensor(*(int(n.value) for n in t.shape))
    return te.compute(t.shape, lambda i, c: te.max(te.min(
        t[i, c].astype("int32") + at[i, c].astype("int32"), 127), -128).astype("int8"), name="placed")


def read(p: Program, t: te.Tensor, whole: bool) -> te.Tensor:
    """Attention, or only scores of what is made of queries with tokens themselves."""
    if whole:
        return p.attended(*(p.layer(t, n) for n in "qkv"))
    q, d = p.layer(t, "q"), te.reduce_axis((0, WIDE), name="d")
    s = te.compute((t.shape[0], t.shape[0]), lambda i, j: te.sum(
        q[i, d].astype("int32") * t[j, d].astype("int32"), axis=d), name="s")
    return te.compute(s.shape, lambda *i: narrow(s(*i), 9), name="p")


def attention(whole: bool = True, **how: bool) -> PrimFunc:
    p = Program()
    return p.func(read(p, tokens(p, **how), whole))


def dense() -> PrimFunc:
    """A layer, and what it is added to."""
    p = Program()
    t = tokens(p)
    s = p.layer(t, "y", stored=False)
    return p.func(te.compute(s.shape, lambda *i: te.max(te.min((s(*i) >> 8) + t(*i).astype("int32"), 127), -128).astype("int8"),
                             name="z"))


def both(whole: bool = True) -> PrimFunc:
    """Two sequences that the program makes, one behind the other."""
    p = Program()
    return p.func(read(p, rows(p.layer(p.tensor(ROWS, 20), "e"), p.layer(p.tensor(4, 20), "f", True), "t"), whole))


def appended(cached: int, new: int) -> PrimFunc:
    """Keys and values of some rows are given, those of others made."""
    p = Program()
    x = p.tensor(new, WIDE)
    q, k, v = (p.layer(x, n) for n in "qkv")
    return p.func(p.attended(q, rows(p.tensor(cached, WIDE), k, "keys"), rows(p.tensor(cached, WIDE), v, "values")))


def behind(cache: te.Tensor, one: te.Tensor, more: int) -> te.Tensor:
    """Some rows, and behind them one row, ``more`` times."""
    n = int(cache.shape[0].value)
    return te.compute((n + more, WIDE), lambda i, c: te.if_then_else(i < n, cache[i, c], one[0, c]), name=f"all_{one.name}")


def row(cached: int, results: bool = False, more: int = 1) -> PrimFunc:
    """As ``appended``, of one row that is read by its number; it may be a result, and stand there several times."""
    p = Program()
    x = p.tensor(1, WIDE)
    q, k, v = (p.layer(x, n) for n in "qkv")
    keys, values = (behind(p.tensor(cached, WIDE), e, more) for e in (k, v))
    return p.func(p.attended(q, keys, values), *([k, v] if results else []))


def also() -> PrimFunc:
    """Another layer reads what stands behind the class token, without it."""
    p = Program()
    e = p.layer(p.tensor(ROWS, 20), "e")
    t = rows(p.tensor(1, WIDE), e, "t")
    return p.func(p.layer(e, "y"), p.attended(*(p.layer(t, n) for n in "qkv")))


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    "attention": attention, "without positions": lambda: attention(positions=False), "behind": lambda: attention(behind=True),
    "biased": lambda: attention(bias=True), "two tokens": lambda: attention(more=True), "dense": dense, "both made": both,
    "scores behind": lambda: attention(False, behind=True), "scores of two tokens": lambda: attention(False, more=True),
    "scores, biased": lambda: attention(False, bias=True), "scores of both": lambda: both(False),
    "one row appended": lambda: appended(15, 1), "three rows appended": lambda: appended(16, 3), "also read": also,
}


@pytest.mark.parametrize("name", ["scores of two tokens", "scores behind", "scores of both", "one row appended"])
def test_what_stands_behind_a_border_is_made_there(name: str) -> None:
    formed(PROGRAMS[name](), DE10, BESIDE)


@pytest.mark.parametrize(("results", "target"), in_turn((False, True)))
def test_one_row_may_be_read_by_its_number(results: bool, target: str) -> None:
    computes(row(15, results), target, 1, Wanted(beside=True, returned=results))


def test_one_row_that_stands_behind_others_twice_is_made_nowhere() -> None:
    with refused(SpaceError, "layout") as caught:
        Space(row(15, more=2), DE10)
    assert "multiplies q by all_k, and the program makes both" in str(caught.value)


@pytest.mark.parametrize(("name", "target"), in_turn(("dense", "scores, biased")))
def test_such_programs_have_schedules_on_every_machine(name: str, target: str) -> None:
    computes(PROGRAMS[name](), target, 1, BESIDE)


@pytest.mark.slow
@pytest.mark.parametrize("target", [DE10, "vta-de10-portable"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_their_spaces_find_a_form(name: str, target: str) -> None:
    computes(PROGRAMS[name](), target, 2)


def largest() -> PrimFunc:
    """What is behind the border is no sum."""
    p = Program()
    x, k = p.tensor(ROWS, WIDE), te.reduce_axis((0, 2), name="k")
    e = te.compute((ROWS - 1, WIDE), lambda i, c: te.max(x[i + k, c], axis=k), name="e")
    return p.func(p.layer(rows(p.tensor(1, WIDE), e, "t"), "y"))


def by_data() -> PrimFunc:
    """An element, and no place, says on which side it is."""
    p = Program()
    e, at = p.layer(p.tensor(ROWS, 20), "e"), p.tensor(ROWS, 1)
    t = te.compute(e.shape, lambda i, c: te.if_then_else(at[i, 0] > 0, e[ROWS - 1 - i, c], te.const(0, "int8")), name="t")
    return p.func(p.layer(t, "y"))


def in_place() -> PrimFunc:
    """Nothing moves: a part of what is made is masked."""
    p = Program()
    e = p.layer(p.tensor(ROWS, 20), "e")
    t = te.compute(e.shape, lambda i, c: te.if_then_else(i < 4, e[i, c], te.const(0, "int8")), name="t")
    return p.func(p.layer(t, "y"))


@pytest.mark.parametrize("make", [largest, by_data, in_place])
def test_what_else_is_chosen_has_no_such_form(make: Callable[[], PrimFunc]) -> None:
    func, target = make(), get_target(DE10)
    assert beside.apart(Schedule(func, seed=0), target) is None
    assert normalise(func, target, BESIDE) == (func, ())


def test_of_a_choice_by_data_where_it_reads_is_what_is_said() -> None:
    with pytest.raises(SpaceError, match="block 't': an index of e runs against the iterators"):
        Space(by_data(), DE10)


def test_what_is_made_has_an_element_for_each_of_its_places() -> None:
    func = both()
    sch = beside.apart(Schedule(func, seed=0), get_target(DE10))
    assert sch is not None
    shapes = {store_of(b).buffer.name: [int(n.value) for n in store_of(b).buffer.shape] for b in device_blocks(sch.func)}
    assert shapes["es_0"] == shapes["fs_0"] == [ROWS + 4, WIDE] and not {"e", "f", "es", "fs"} & set(shapes)
    inputs = random_inputs(func, 3)
    assert all(map(np.array_equal, run(sch.func, *inputs), run(func, *inputs)))


@pytest.mark.parametrize(("name", "flat"), [("class_token_of_patches", True), ("class_token_of_columns", False)])
def test_patches_of_an_image_lie_flat_where_their_places_are_in_order(name: str, flat: bool, user_programs) -> None:
    func = user_programs.program(name)
    sch = beside.apart(Schedule(func, seed=0), get_target(DE10))
    assert sch is not None
    assert any(step.op == "transform_block_layout" for step in sch.trace.insts) == flat
    inputs = random_inputs(func, 3)
    assert all(map(np.array_equal, run(sch.func, *inputs), run(func, *inputs)))


@pytest.mark.parametrize("target", [DE10, "vta-de10-portable"])
def test_what_two_blocks_read_of_it_one_behind_the_other_is_cut_once(target: str) -> None:
    """A layer of tokens and what they are added to: to cut what the layer makes is to cut the block that adds."""
    assert normalise(dense(), get_target(target), Wanted(loaded=True))[1]
    computes(dense(), target, 2)
