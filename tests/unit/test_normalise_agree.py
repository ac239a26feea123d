"""Which factors of products are weights, where blocks of a network stand behind each other: what all of them can agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product

import numpy as np
import pytest
from spaces import computes
from turns import in_turn

from autosched import te
from autosched.ir.expr import IntImm
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import Block, Buffer, PrimFunc
from autosched.schedule import Schedule
from autosched.target import get_target
from space import Space
from space.normalise import Wanted, agree, alone, normalise, turned
from space.normalise.axes import Axes, Place, Role, settled
from space.normalise.blocks import device_blocks
from space.normalise.layouts import Way

WAY = Way(get_target("vta-de10"))


def times(a: te.Tensor, b: te.Tensor, name: str) -> te.Tensor:
    k = te.reduce_axis((0, a.shape[1]), name=f"k_{name}")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(
        a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k), name=name)


def clipped(s: te.Tensor, name: str, *added: te.Tensor) -> te.Tensor:
    return te.compute(s.shape, lambda i, j: te.max(te.min(sum(
        (x[i, j].astype("int32") for x in added), s[i, j] >> 7), 127), -128).astype("int8"), name=name)


def mixer(blocks: int, tokens: int = 16, channels: int = 16, hidden: int = 16) -> PrimFunc:
    """Tokens are mixed, then channels, several times."""
    x = te.placeholder((tokens, channels), "int8", name="x")
    shapes = ((hidden, tokens), (tokens, hidden), (channels, hidden), (hidden, channels))
    params, h = [x], x
    for n in range(blocks):
        w1, w2, v1, v2 = own = [te.placeholder(shape, "int8", name=f"w{k}_{n}") for k, shape in enumerate(shapes)]
        params += own
        b = clipped(times(w2, clipped(times(w1, h, f"s{n}"), f"a{n}"), f"t{n}"), f"b{n}", h)
        h = clipped(times(clipped(times(b, v1, f"u{n}"), f"c{n}"), v2, f"m{n}"), f"y{n}", b)
    return te.create_prim_func([*params, h])


@pytest.mark.parametrize("seed", range(12))
def test_choices_of_roles_are_those_of_brute_force(seed: int) -> None:
    draw = np.random.default_rng(seed)
    axes = Axes(())
    tensors = [Buffer(f"t{n}", (IntImm(16), IntImm(16)), "int8") for n in range(6)]
    for buffer in tensors:
        for d in range(2):
            axes.add((buffer, d))
    places: list[Place] = [(b, d) for b in tensors for d in range(2)]
    for _ in range(4):
        a, b = draw.choice(len(places), 2, replace=False)
        axes.join(places[a], places[b])
    roles = [[Role(*(axes.of(places[k]) for k in draw.choice(len(places), 2, replace=False)), tensors[draw.integers(6)], 0)
              for _ in range(3)] for _ in range(4)]
    fitting = set()
    for choice in product(*roles):
        lanes = {axis for role in choice for axis in role[:2]}
        weights = {role.weight for role in choice}
        if all(sum(axes.of((b, d)) in lanes for d in range(2)) <= 1 + (b in weights) for b in tensors):
            fitting.add(choice)
    found = list(settled(roles, axes, tensors, 16))
    assert {*found} == fitting




@pytest.mark.parametrize(("blocks", "together"), [(1, False), (2, True), (3, True)])
def test_what_is_mixed_both_ways_is_made_in_both_layouts(blocks: int, together: bool) -> None:
    func = mixer(blocks)
    assert turned.many(func) == together
    factors = {name: turned._factors(Schedule(func), name, made) for name, made in turned._products(func)}
    one = next(agree.choices(device_blocks(func), WAY, factors), None)
    # One block reads its parameter twice, of which the host makes two; what several hand on is of one layout.
    assert (one is None) == together
    if one is not None:
        assert agree.agree(device_blocks(func), WAY, one)
    made = [sch.func for sch, _ in islice(turned.agreed(Schedule(func), True, 1, WAY), 1)]
    again = [sum(b.init is not None for b in device_blocks(f)) - 4 * blocks for f in made]
    assert again == [2 * blocks - 2]  # of the sums behind each half, but for the last one, and the first one's of a parameter
    assert all(map(np.array_equal, run(made[0], *random_inputs(func)), run(func, *random_inputs(func))))
    assert not together or not [*turned.agreed(Schedule(func), False, 1, WAY)]


@pytest.mark.parametrize(("blocks", "target"), in_turn((2,)))
def test_blocks_that_mix_tokens_and_channels_compute_what_the_program_does(blocks: int, target: str) -> None:
    computes(mixer(blocks), target, 1, Wanted(settled=True))


def test_one_block_has_the_forms_that_it_had() -> None:
    func = mixer(1)
    assert normalise(func, get_target("vta-de10"), Wanted(settled=True)) == (func, ())


@pytest.mark.parametrize("mixed", [True, False])
def test_choices_are_left_out_before_blocks_are_made_as_they_would_be_after(mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each of several products has what it reads made for it alone."""
    def found() -> list[tuple[list[str], frozenset[str]]]:
        def may(blocks: Sequence[Block], copies: frozenset[str], chosen: agree.Weights) -> bool:
            asked.append(len(blocks))
            return agree.agree(blocks, replace(WAY, copies=copies), chosen)

        return [(sch.trace.as_python(), copies) for sch, copies in turned.ways(Schedule(program), True, may)]

    program = mixer(1) if mixed else two_ways()
    asked: list[int] = []
    made: list[str] = []
    apart = alone.apart
    monkeypatch.setattr(alone, "apart", lambda sch, reader, copies: [made.append(reader), apart(sch, reader, copies)])
    soon, before, few = found(), [*asked], len(made)
    asked.clear()
    made.clear()
    monkeypatch.setattr(alone, "foreseen", lambda *given: None)
    assert found() == soon and asked == before and 0 < len(soon) < len(asked) and few < len(made)


