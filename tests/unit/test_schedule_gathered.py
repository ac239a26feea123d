"""On trust, steps in a row that annotate blocks make one program: the one that they make one by one, and refused as they are."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from autosched.errors import ProgramError, ScheduleError
from autosched.ir.functor import walk
from autosched.ir.stmt import BlockRealize
from autosched.kernel import scheduled
from autosched.schedule import Schedule, Trace
from autosched.schedule.kit import beginnings, shared
from autosched.schedule.kit.rebuild import rebuild
from autosched.schedule.kit.state import State, branches
from autosched.schedule.kit.walks import child_blocks, walked
from autosched.script import T


@T.prim_func
def thrice(A: T.Buffer((16, 16), "int32"), D: T.Buffer((16, 16), "int32")):
    B = T.sblock_alloc_buffer((16, 16), "int32")
    C = T.sblock_alloc_buffer((16, 16), "int32")
    for i, j in T.grid(16, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(16, 16):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1
    for i, j in T.grid(16, 16):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + B[vi, vj]


@pytest.fixture(autouse=True)
def beginnings_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is kept, and nothing but beginnings is looked for."""
    shared.forget()
    monkeypatch.setattr(beginnings, "TRIED", 0)
    monkeypatch.setattr(beginnings, "LEAST_SHARE", 0)
    beginnings.root_of(thrice, True).asked = 1
    yield
    shared.forget()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every program that a schedule makes of another one."""
    found: list[int] = []
    commit = Schedule.commit
    monkeypatch.setattr(Schedule, "commit", lambda self, *args, **more: found.append(1) or commit(self, *args, **more))
    return found


def objects(names: str, nested: bool = False) -> list[dict[str, Any]]:
    """A trace that gives buffers two banks: ``o`` is a block around ``B``; a capital letter asks as that block does."""
    sch = Schedule(thrice, seed=1)
    blocks = {name: sch.get_sblock(name) for name in "BCD"}
    if nested:
        blocks["o"] = sch.blockize(sch.get_loops(blocks["B"])[1])
    for name in names:
        if name != "D":
            sch.double_buffer(blocks[name])
    found: list[dict[str, Any]] = json.loads(json.dumps(sch.trace.as_json()))
    for k in [k for k, name in enumerate(names) if name == "D"]:
        at = len(found) - len(names.replace("D", "")) + k
        found.insert(at, {"op": "double_buffer", "in": {"block": "b2"}, "args": {"buffer_index": 0}, "out": []})
    return found


@pytest.mark.parametrize(("names", "nested"), [
    ("BC", False), ("CB", False), ("BB", False), ("BCB", False), *[("".join(p), True) for p in permutations("oBC")], ("oB", True),
    ("Bo", True), ("oBo", True),
])
def test_several_banks_in_a_row_are_those_given_one_by_one(names: str, nested: bool, made: list[int]) -> None:
    objs = objects(names, nested)
    expected = scheduled(thrice, objs, "fast")
    made.clear()
    got = scheduled(thrice, objs, "fast", check=False)
    # A block in one that is annotated as well goes by itself.
    assert len(made) == nested + (len(set(names)) if {"o", "B"} <= set(names) else 1)
    assert got == expected and got.script() == expected.script()
    made.clear()
    assert scheduled(thrice, objs, "fast", check=False).script() == got.script() and not made  # known by now


def test_runs_that_begin_alike_are_what_they_are_alone(made: list[int]) -> None:
    for names in ("B", "BC", "C", "CB", "BC", "B"):
        assert scheduled(thrice, objects(names), "fast", check=False).script() == scheduled(thrice, objects(names)).script()


@pytest.mark.parametrize("names", ["D", "BD", "DB", "BDC", "BCD"])
def test_a_refused_step_of_several_is_refused_as_it_is_alone(names: str) -> None:
    said = []
    for check in (True, False):
        sch = Schedule(thrice, seed=1, error_render_level="fast", enable_check=check)
        with pytest.raises(ScheduleError, match="is a parameter of the function") as caught:
            (Trace.apply_json_to_schedule if check else Trace.program_of_json)(objects(names), sch)
        said.append((str(caught.value), caught.value.__notes__, sch.func.script()))
    assert said[0] == said[1] and f"in instruction {3 + names.index('D')} of the trace" in said[1][1][0]


@pytest.mark.parametrize(("more", "said"), [
    ({"out": ["b9"]}, "gave 0 results here and 1 where the trace was made"), ({"in": {"block": "b7"}}, "uses 'b7'"),
    ({"in": {"blocks": "b0"}}, "missing a required argument: 'block'"), ({"op": "twice_buffer"}, "unknown schedule primitive"),
    ({"op": 3}, "unknown"),
])
def test_what_is_wrong_with_a_step_of_several_is_said(more: dict[str, Any], said: str) -> None:
    objs = objects("BC")
    objs[-1] = {**objs[-1], **more}
    errors = []
    for check in (True, False):
        with pytest.raises((ProgramError, ScheduleError), match=said) as caught:
            scheduled(thrice, objs, "fast", check=check)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def states() -> Iterator[State]:
    """Programs with loops, sequences, conditions, blocks in blocks and an init."""
    sch = Schedule(thrice, seed=1)
    yield sch.state
    sch.compute_at("C", sch.get_loops("D")[0], preserve_unit_loops=True)
    yield sch.state
    sch.blockize(sch.get_loops("C")[2])
    yield sch.state

    @T.prim_func
    def guarded(A: T.Buffer((8, 8), "int32"), S: T.Buffer((8,), "int32")):
        for i, k in T.grid(8, 8):
            if i < 7:
                with T.sblock("S"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        S[vi] = 0
                    S[vi] = S[vi] + A[vi, vk]

    yield Schedule(guarded, seed=1).state

    @T.prim_func
    def summed(A: T.Buffer((8, 8), "int32"), S: T.Buffer((8,), "int32")):
        for i, k in T.grid(8, 8):
            with T.sblock("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = 0
                S[vi] = S[vi] + A[vi, vk]

    yield Schedule(summed, seed=1).state


def test_one_statement_is_replaced_and_all_beside_it_stays() -> None:
    for state in states():
        below = [n for n in walk(state.func.body) if not isinstance(n, BlockRealize)]
        for node in below:
            new = replace(node)
            func = replace(state.func, body=rebuild(state.func.body, state._tables.parent, {id(node): new}, {}, {}))
            old, around = {id(n) for n in walk(state.func.body)}, {id(n) for n in (node, *state.ancestors(node))}
            found = [*walk(func.body)]
            assert func.script() == state.func.script() and any(n is new for n in found)
            assert {id(n) for n in found} >= old - around
            # As the general way does, which removals and allocations take.
            given = {id(state.root): state.root.alloc_buffers}
            whole = rebuild(state.func.body, state._tables.parent, {id(node): new}, given, {})
            told = [[(type(n), id(n) if n is new or id(n) in old else 0) for n in nodes] for nodes in (found, walk(whole))]
            assert told[0] == told[1]


def test_the_outermost_blocks_of_a_statement_are_those_in_no_other_one() -> None:
    found = 0
    for state in states():
        for stmt, blocks in branches(state.root):
            assert list(blocks) == walked(stmt).outermost == list(child_blocks(stmt))
            found += len(blocks) < sum(r.block is not state.root for r in state.realizes.values())
    assert found
