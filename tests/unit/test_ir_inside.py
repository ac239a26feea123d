"""Programs that leave their buffers, or have no meaning otherwise, are refused before a trial; the interpreter is the oracle."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autosched as at
from autosched.errors import ProgramError
from autosched.ir import interp
from autosched.ir.inside import require_inside
from autosched.ir.verify import verify
from autosched.script import parse

AFFINE = """
@T.prim_func
def main(A: T.Buffer(({size},), "int32"), B: T.Buffer(({n}, {m}), "int32")):
    for i, j in T.grid({n}, {m}):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = {value}
"""


@settings(max_examples=60)
@given(st.data())
def test_what_always_runs_is_refused_where_the_interpreter_refuses_it(data: st.DataObject) -> None:
    small = st.integers(-3, 3)
    n, m = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    index = f"vi * ({data.draw(small)}) + ({data.draw(small)}) * (vj - {data.draw(small)}) + {data.draw(st.integers(0, 6))}"
    text = AFFINE.format(n=n, m=m, size=data.draw(st.integers(1, 16)), value=f"A[{index}]")
    try:
        func = parse(text)
    except ProgramError as error:
        # An index that folds to a constant is refused where it is read.
        assert "is outside dimension 0 of buffer A" in str(error)
        return
    said = []
    for judge in (lambda: interp.run(func, *interp.random_inputs(func, 0)), lambda: require_inside(func)):
        try:
            judge()
            said.append("")
        except ProgramError as error:
            said.append(str(error).partition(" is ")[0].removeprefix("main: "))
    assert said[0] == said[1]


@pytest.mark.parametrize("value", [
    "T.if_then_else(vi < 3, A[vi], 0)", "T.Select(vi < 3, A[vi], 0)", "A[T.min(vi, 2)]", "A[vi // 2]", "A[A[0]]",
])
def test_what_may_be_meant_is_not_refused(value: str) -> None:
    func = parse(AFFINE.format(n=4, m=2, size=3, value=value))
    require_inside(func)
    interp.run(func, np.zeros(3, np.int32), np.zeros((4, 2), np.int32))


def test_loops_and_blocks_that_do_not_run_are_not_judged() -> None:
    body = AFFINE.format(n=4, m=2, size=3, value="A[vi]")
    for line in ("T.where(i < 3)", "T.where(j < 9 and i < 3)"):
        require_inside(parse(body.replace('remap("SS", [i, j])\n', f'remap("SS", [i, j])\n            {line}\n')))
    with pytest.raises(ProgramError, match="block B: index 0 of A is 3, outside"):
        require_inside(parse(body))
    require_inside(parse(body.replace("T.grid(4, 2)", "T.grid(4, 0)")))


@pytest.mark.parametrize(("extent", "runs"), [("i", False), ("i + 1", True), ("0", False), ("1", True)])
def test_a_loop_that_may_never_run_is_the_interpreters(extent: str, runs: bool) -> None:
    func = parse(AFFINE.format(n=1, m=1, size=3, value="A[vi + 3]").replace(
        "for i, j in T.grid(1, 1):", f"for i in range(1):\n      for j in range({extent}):"))
    if extent == "1":
        with pytest.raises(ProgramError, match="block B: index 0 of A is 3, outside"):
            require_inside(func)
    else:
        require_inside(func)
    judge = pytest.raises(ProgramError, match="outside") if runs else nullcontext()
    with judge:
        interp.run(func, np.zeros(3, np.int32), np.zeros((1, 1), np.int32))


NARROW = AFFINE.replace('"int32")):', '"int8")):')


@pytest.mark.parametrize(("size", "value", "said"), [
    (64, "A[vi - 1]", "main: block B: index 0 of A is -1, outside 0..63"),
    (63, "A[vi]", "main: block B: index 0 of A is 63, outside 0..62"),
    (64, "A[vi] + 2147483648", "constant 2147483648 does not fit int32"),
    (64, "T.max(A[vi], -2147483649)", "constant -2147483649 does not fit int32"),
    (64, "A[vi] >> (-1)", "shifts by -1; 0 to 31 have a meaning"),
    (64, "A[vi] << 32", "shifts by 32; 0 to 31 have a meaning"),
])
def test_a_program_without_a_meaning_is_refused_before_any_trial(size: int, value: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError) as caught:
        at.tune(parse(NARROW.format(n=64, m=16, size=size, value=f'T.cast({value}, "int8")')), trials=1, jobs=1, log=tmp_path)
    assert said in str(caught.value)
    assert not [line for path in tmp_path.glob("*.jsonl") for line in path.read_text().splitlines() if '"trial"' in line]


def test_a_tensor_without_elements_is_refused(tmp_path: Path) -> None:
    func = parse(NARROW.format(n=0, m=16, size=64, value='T.cast(A[vi], "int8")'))
    with pytest.raises(ProgramError, match="main: B has no elements"):
        at.tune(func, trials=1, jobs=1, log=tmp_path)


@pytest.mark.parametrize(("value", "fits"), [(127, True), (128, False), (-128, True), (-129, False)])
def test_a_constant_has_its_type(value: int, fits: bool) -> None:
    judge = nullcontext() if fits else pytest.raises(ProgramError, match=f"line .*: constant {value} does not fit int8")
    with judge:
        assert not verify(parse(AFFINE.format(n=4, m=2, size=3, value=f'T.cast(T.cast(A[0], "int8") + ({value}), "int32")')))
