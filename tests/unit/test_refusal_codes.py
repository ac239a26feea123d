"""What is refused carries a code that stays: one table for primitives, one for lowering, the same in docs/api.md."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from autosched.errors import LOWERING_CODES, SCHEDULE_CODES, SPACE_CODES, ScheduleError, SpaceError
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.lowerable import require_lowerable

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((16, 16), "int32"), C: T.Buffer((16, 16), "int32"), D: T.Buffer((16, 16), "int32"),
         S: T.Buffer((16,), "int32"), O: T.Buffer((16, 16), "int32"), n: T.int32):
    B = T.alloc_buffer((16, 16), "int32")
    F = T.alloc_buffer((8, 16), "int32")
    X = T.alloc_buffer((16,), "int32")
    U = T.alloc_buffer((16,), "int32")
    for i, j in T.grid(16, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(16, 16):
        with T.sblock("F"):
            vi, vj = T.axis.remap("SS", [i, j])
            F[vi // 2, vj] = A[vi, vj]
    for i, j in T.grid(16, 16):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + F[vi // 2, vj]
    for i, j in T.grid(16, 16):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + 3
    for i, k in T.grid(16, 16):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + A[vi, vk]
    for i in range(16):
        with T.sblock("X"):
            vi = T.axis.spatial(16, i)
            X[vi] = A[vi, 0]
    for i in range(16):
        with T.sblock("E"):
            vi = T.axis.spatial(16, i)
            T.reads(X[0:16])
            T.writes(O[vi, 0])
            T.evaluate(T.call_extern("int32", "f", X.data, O.data))
    for i in range(n):
        with T.sblock("Y"):
            vi = T.axis.spatial(n, i)
            O[vi, 1] = A[vi, 0]
    for i in range(16):
        with T.sblock("U"):
            vi = T.axis.spatial(16, i)
            U[vi] = A[vi, 1]
    for i in range(16):
        with T.sblock("V"):
            vi = T.axis.spatial(16, i)
            T.where(i < 9)
            O[vi, 2] = U[vi]
"""


def endless(*indices: object) -> object:
    return endless(*indices)


def bound(sch: Schedule) -> None:
    sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    sch.split(sch.get_loops("B")[0], [2, None])


def tensorized(sch: Schedule) -> None:
    get_target("vta-de10")
    sch.tensorize(sch.get_loops("S")[1], "vta.gemm.1x16x16")


def decomposed(sch: Schedule) -> None:
    sch.decompose_reduction("S", sch.get_loops("S")[1])
    sch.cache_write("S_update", 0, "local")


# A refusal of every kind, through the primitives.
REFUSED: dict[str, Callable[[Schedule], object]] = {
    "argument": lambda s: s.split(s.get_loops("B")[0], [None, None]),
    "name": lambda s: s.get_sblock("Q"),
    "handle": lambda s: s.unroll(Schedule(s.mod).get_loops("B")[0]),
    "root": lambda s: s.get_producers("root"),
    "intrinsic": tensorized,
    "place": lambda s: s.reorder(s.get_loops("B")[0], s.get_loops("C")[0]),
    "loop": bound,
    "symbolic": lambda s: s.loop_partition(s.get_loops("Y")[0], [2, None]),
    "form": lambda s: s.fold_epilogue("C"),
    "index": lambda s: s.compute_inline("F"),
    "layout": lambda s: s.transform_layout("B", ("write", 0), lambda i, j: (0, j)),
    "domain": lambda s: s.reverse_compute_inline("V"),
    "order": lambda s: s.compute_at("B", s.get_loops("D")[0]),
    "reduction": lambda s: s.compute_inline("S"),
    "writer": decomposed,
    "reader": lambda s: s.reverse_compute_inline("D"),
    "output": lambda s: s.compute_inline("C"),
    "address": lambda s: s.compute_inline("X"),
    "range": lambda s: s.split(s.get_loops("B")[0], [None, 1 << 31]),
    "depth": lambda s: s.transform_layout("B", ("write", 0), endless),
}


