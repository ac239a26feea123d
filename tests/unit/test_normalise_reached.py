"""What several ways to a form do alike is done once, and they come to the same."""

from __future__ import annotations

import pytest

from autosched.ir import PrimFunc
from autosched.schedule import Schedule
from autosched.target import get_target
from space.normalise import normal_forms, packing, reached

NAMES = ["conv_int8_then_pool", pytest.param("attention_views", marks=pytest.mark.slow), "row_max_taken_away", "two_heads"]


def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets nothing be remembered from here on."""
    monkeypatch.setattr(reached, "_FOUND", {})
    monkeypatch.setattr(reached, "remembered", lambda known, func, work_out, kept: work_out(func))


def told(forms: list[tuple[tuple[str, ...], Schedule]]) -> list[tuple[tuple[str, ...], list[str], str]]:
    return [(done, sch.trace.as_python(), sch.func.script()) for done, sch in forms]


@pytest.mark.parametrize("name", NAMES)
def test_forms_are_those_of_ways_that_are_gone_from_their_beginning(
    user_programs, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    func, target = user_programs.program(name), get_target("vta-de10")
    known = told(normal_forms(func, target))
    forgotten(monkeypatch)
    assert told(normal_forms(func, target)) == known and len(known) > (name == "conv_int8_then_pool")


def test_what_is_remembered_is_of_one_program_and_machine() -> None:
    from autosched.te import compute, create_prim_func, placeholder

    def sums(name: str) -> PrimFunc:
        x = placeholder((8, 32), "int32", name=name)
        return create_prim_func([x, compute((8, 32), lambda *i: (x(*i) + 1).astype("int8"), name="y")])

    machines = [get_target(name) for name in ("vta-de10", "vta-fsim")]
    forms = [normal_forms(sums(name), target)[0][1].func for name in ("a", "b") for target in machines]
    assert [f.buffers[0].name for f in forms] == ["a", "a", "b", "b"]


def test_a_form_is_its_askers_own(user_programs) -> None:
    func, target = user_programs.program("two_heads"), get_target("vta-de10")
    first, again = (normal_forms(func, target)[0][1] for _ in range(2))
    before = again.func.script()
    first.annotate(first.get_sblock(first.func.body.block.body.stmts[0].body.body.block.name), "note", 1)
    assert again.func.script() == before and normal_forms(func, target)[0][1].func.script() == before


@pytest.mark.parametrize("name", ["channels_shuffled_between", "max_pool_padded"])
def test_elements_are_laid_out_once_for_ways_that_come_to_the_same(
    user_programs, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    func, target, count = user_programs.program(name), get_target("vta-de10"), []
    apply = packing.apply

    def counted(*args: object) -> None:
        count.append(args)
        apply(*args)

    monkeypatch.setattr(packing, "apply", counted)
    monkeypatch.setattr(reached, "_FOUND", {})
    normal_forms(func, target)
    once = len(count)
    forgotten(monkeypatch)
    normal_forms(func, target)
    assert 0 < once < (len(count) - once) // 2
