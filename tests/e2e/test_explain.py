"""``explain`` and ``compare``: every figure is one of the program or of its simulation, and the parts make up the whole."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from brief import brief_breeding

from autosched.cli import main
from autosched.cli.exit_codes import Exit
from autosched.kernel import Kernel
from autosched.measure import Candidate, measure
from autosched.records import best_or_fail, find_best
from autosched.report import Account, ablate, ablation, account, compare, decided, figures, placed
from autosched.report.worth import decisions
from autosched.search import TuneReport, tune
from autosched.target import get_target
from autosched.workloads import workload
from sim import isa
from space import VERSION, Space

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
        # Search is no subject here, but that a good convolution loads its data under their own name.
        sampler = "draft" if name.startswith("conv") else "random"
        with brief_breeding():
            assert isinstance(tune(name, trials=6, jobs=1, log=directory, sampler=sampler), TuneReport)
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
    # What a buffer takes over all of its fills is what its tensor moves: no copy holds more than it loads.
    moved = {t.tensor: t.bytes for t in found.traffic}
    for tensor in tensors & {"data", "kernel", "weight"}:
        buffers = [h for h in found.held if h.buffer.startswith(tensor)]
        assert buffers and sum(h.bytes // h.banks * h.fills for h in buffers) >= moved[tensor] > 0


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


def test_the_commands(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = ran("explain", WORKLOADS[1], "--log", log, "--format", "json", "--alternatives", "1")
    data = json.loads(out)
    assert code == Exit.OK and data["cycles"] == sum(r["cycles"] for r in data["rest"])
    assert data["decisions"] and data["terms"]["products"] > 0
    _, text, _ = ran("explain", WORKLOADS[1], "--log", log, "--alternatives", "1")
    for title in ("loops", "buffers", "traffic", "engines, in cycles", "chain binds", "what keeps the schedule from it",
                  "every decision changed alone"):
        assert title in text
    assert ".." not in text.partition("traffic")[0]
    monkeypatch.setattr("autosched.cli.tables.LONGEST", 10)
    _, text, _ = ran("explain", WORKLOADS[1], "--log", log, "--alternatives", "1")
    loops, _, buffers = text.partition("traffic")[0].partition("buffers")
    assert ".." in loops and ".." in buffers, "long names are shortened"
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
    assert code == Exit.NO_SCHEDULE and f"run: autosched tune {WORKLOADS[0]} --target vta-pynq --log {log}" in err


def test_a_decision_of_the_other_is_worth_what_it_makes(log: Path) -> None:
    task, target = workload(WORKLOADS[1]), get_target("vta-de10")
    record, _ = best_or_fail(task, target, log)
    space = Space(task.func, target)
    drawn = space.sample(np.random.default_rng(0), 24)
    one, two = min(((a, b) for a in drawn for b in drawn if (a != b).sum() > 3), key=lambda pair: int((pair[0] != pair[1]).sum()))
    cycles = measure(Candidate(task, target, tuple(space.trace(one).as_json()))).cycles
    assert cycles is not None
    steps = {s.what: s for s in decisions(task, target, one.tolist(), two.tolist(), cycles)}
    differ = {space.names[c] for c in np.flatnonzero(one != two)}
    assert set(steps) == differ and len(differ) > 1
    for name, step in steps.items():
        column = space.names.index(name)
        assert (step.first, step.second) == (one[column], two[column])
        row = one.copy()
        row[column] = two[column]
        (fixed,), (inside,) = space.repair(row[None])
        assert (step.cycles is not None) == (inside and fixed[column] == two[column])
        if step.cycles is not None:
            changed = measure(Candidate(task, target, tuple(space.trace(fixed).as_json()))).cycles
            assert (step.cycles, step.difference) == (changed, changed - cycles)
            assert set(step.others) == {space.names[c] for c in np.flatnonzero(fixed != one)} - {name}
    assert decisions(task, target, record.point, record.point, record.cycles) == []


def test_a_program_file_is_compared_with_a_schedule_in_what_both_have(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    assert ran("export", WORKLOADS[0], "--log", log, "-o", file)[0] == Exit.OK
    assert ran("compare", file, f"{WORKLOADS[0]}@{log}")[1].endswith("no figure differs\n")
    names = {d["what"] for d in json.loads(ran("compare", file, f"{ALU}@{log}", "--format", "json")[1])["differences"]}
    assert "cycles" in names and not any(n.startswith(("bound", "machine", "elements", "bytes of")) for n in names)


def test_machines_are_compared_field_by_field(log: Path, tmp_path: Path) -> None:
    target = get_target("vta-de10")
    fields = {"read_delay": 32, "outstanding_reads": 4, "LOG_INP_BUFF_SIZE": 8}
    (tmp_path / "mine.json").write_text(json.dumps({**target.config.to_json(), **fields, "name": "mine"}))
    code, out, _ = ran("compare", "vta-de10", tmp_path / "mine.json", "--log", log, "--format", "json")
    found = {s["what"]: s for s in json.loads(out)["fields"]}
    assert code == Exit.OK and set(found) == set(fields)
    assert {k: (s["first"], s["second"]) for k, s in found.items()} == {
        k: (target.config.to_json()[k], v) for k, v in fields.items()}
    # Whoever waits longer for memory needs more cycles; a schedule that no longer fits needs none, and says so.
    assert found["read_delay"]["difference"] > 0 and found["outstanding_reads"]["difference"] >= 0
    assert found["LOG_INP_BUFF_SIZE"]["cycles"] is None and "capacity" in found["LOG_INP_BUFF_SIZE"]["why"]
    slow = replace(target, config=replace(target.config, read_delay=32))
    wanted = 0
    for name in (*WORKLOADS, ALU):
        record, _ = best_or_fail(workload(name), target, log)
        wanted += measure(Candidate(workload(name), slow, record.trace)).cycles or 0
    assert found["read_delay"]["cycles"] == wanted
    assert "no field differs" in ran("compare", "vta-de10", "vta-de10", "--log", log)[1]
    # Nothing is known to be worth nothing where no schedule is logged.
    found = json.loads(ran("compare", "vta-pynq", "vta-de10", "--log", log, "--format", "json")[1])
    assert found["workloads"] == [] and [(s["cycles"], s["why"]) for s in found["fields"]] == [(None, "nothing is logged")]
    code, _, err = ran("compare", "vta-de10", WORKLOADS[0], "--log", log)
    assert code == Exit.BAD_INPUT and "vta-de10 is a target, the other one is none" in err


def test_a_schedule_is_compared_with_one_that_its_machine_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.json").write_text('{"LOG_WGT_BUFF_SIZE": 10}')
    name = "dense:m=1,k=64,n=64,bias=0,tail=cast"
    for target in ("small.json", "vta-de10"):
        with brief_breeding():
            tune(name, target, trials=1, jobs=1, log="log", sampler="draft")
    code, out, err = ran("compare", f"{name}@small.json", name, "--log", "log", "--format", "json")
    found = json.loads(out)
    assert (code, err) == (Exit.OK, "") and found["first"].startswith(f"{name} on small")
    _, there = (best_or_fail(workload(name), get_target(t), "log")[0] for t in ("small.json", "vta-de10"))
    space = Space(workload(name).func, "vta-de10")
    worth = {s["what"]: s["second"] for s in found["decisions"]}
    assert worth and worth == {k: there.point[space.names.index(k)] for k in worth}
    larger = placed(Space(workload(name).func, "small.json"), list(there.trace), there.program)
    assert larger[0] == () and larger[1].startswith("capacity: local.wgt_buffer holds 4 elements")
    # Behind an @ stands a target, in a path does not.
    assert "target file large.json: no such file" in ran("compare", f"{name}@large.json", name, "--log", "log")[2]
    assert "no file ./p@small.json; did you mean 'small.json'?" in ran("compare", "./p@small.json", name, "--log", "log")[2]
    assert "two are named of one" in ran("compare", f"{name}@small.json@vta-de10", name, "--log", "log")[2]


def test_a_layer_of_a_file_with_an_at_in_its_name_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    layer = replace(workload("dense:m=1,k=32,n=32,bias=0,tail=cast"), name="net@2.c1", recipe=None)
    with brief_breeding():
        tune(layer, "vta-de10", trials=1, jobs=1, log="log", sampler="draft")
    code, out, err = ran("compare", "net@2.c1@vta-de10", "net@2.c1@log", "--log", "log")
    assert (code, err) == (Exit.OK, "") and out.count("net@2.c1 on vta-de10, log log") == 2
    assert "unknown target '3.c1'" in ran("compare", "net@3.c1", "net@2.c1", "--log", "log")[2]
    assert "unknown target '3.c1'" in ran("compare", "t2@3.c1@vta-de10", "net@2.c1", "--log", "log")[2]


def test_logs_are_compared_workload_by_workload(log: Path, tmp_path: Path) -> None:
    tune(ALU, trials=2, jobs=1, log=tmp_path, sampler="random")
    code, out, _ = ran("compare", log, tmp_path, "--format", "json")
    rows = {r["workload"]: r for r in json.loads(out)["workloads"]}
    assert code == Exit.OK and set(rows) == {*WORKLOADS, ALU}
    assert all(r["second"] is None and r["change"] is None for name, r in rows.items() if name != ALU)
    row = rows[ALU]
    assert row["trials"][1] == 2 and row["change"] == row["second"] - row["first"]
    assert "1 workloads in both" in ran("compare", log, tmp_path)[1]


def test_a_schedule_of_an_older_space_is_a_point_of_this_one_where_its_trace_is(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ships, or a user's log, outlives the meaning of its numbers."""
    task, target = workload(ALU), get_target("vta-de10")
    record, _ = best_or_fail(task, target, log)
    space = Space(task.func, target)
    older = replace(record, of=replace(record.of, space=VERSION - 1), point=(9, 9))
    point, why = decided(space, older)
    assert why == "" and space.trace(np.array(point, dtype=np.int32)).as_json() == list(record.trace)
    # Where it brought the program into its form by other steps, what counts is the program.
    more = ({"op": "get_sblock", "in": {}, "args": {"name": "root"}, "out": ["b999"]}, *record.trace)
    assert decided(space, replace(older, trace=more)) == (record.point, "")
    point, why = decided(space, replace(older, trace=more, program="0" * 64))
    assert point == () and "another program" in why
    other, _ = best_or_fail(workload(WORKLOADS[0]), target, log)
    point, why = decided(space, replace(older, trace=other.trace))
    assert point == () and f"is of version {VERSION - 1} of the space, and in version {VERSION} no point has its trace (" in why
    monkeypatch.setattr(ablation, "VERSION", VERSION + 1)
    code, out, err = ran("explain", ALU, "--log", log, "--alternatives", "1")
    assert code == Exit.OK and "every decision changed alone" in out, out + err