def two_ways() -> PrimFunc:
    """A product of what another one makes, and one of it and its transpose."""
    x, w, v = (te.placeholder((16, 16), "int8", name=name) for name in "xwv")
    a = clipped(times(x, w, "s"), "a")
    k = te.reduce_axis((0, 16), name="k")
    t = te.compute((16, 16), lambda i, j: te.sum(a[i, k].astype("int32") * a[j, k].astype("int32"), axis=k), name="t")
    return te.create_prim_func([x, w, v, clipped(times(a, v, "u"), "y", clipped(t, "z"))])


def by_diagonals(func: PrimFunc, wanted: Wanted) -> int:
    return sum(step.op == "diagonal_by_gemm" for step in normalise(func, get_target("vta-de10"), wanted)[1])


def gated(by_element: bool) -> PrimFunc:
    """Two products of a parameter; of what they make one product more, or what each makes of an element times the other's."""
    x, v, w = (te.placeholder((16, 16), "int8", name=n) for n in "xvw")
    a, b = clipped(times(x, v, "s"), "a"), clipped(times(x, w, "t"), "b")
    if not by_element:
        return te.create_prim_func([x, v, w, clipped(times(a, b, "u"), "y")])
    return te.create_prim_func([x, v, w, te.compute((16, 16), lambda i, j: (
        (a[i, j].astype("int32") * b[i, j].astype("int32")) >> 7).astype("int8"), name="y")])


def test_products_that_can_be_of_matrices_are_none_by_element(user_programs) -> None:
    """A diagonal of every vector is 16 stores and a weight each; boundary: what can be no other product has them still."""
    func = user_programs.program("attention_joint_blocks")
    assert by_diagonals(func, Wanted(digits=True, ranged=True, settled=True)) == 0
    assert by_diagonals(gated(False), Wanted(settled=True)) == 0
    assert by_diagonals(gated(True), Wanted()) == 1


def test_of_what_is_tried_last_that_is_taken_which_makes_no_diagonals(user_programs) -> None:
    """Heads as lanes lead to a form, too; taken apart, as they are read, they lead to one that takes a tenth."""
    func = user_programs.program("attention_joint_blocks_by_axes")
    assert by_diagonals(func, Wanted(settled=True)) == 4
    space = Space(func, "vta-de10")
    assert [step.op for s in space.sketches for step in s.prefix.insts].count("diagonal_by_gemm") == 0
