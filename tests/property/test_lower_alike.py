"""Instructions that were made for another site are those that a site would have got anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autosched.errors import LoweringError
from autosched.ir.stmt import PrimFunc
from autosched.kernel import program_hash, scheduled
from autosched.lower import alike, lower_table, order, parts
from autosched.lower.affine import Lin, Loop
from autosched.lower.elements import Place
from autosched.lower.nest import loop_values
from autosched.lower.order import Key
from autosched.lower.tree import Site
from autosched.schedule.kit import shared
from autosched.script import parse
from autosched.target import Target, get_target
from autosched.workloads import workload
from space import Space

# Borders on both sides, uneven parts, taps, banks; products at other addresses; chains with tensors.
WORKLOADS = ("conv2d:h=9,w=7,ci=32,co=32,k=3,pad=1", "conv2d:h=6,w=6,ci=32,co=16,k=1", "residual:h=6,w=6,c=48")


VALUES = ("{x}", "{y}", "{x} + {y}", "{y} + {x}", "{x} + {x}", "{x} + 3", "{x} + 5", "T.max({x}, 3)", "T.min({x}, {y})", "7")


def by_hand(value: str, dma: str, pad: int, pages: int) -> PrimFunc:
    """``value`` of two int32 tensors behind some pages of DRAM, of which the second is read with a border of zeros before it."""
    x, y = "x[vi, vj, 0, vl]", "y[vi, vj, 0, vl]"
    shape = "(2, 24, 1, 16)"
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(
    front: T.Buffer(({pages}, 4096), "int8"), a: T.Buffer({shape}, "int32"), b: T.Buffer({shape}, "int32"),
    out: T.Buffer({shape}, "int8"),
):
    x = T.alloc_buffer({shape}, "int32", scope="local.acc_buffer")
    y = T.alloc_buffer({shape}, "int32", scope="local.acc_buffer")
    z = T.alloc_buffer({shape}, "int32", scope="local.acc_buffer")
    for i, j, l in T.grid(2, 24, 16):
        with T.block("load_x"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            T.block_attr({{"vta.dma": "{dma}"}})
            x[vi, vj, 0, vl] = a[vi, vj, 0, vl]
    for i, j, l in T.grid(2, 24, 16):
        with T.block("load_y"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            y[vi, vj, 0, vl] = T.if_then_else({pad} <= vj, b[vi, vj - {pad}, 0, vl], 0)
    for i, j, l in T.grid(2, 24, 16):
        with T.block("compute"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            z[vi, vj, 0, vl] = {value.format(x=x, y=y)}
    for i, j, l in T.grid(2, 24, 16):
        with T.block("store"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            out[vi, vj, 0, vl] = T.cast(z[vi, vj, 0, vl], "int8")
''')


def lowered(func: PrimFunc, target: Target) -> str:
    try:
        return program_hash(lower_table(func, target))
    except LoweringError as error:
        return str(error)


@pytest.mark.parametrize("name", [*WORKLOADS, "by hand"])
def test_sites_of_other_programs_are_as_good(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    funcs: list[tuple[PrimFunc, Target]] = []
    for machine in ("vta-de10", "vta-de10-portable"):
        target = get_target(machine)
        if name == "by hand":
            choices = [*product(VALUES, ("merge",), (0, 20), (1, 2)), *product(VALUES[:1], ("rows", "strided"), (1,), (1,))]
            funcs += [(by_hand(*choice), target) for choice in choices]
            continue
        space = Space(workload(name, 1, 16).func, target)
        points = space.sample(np.random.default_rng(8), 5)
        funcs += [(space.schedule(p).func, target) for p in points]
    alone = []
    for func, target in funcs:
        alike.forget()
        parts.forget()
        alone.append(lowered(func, target))
    made = 0
    old = alike.answered

    def counted(asked: Any, origin: alike.Origin, weighed: alike.Weights, make: Callable[[], Any]) -> Any:
        def one() -> Any:
            nonlocal made
            made += 1
            return make()

        return old(asked, origin, weighed, one)

    monkeypatch.setattr(alike, "answered", counted)
    alike.forget()
    once = [lowered(func, target) for func, target in funcs]
    first = made
    again = [lowered(func, target) for func, target in reversed(funcs)][::-1]
    assert once == alone and again == alone
    assert made == first, "a program lowered twice asks nothing new"
    shared.forget()


def ordered(rng: np.random.Generator, loops: list[Loop]) -> Key:
    """The keys of a site within these loops, in a program with some more loops and sites in and around them."""
    site = Site("alu", "s", None, [])  # type: ignore[arg-type]
    node: Any = site
    for loop in reversed(loops):
        others = [[Site("alu", "o", None, []) for _ in range(rng.integers(3))] for _ in range(2)]  # type: ignore[arg-type]
        beside = [Loop("b", int(rng.integers(1, 4)), body=[Site("alu", "o", None, [])])]  # type: ignore[arg-type]
        loop.body = [*others[0], node, *others[1], *beside[: rng.integers(2)]]
        node = loop

    def number(nodes: list[Any], count: int, path: tuple[Loop, ...]) -> int:
        for inner in nodes:
            if isinstance(inner, Loop):
                count = number(inner.body, count, (*path, inner))
            else:
                inner.order, inner.path = count, path
                count += 1
        return count

    root = Loop("root", 1, body=[Loop("first", 2, body=[Site("alu", "o", None, [])]), node])  # type: ignore[arg-type]
    number([root], 0, ())
    return order.keys(SimpleNamespace(root=root))[site.order]  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_keys_of_one_program_are_told_as_those_of_another(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loops = [Loop("i", extent, thread=bool(rng.random() < 0.3)) for extent in rng.integers(1, 4, 4).tolist()]
    values = loop_values(loops)
    sides = []
    for _ in range(2):
        # In another order, too; the weights are told loop by loop.
        key = ordered(rng, [loops[k] for k in rng.permutation(4)])
        every = key.start + sum(key.strides[loop] * values[loop] for loop in loops)
        assert len(set(every.tolist())) == len(every)
        sides.append((every, key.start, tuple([key.strides[loop] for loop in loops if loop.extent > 1])))
    (before, start, old), (after, now, new) = sides
    some = rng.random(len(before)) < 0.7  # as conditions leave some out
    assert alike._positions(before[some], start, old, now, new).tolist() == after[some].tolist()
    assert alike._positions(before, start, old, start, old).tolist() == before.tolist()


@pytest.mark.parametrize("machine", ["vta-de10", "vta-de10-portable"])
def test_loops_around_a_site_in_any_order_ask_the_same(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that differ in the order of loops alone: some sites take what others got, and each program is what it is alone."""
    target = get_target(machine)
    space = Space(workload(WORKLOADS[0], 1, 16).func, target)
    column = space.names.index("order")
    drawn = space.sample(np.random.default_rng(5), 30)
    rows = np.repeat(drawn[:, None, :], 8, axis=1)
    rows[:, :, column] = np.arange(8)
    able = space.valid(rows.reshape(-1, rows.shape[2])).reshape(rows.shape[:2])
    most = int(able.sum(axis=1).argmax())
    funcs = [scheduled(space.func, space.trace(row).as_json(), check=False) for row in rows[most][able[most]][:4]]
    made, old = [], alike.answered

    def counted(asked: Any, origin: alike.Origin, weighed: alike.Weights, make: Callable[[], Any]) -> Any:
        return old(asked, origin, weighed, lambda: [made.append(asked), make()][1])

    monkeypatch.setattr(alike, "answered", counted)
    alone = []
    for func in funcs:
        alike.forget()
        alone.append(lowered(func, target))
    first = len(made)
    alike.forget()
    assert len(funcs) > 1 and [lowered(func, target) for func in funcs] == alone and len(set(alone)) > 1
    assert len(made) - first < first
    shared.forget()


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "MOST", 20_000)
    target = get_target("vta-de10")
    space = Space(workload(WORKLOADS[0], 1, 16).func, target)
    alike.forget()
    held = []
    for point in space.sample(np.random.default_rng(1), 3):
        lowered(space.schedule(point).func, target)
        held.append(alike.held())
    assert 0 < max(held) <= 20_000
    alike.forget()
    assert alike.held() == 0