@pytest.mark.parametrize("code", SCHEDULE_CODES)
def test_every_code_of_a_primitive_is_met(code: str) -> None:
    sch = Schedule(parse(PROGRAM))
    with pytest.raises(ScheduleError) as caught:
        REFUSED[code](sch)
    assert caught.value.code == code, caught.value


def test_every_code_of_lowering_is_used() -> None:
    text = "".join(path.read_text() for path in (ROOT / "autosched" / "lower").glob("*.py"))
    assert not [code for code in LOWERING_CODES if f'"{code}"' not in text]


def test_the_page_has_both_tables() -> None:
    page = (ROOT / "docs" / "api.md").read_text().partition("## Refusals")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE)
    assert rows == [*SPACE_CODES.items(), *LOWERING_CODES.items(), *SCHEDULE_CODES.items()]


# What users write and no space holds: of every kind that a program alone can be of.
OUTSIDE = {
    "symbolic": "symbolic", "gather": "index", "running_sum": "written", "int64_result": "result",
    "float_add": "type", "uint8_relu": "type", "choice_by_data_guards": "choice",
    "pad_with_three": "pad", "pad_three_result": "pad",
    "filter_made": "layout", "distances_l1": "layout", "bitwise_and_apart": "machine", "product_of_tensors": "machine",
    "loops_overwritten": "form",
}


@pytest.mark.parametrize(("name", "words"), [
    ("distances_l1", "which is no product of two int8 elements"), ("filter_made", "k has no index that can be the lanes"),
])
def test_of_what_has_no_lanes_it_is_said_what_is_missing(user_programs, name: str, words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        Space(user_programs.program(name), "vta-de10")


@pytest.mark.parametrize("name", sorted(OUTSIDE))
def test_a_program_without_a_space_says_of_what_kind_it_is(user_programs, name: str) -> None:
    with pytest.raises(SpaceError) as caught:
        require_lowerable(Space(user_programs.program(name), "vta-de10"))
    assert caught.value.code == OUTSIDE[name], caught.value
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.code) == (str(caught.value), caught.value.code)


JOINED = """
@T.prim_func
def f(A: T.Buffer((16, 1, 1, 16), "int8"), W: T.Buffer((1, 1, 16, 16), "int8"), X: T.Buffer((32, 1, 1, 16), "int32"),
      out: T.Buffer((16, 1, 1, 16), "int8")):
    C = T.alloc_buffer((16, 1, 1, 16), "int32")
    D = T.alloc_buffer((16, 1, 1, 16), "int32")
    E = T.alloc_buffer((16, 1, 1, 16), "int32")
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, 0, 0, vj] = 0
            C[vi, 0, 0, vj] = C[vi, 0, 0, vj] + T.Cast("int32", A[vi, 0, 0, vk]) * T.Cast("int32", W[0, 0, vj, vk])
    for i, j, k in T.grid(16, 16, {steps}):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, 0, 0, vj] = 1
            D[vi, 0, 0, vj] = {value}
    for i, j in T.grid(16, 16):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, 0, 0, vj] = C[vi, 0, 0, vj] + D[vi, 0, 0, vj]
    for i, j in T.grid(16, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, 0, 0, vj] = T.Cast("int8", E[vi, 0, 0, vj])
"""


@pytest.mark.parametrize(("value", "steps", "code"), [
    ("T.max(D[vi, 0, 0, vj], X[vi * 2 + vk, 0, 0, vj])", 2, "join"),
    ("D[vi, 0, 0, vj] * X[vi * 2 + vk, 0, 0, vj]", 2, "product"),
])
def test_what_blocks_are_to_each_other_has_kinds(value: str, steps: int, code: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Space(parse(JOINED.format(value=value, steps=steps)), "vta-de10")
    assert caught.value.code == code, caught.value


def test_every_code_of_the_space_is_used() -> None:
    text = "".join(path.read_text() for path in (ROOT / "space").rglob("*.py"))
    assert not [code for code in SPACE_CODES if f'"{code}"' not in text]