BY_HAND = """
from autosched.schedule import Schedule
from autosched.workloads import workload

ACC = "local.acc_buffer"

def scheduled(*factors, turn=False, order=(0, 1)):
    sch = Schedule(workload("add:m=1,n=256").func)
    add = sch.get_sblock("add")
    loads = [sch.cache_read(add, which, ACC) for which in order]
    sch.set_scope(add, 0, ACC)
    m, n, mb, nb = sch.get_loops(sch.get_sblock("out"))
    outer, *inner = sch.split(n, list(factors))
    sch.reorder(outer, m, *inner, mb, nb)
    if turn:
        sch.bind(outer, "vthread")
    for block in (add, *loads):
        sch.compute_at(block, outer, preserve_unit_loops=True)
    if not turn:
        for load in loads:
            sch.double_buffer(load, 0)
    return sch

def mine():
    return scheduled(4, 4)

def swapped():
    return scheduled(4, 4, order=(1, 0))

def threads():
    return scheduled(2, 8, turn=True)

def levels():
    return scheduled(4, 2, 2)

program = workload("add:m=1,n=256").func
"""


def test_a_schedule_of_ones_own_is_a_point_or_says_what_is_in_the_way(tmp_path: Path) -> None:
    """The same program by other steps is the point's; else the steps that no rule gives."""
    file = tmp_path / "hand.py"
    file.write_text(BY_HAND)

    def explained(name: str) -> dict[str, object]:
        code, out, err = ran("explain", ALU, "--schedule", f"{file}:{name}", "--format", "json", "--alternatives", "1")
        assert code == Exit.OK, err
        return json.loads(out)

    space = Space(workload(ALU).func, "vta-de10")
    mine = explained("mine")
    assert mine["point"] == space.point(tile_n=4, load_A=1, load_B=1, banks_A=2, banks_B=2).tolist() and mine["outside"] == ""
    assert mine["decisions"] and mine["cycles"] == measure(
        Candidate(ALU, "vta-de10", tuple(space.trace(np.array(mine["point"], dtype=np.int32)).as_json()))).cycles
    for name, step in (("swapped", "same steps in another order"), ("levels", "is split(loop="), ("threads", "is bind(loop=")):
        other = explained(name)
        assert other["point"] == [] and other["decisions"] == [] and step in str(other["outside"]), other["outside"]
    assert "no rule of this space gives such a step" in str(other["outside"])
    code, out, _ = ran("explain", ALU, "--schedule", f"{file}:levels", "--alternatives", "1")
    assert code == Exit.OK and "no decision can be changed alone: " in out and "split(loop=" in out
    for given, said in ((f"{file}:program", "expected a Schedule or a function that returns one, got PrimFunc"),
                        (f"{file}:mein", "did you mean 'mine'"), (f"{file}", "FILE.py:FUNC")):
        code, _, err = ran("explain", ALU, "--schedule", given)
        assert code == Exit.BAD_INPUT and said in err and "Traceback" not in err, err


def test_numbers_of_another_version_are_a_point_where_they_mean_the_very_schedule() -> None:
    """Shipped schedules are long: what has many decisions in common with nothing is hard to find by its steps alone."""
    task = workload("resnet18.c9")
    space, record = Space(task.func, "vta-de10"), find_best(task.func, get_target("vta-de10"))
    assert record is not None
    older = replace(record, of=replace(record.of, space=VERSION - 1))
    assert decided(space, older) == (record.point, "")
    # Numbers that mean another schedule are not believed.
    task = workload("t1")
    space, record = Space(task.func, "vta-de10"), find_best(task.func, get_target("vta-de10"))
    assert record is not None and record.point != tuple(space.sample(np.random.default_rng(0), 1)[0].tolist())
    older = replace(record, of=replace(record.of, space=VERSION - 1))
    other = tuple(space.sample(np.random.default_rng(0), 1)[0].tolist())
    assert decided(space, replace(older, point=other)) == (record.point, "")