def test_whatever_decides_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of a question, changed alone, is another question; names and addresses are none."""
    asked: list[tuple[Site, list[Loop], list[Place | None], Key]] = []
    old = alike.question

    def noted(site: Site, own: list[Loop], places: list[Place | None], key: Key) -> Any:
        asked.append((site, own, places, key))
        return old(site, own, places, key)

    monkeypatch.setattr(alike, "question", noted)
    target = get_target("vta-de10")
    space = Space(workload(WORKLOADS[0], 1, 16).func, target)
    for point in space.sample(np.random.default_rng(3), 10):
        lowered(space.schedule(point).func, target)
    seen: set[str] = set()
    for site, own, places, key in asked:
        base, weights = old(site, own, places, key)

        def changed(what: str, *now: Any, base: Any = base) -> None:
            assert old(*now)[0] != base, what
            seen.add(what)

        farther = Key(key.start + 5, {loop: 3 * weight for loop, weight in key.strides.items()})
        assert old(replace(site, name="other"), own, places, farther) == (base, tuple([3 * w for w in weights]))
        turned = replace(site, path=(*site.outer[::-1], *site.inner))
        if len({(loop.extent, *[c.coef(loop) for c in site.conds]) for loop in site.outer}) == len(site.outer):
            assert old(turned, own, places, key) == (base, weights)
            seen.add("order")
        changed("kind", replace(site, kind="other"), own, places, key)
        for which in ("conds", "pads"):
            forms = getattr(site, which)
            changed(f"more {which}", replace(site, **{which: [*forms, Lin(None, 1)]}), own, places, key)
            if forms:
                changed(which, replace(site, **{which: [forms[0].plus(1), *forms[1:]]}), own, places, key)
                changed(f"no {which}", replace(site, **{which: forms[1:]}), own, places, key)
        for name, loops in (("outer", site.outer), ("inner", site.inner)):
            for loop in loops:
                loop.extent += 1
                changed(f"{name} extent", site, own, places, key)
                loop.extent -= 1
        for loop in site.inner:
            kept, loop.notes = loop.notes, {**loop.notes, "vta.loop": "other"}
            changed("note", site, own, places, key)
            loop.notes = kept
        if own:
            changed("own", site, own[1:], places, key)
        for k, place in enumerate(places):
            if place is None:
                continue
            others = [replace(place, offset=place.offset.plus(1)), replace(place, offset=place.offset.scale(2).plus(1)), None]
            if place.storage is not None:
                others += [replace(place, storage=replace(place.storage, banks=place.storage.banks + 1))]
                moved = replace(place.storage, address=place.storage.address + 7)
                assert old(site, own, [*places[:k], replace(place, storage=moved), *places[k + 1:]], key)[0] == base
                if site.outer:
                    others += [replace(place, storage=replace(place.storage, threads=site.outer[:1]))]
                    seen.add("threads")
                if place.storage.banks > 1:
                    others += [replace(place, storage=replace(place.storage, size=place.storage.size + 1))]
                    for loop in place.storage.copy_steps()[0]:
                        rest = tuple([other for other in place.storage.path if other is not loop])
                        others += [replace(place, storage=replace(place.storage, path=rest))]
                    seen.add("banks")
            for other in others:
                changed("place", site, own, [*places[:k], other, *places[k + 1:]], key)
    assert {"conds", "pads", "order", "outer extent", "inner extent", "note", "own", "place", "banks", "threads"} <= seen
