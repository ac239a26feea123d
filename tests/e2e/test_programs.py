"""Programs as users write them: every file is well formed, and what becomes of it through ``tune`` is what was recorded."""

from __future__ import annotations

import json

import pytest

from autosched.ir.interp import random_inputs, run
from autosched.ir.verify import verify
from autosched.script import parse


def test_every_file_is_a_program_with_a_verdict(user_programs) -> None:
    names = user_programs.names()
    assert len(names) >= 60
    recorded = json.loads(user_programs.TODAY.read_text())
    assert sorted(recorded) == names, "run python tests/oracles/user_programs.py --write"
    for name in names:
        wanted = user_programs.verdict(name)
        assert wanted == "accepted" or wanted.startswith("refused: "), name
        func = user_programs.program(name)
        assert not verify(func), name
        assert parse(func.script()) == func, name


def test_accepted_programs_run_in_the_interpreter(user_programs) -> None:
    for name in user_programs.names():
        if user_programs.verdict(name) == "accepted":
            func = user_programs.program(name)
            outputs = run(func, *random_inputs(func))
            # A program whose result does not depend on its input would prove nothing.
            again = run(func, *random_inputs(func, 1))
            assert any((a != b).any() for a, b in zip(outputs, again)), name


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("name", ["dense_packed", "dense_chain", "concat_odd", "move_slice_odd", "conv_one_channel", "gather",
                                  "times_three", "sum_of_one_row", "groups_summed", "window_of_one"])
def test_some_are_as_recorded(user_programs, name: str) -> None:
    row = user_programs.try_one(name, trials=2)
    assert row.state == json.loads(user_programs.TODAY.read_text())[name]["state"], user_programs.line(row)


@pytest.mark.slow
def test_all_are_as_recorded(user_programs) -> None:
    recorded = json.loads(user_programs.TODAY.read_text())
    rows = [user_programs.try_one(name) for name in user_programs.names()]
    changed = [user_programs.line(r) for r in rows if r.state != recorded[r.name]["state"]]
    assert not changed, "\n".join(changed)
    assert not [r for r in rows if r.state in ("wrong", "bug")]
