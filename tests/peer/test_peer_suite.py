"""TVM's own schedule tests against us: every test comes out as the list of expectations says.

    pytest tests/peer -m oracle --tvm-tests PATH
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autosched.ir.stmt import PrimFunc
from autosched.script import parse

HERE = Path(__file__).parent
LISTS: dict[str, dict[str, Any]] = {p.name: json.loads(p.read_text()) for p in sorted(HERE.glob("expected*.json"))}
FILES = [(source, name) for source, listed in LISTS.items() for name in listed["tests"] if "*" not in listed["tests"][name]]


def load(name: str) -> ModuleType:
    """A module beside this file."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault(name, importlib.util.module_from_spec(spec))
    if str(HERE) not in sys.path:  # for what it imports from here itself
        sys.path.append(str(HERE))
    spec.loader.exec_module(module)
    return module


@pytest.mark.oracle
@pytest.mark.parametrize(("source", "name"), FILES)
def test_file(source: str, name: str, request: pytest.FixtureRequest) -> None:
    run = load("run")
    folders = [run.folder_of(Path(p)) for p in request.config.getoption("--tvm-tests", default=[])]
    folder = next((f for f in folders if run.list_of(f).name == source), None)
    if folder is None:
        pytest.skip("no --tvm-tests PATH")
    records = run.run_file(folder / f"{run.PREFIX}{name}.py")
    assert not run.surprises(name, records, LISTS[source])
    assert not set(LISTS[source]["tests"][name]) - {r["node"] for r in records}, "tests in the list that did not run"


@pytest.mark.parametrize("source", LISTS)
def test_expectations_say_why(source: str) -> None:
    for name, listed in LISTS[source]["tests"].items():
        assert name in LISTS[source]["tiers"]
        for node, want in listed.items():
            kind, _, why = want.partition(": ")
            assert kind in ("pass", "modulo", "fail", "out", "skipped"), node
            assert bool(why) == (kind in ("fail", "out")), node


def program(index: str, where: str = "i * 4 + j < 14", allocs: str = "XY", value: str = "A[vi] + 1") -> PrimFunc:
    lines = "\n    ".join(f'{b} = T.sblock_alloc_buffer(({n},), "int32")' for b, n in (*[(a, 16 + (a == "X")) for a in allocs],))
    func = parse(f'''
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    {lines}
    for i, j in T.grid(4, 4):
        with T.sblock("B"):
            vi = T.axis.spatial(16, {index})
            T.where({where})
            X[vi] = {value}
            Y[vi] = X[vi]
            B[vi] = Y[vi]
''')
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(
    ("other", "grade"),
    [
        (program("i * 4 + j"), "strict"),
        (program("j + i * 4"), "modulo"),
        (program("i * 4 + j", where="i * 4 + j <= 13"), "modulo"),
        (program("i * 4 + j", allocs="YX"), "modulo"),
        (program("i * 4 + j", value="1 + A[vi]"), "different"),
        (program("i * 4 + 3 - j"), "different"),
        (program("i * 4 + j", where="i * 4 + j < 15"), "different"),
    ],
    ids=["same", "order of terms", "form of condition", "order of allocations", "order of operands", "index", "condition"],
)
def test_grades_of_equality(other: PrimFunc, grade: str) -> None:
    assert load("peer_equality").compare(program("i * 4 + j"), other) == grade
