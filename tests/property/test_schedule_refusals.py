"""Random refusals: whatever is refused is said in at most 15 lines, with a reason and the culprits marked."""

import pickle
import random
import re
from types import ModuleType

import pytest

from autosched.errors import SCHEDULE_CODES, AutoschedError, NotSupportedError, ScheduleError
from autosched.schedule import Schedule
from autosched.script import parse

MOST = 15


def check(error: AutoschedError) -> None:
    text = str(error)
    lines = text.splitlines()
    assert len(lines) + len(getattr(error, "__notes__", ())) <= MOST, text
    if isinstance(error, ScheduleError):
        assert lines[0].startswith(f"{error.primitive}: ")
        assert error.primitive and error.code in SCHEDULE_CODES
        assert pickle.loads(pickle.dumps(error)).code == error.code
        assert len(error.reason) > 10
        assert error.reason.split("\n")[0][:900] in text
        if error.excerpt:
            assert any(line.startswith(">") for line in lines), text
        if error.hint:
            assert any(line.startswith("try: ") for line in lines), text


@pytest.mark.parametrize("seed", range(20))
def test_random_refusals_are_short_and_say_why(
    seed: int, affine_programs: ModuleType, schedule_steps: ModuleType
) -> None:
    rng = random.Random(seed)
    weights = {**schedule_steps.WEIGHTS, **schedule_steps.OWN}
    refused = 0
    for _ in range(4):
        sch = schedule_steps.start(parse(affine_programs.program(rng)))
        steps = schedule_steps.Steps(rng, weights)
        for _ in range(12):
            step = steps.draw(sch)
            if step is None:
                break
            try:
                schedule_steps.apply(sch, step)
            except NotSupportedError:
                continue
            except AutoschedError as error:
                refused += 1
                check(error)
                if isinstance(error, ScheduleError) and re.match(r"^sch\.\w+\([^;]*\)$", error.hint):
                    do_as_told(sch, error)
    assert refused


def do_as_told(sch: Schedule, error: ScheduleError) -> None:
    """A way out that is a call of a primitive is a call that works."""
    names = [r.block.name for r in sch.state.realizes.values()]
    if len(set(names)) == len(names):
        trial = sch.copy()
        exec(error.hint, {"sch": trial, **{v.name: trial.loop_rv(v) for v in trial.state.loops}})


def fan(consumers: int, depth: int = 2) -> Schedule:
    """X, read by many blocks, each under ``depth`` loops of the same names."""
    loops, extents = ", ".join(f"i{d}" for d in range(depth)), ", ".join(["2"] * depth)
    kinds = "S" * depth
    outs = ", ".join(f'O{k}: T.Buffer(({extents},), "int32")' for k in range(consumers))

    def block(name: str, value: str) -> str:
        return f"""
    for {loops} in T.grid({extents}):
        with T.block("{name}"):
            {loops.replace("i", "v")} = T.axis.remap("{kinds}", [{loops}])
            {name}[{loops.replace("i", "v")}] = {value}"""

    here = f"[{loops.replace('i', 'v')}]"
    body = block("X", f"A{here} * 2") + "".join(block(f"O{k}", f"X{here} + {k}") for k in range(consumers))
    head = f'@T.prim_func\ndef main(A: T.Buffer(({extents},), "int32"), {outs}):\n    X = T.alloc_buffer(({extents},), "int32")'
    return Schedule(parse(head + body))


@pytest.mark.parametrize("consumers", [2, 5, 12, 40])
def test_refusals_of_many_culprits_name_how_many_are_left_out(consumers: int) -> None:
    sch = fan(consumers)
    with pytest.raises(ScheduleError, match=f"{consumers + 1} loops are named 'i0'") as caught:
        sch.split("i0", [None, 2])
    check(caught.value)
    with pytest.raises(ScheduleError, match="O1") as caught:
        sch.compute_at(sch.get_block("X"), sch.get_loops("O0")[0])
    check(caught.value)
    text = str(caught.value)
    shown = sum(line.startswith(">") for line in text.splitlines())
    # Of this refusal, the culprits are the loop and every consumer outside it.
    assert (f"and {consumers - shown} more: O" in text) is (consumers > shown)
    assert text.splitlines()[-1].startswith("try: sch.recompute_at_consumers")
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


def test_culprits_under_many_loops_are_in_the_window() -> None:
    sch = fan(3, depth=12)
    for block in ("X", "O0", "O1", "O2"):
        for loop in sch.get_loops(block):
            sch.annotate(loop, "long", "x" * 300)
    with pytest.raises(ScheduleError) as caught:
        sch.compute_at(sch.get_block("O0"), sch.get_loops("O1")[11])
    check(caught.value)
    assert max(map(len, str(caught.value).splitlines()[1:-1])) <= 202


def test_any_text_at_all_fits() -> None:
    for reason in ("one", "\n".join(["line"] * 40)):
        for excerpt in ("", "\n".join(["> x"] * 40), "\n".join(["> x", *["  y"] * 40])):
            for hint in ("", "first:\n" + "\n".join(f"  sch.step{k}()" for k in range(60))):
                text = str(ScheduleError("split", reason, excerpt, hint))
                assert len(text.splitlines()) < MOST
                assert (excerpt == "") or "\n> x" in text
                assert (hint == "") or all(f"sch.step{k}()" in text for k in range(60))
    assert "and 29 more lines at fault" in str(ScheduleError("split", "one", "\n".join(["> x"] * 40), "do this"))
