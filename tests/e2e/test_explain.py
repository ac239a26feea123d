"""``explain`` and ``compare``: every figure is one of the program or of its simulation, and the parts make up the whole."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

from autosched.cli import main
from autosched.cli.exit_codes import Exit
from autosched.kernel import Kernel
from autosched.measure import Candidate, measure
from autosched.records import best_or_fail
from autosched.report import Account, ablate, account, compare, figures
from autosched.search import TuneReport, tune
from autosched.target import get_target
from autosched.workloads import workload
from sim import isa
from space import Space

# The busiest unit is LOAD in the first, COMPUTE in the second.
WORKLOADS = ["dense:m=2,k=256,n=256", "conv2d:h=8,w=8,ci=32,co=32,k=3,pad=1"]
ALU = "add:m=1,n=256"


def ran(*words: str | Path) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(w) for w in words])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    for name in (*WORKLOADS, ALU):
        assert isinstance(tune(name, trials=6, jobs=1, log=directory), TuneReport)
    return directory


def taken(name: str, log: Path) -> tuple[Kernel, Account]:
    _, kernel = best_or_fail(workload(name), get_target("vta-de10"), log)
    return kernel, account(kernel)


@pytest.mark.parametrize("name", [*WORKLOADS, ALU])
def test_the_parts_make_up_the_cycles_and_the_bound(name: str, log: Path) -> None:
    kernel, found = taken(name, log)
    assert found.cycles == kernel.cycles
    assert found.bound == Space(kernel.func, kernel.target).machine_bound() <= found.cycles
    assert sum(r.cycles for r in found.rest) == found.cycles
    assert sum(r.needed for r in found.rest) == found.bound
    assert all(r.cycles >= 0 for r in found.rest)
    assert [r.cycles - r.needed for r in found.rest] == sorted((r.cycles - r.needed for r in found.rest), reverse=True)
    assert found.stats.units[found.unit].busy == max(found.stats.units[u].busy for u in ("LOAD", "COMPUTE", "STORE"))


@pytest.mark.parametrize("name", [*WORKLOADS, ALU])
def test_traffic_and_buffers_are_those_of_the_program(name: str, log: Path) -> None:
    kernel, found = taken(name, log)
    table = kernel.lowered.table
    dmas = np.isin(table[:, isa.OPCODE], (isa.OP_LOAD, isa.OP_STORE)) & (table[:, isa.X_SIZE] * table[:, isa.Y_SIZE] > 0)
    assert sum(t.transfers for t in found.traffic) == int(dmas.sum())
    read = sum(n for kind, n in found.stats.bytes_read.items())
    assert sum(t.bytes for t in found.traffic if t.memory != "OUT") == read
    assert sum(t.bytes for t in found.traffic if t.memory == "OUT") == found.stats.bytes_written
    tensors = {b.name for b in kernel.lowered.params}
    assert tensors <= {t.tensor for t in found.traffic}
    for t in found.traffic:
        if t.tensor in {b.name for b in kernel.lowered.written}:
            assert t.times == 1.0
    assert {h.buffer for h in found.held} == {s.buffer for s in kernel.lowered.storages}
    assert all(0 < h.share <= 1 for h in found.held)


def test_the_nest_names_every_site(log: Path) -> None:
    kernel, found = taken(WORKLOADS[1], log)
    kinds = [line.split()[0] for line in found.loops]
    assert sum(kind in ("load", "store", "gemm", "alu") for kind in kinds) == len(kernel.lowered.sites)
    assert any(line.lstrip().startswith("for ") for line in found.loops)


def test_a_decision_changed_alone_costs_what_is_said(log: Path) -> None:
    name = WORKLOADS[1]
    target = get_target("vta-de10")
    record, _ = best_or_fail(workload(name), target, log)
    changes = ablate(workload(name), target, record.point, record.cycles, most=3)
    space = Space(workload(name).func, target)
    assert changes and len({c.decision for c in changes}) == len(changes)
    costs = [c.difference for c in changes if c.difference is not None]
    assert costs == sorted(costs, reverse=True)
    here = np.array(record.point, dtype=np.int32)
    near = space.neighbours(here)
    for c in changes:
        column = space.names.index(c.decision)
        assert c.value == here[column] and c.tried <= 3
        if c.other is None or c.cycles is None:
            continue
        assert c.difference == c.cycles - record.cycles and c.other != c.value
        changed = {c.decision, *c.others}
        rows = [r for r in near if {space.names[k] for k in np.flatnonzero(r != here)} == changed and r[column] == c.other]
        assert rows
        cycles = [measure(Candidate(name, "vta-de10", tuple(space.trace(r).as_json()))).cycles for r in rows]
        assert c.cycles in cycles
        # Nothing that changes fewer decisions was passed over.
        assert min(int((r != here).sum()) for r in near if r[column] != here[column]) == len(changed)


def test_compare_names_what_differs_and_nothing_else(log: Path) -> None:
    _, one = taken(WORKLOADS[0], log)
    _, two = taken(WORKLOADS[1], log)
    assert compare(figures(one), figures(one)) == []
    found = {d.what: d for d in compare(figures(one), figures(two))}
    assert (found["cycles"].first, found["cycles"].second) == (one.cycles, two.cycles)
    assert found["cycles"].change == two.cycles - one.cycles
    same = set(figures(one).items()) & set(figures(two).items())
    assert not {name for name, _ in same} & set(found)


def test_the_commands(log: Path, tmp_path: Path) -> None:
    code, out, _ = ran("explain", WORKLOADS[1], "--log", log, "--format", "json", "--alternatives", "1")
    data = json.loads(out)
    assert code == Exit.OK and data["cycles"] == sum(r["cycles"] for r in data["rest"])
    assert data["decisions"] and data["terms"]["products"] > 0
    _, text, _ = ran("explain", WORKLOADS[1], "--log", log, "--alternatives", "1")
    for title in ("loops", "buffers", "traffic", "engines, in cycles", "chain binds", "what keeps the schedule from it",
                  "every decision changed alone"):
        assert title in text
    code, out, _ = ran("compare", WORKLOADS[0], f"{WORKLOADS[1]}@vta-de10@{log}", "--log", log, "--format", "json")
    assert code == Exit.OK
    assert {d["what"]: d["change"] for d in json.loads(out)["differences"]}["cycles"] == data["cycles"] - json.loads(
        ran("best", WORKLOADS[0], "--log", log, "--format", "json")[1])[0]["cycles"]
    ran("export", WORKLOADS[1], "--log", log, "-o", tmp_path / "p.json")
    assert "no figure differs" in ran("compare", tmp_path / "p.json", tmp_path / "p.json")[1]
    code, out, _ = ran("compare", tmp_path / "p.json", WORKLOADS[1], "--log", log, "--format", "json")
    assert not any(d["what"] == "cycles" for d in json.loads(out)["differences"])
    code, _, err = ran("compare", WORKLOADS[0], "dense:m=3", "--log", log)
    assert code == Exit.BAD_INPUT and err.count("\n") == 1
    code, _, err = ran("explain", WORKLOADS[0], "--target", "vta-pynq", "--log", log)
    assert code == Exit.BAD_INPUT and f"run: autosched tune {WORKLOADS[0]} --target vta-pynq --log {log}" in err
