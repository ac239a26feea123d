"""A search of which a person has decided something already: ``--fix`` and ``--enqueue``."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from brief import brief_breeding

import autosched as at
from autosched.cli import main
from autosched.errors import BadArgumentError, ProgramError, UnknownNameError
from autosched.search.cost_model import CostModel
from autosched.search.events import TrialEvent
from autosched.search.result import TuneReport
from autosched.workloads import workload
from space import Space


def test_fixed_decisions_hold_in_every_point() -> None:
    func = workload("t2").func
    space = Space(func, "vta-de10", fixed={"tile_k": 4, "banks_acc": 2})
    rng = np.random.default_rng(0)
    drawn = space.sample(rng, 200)
    grown = space.mutate(drawn, rng)
    column = {name: n for n, name in enumerate(space.names)}
    for points in (drawn, grown, space.neighbours(drawn[0]), space.eager(rng, 200)):
        assert len(points) and (points[:, column["tile_k"]] == 4).all() and (points[:, column["banks_acc"]] == 2).all()
        # They are points of the whole space as well.
        assert Space(func, "vta-de10").valid(points).all() and space.valid(points).all()
    other = Space(func, "vta-de10", fixed={"tile_k": 8}).sample(rng, 20)
    assert not space.valid(other).any()


def test_a_fixed_space_lists_what_the_whole_one_lists_with_these_decisions() -> None:
    func = workload("dense:m=1,k=32,n=64").func
    whole = np.concatenate(list(Space(func, "vta-de10").enumerate()))
    names = Space(func, "vta-de10").names
    fixed = np.concatenate(list(Space(func, "vta-de10", fixed={"tile_n": 2}).enumerate()))
    want = whole[whole[:, names.index("tile_n")] == 2]
    assert len(want) and sorted(map(tuple, fixed.tolist())) == sorted(map(tuple, want.tolist()))


def test_what_there_is_not_is_named() -> None:
    func = workload("t2").func
    with pytest.raises(UnknownNameError, match="tile_q"):
        Space(func, "vta-de10", fixed={"tile_q": 1})
    with pytest.raises(ProgramError, match="tile_k=3: choose one of 1, 2, 4, 8, 16"):
        Space(func, "vta-de10", fixed={"tile_k": 3})


@pytest.mark.usefixtures("brief")
def test_fix_and_enqueue_through_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(tmp_path)
    line = ["tune", "t2", "--cold", "--trials", "6", "--jobs", "1", "--log", log, "--quiet",
            "--fix", "tile_k=8", "--fix", "banks_acc=1"]
    assert main([*line, "--enqueue", "tile_k=8,tile_n=8,load_weight=3,banks_weight=2"]) == 0
    assert "k=8" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main([*line[:-2], "--fix", "tile_k"])
    assert "expected decisions such as" in capsys.readouterr().err
    assert main([*line, "--enqueue", "tile_k=4"]) == 2
    assert "decision tile_k=4: it is fixed, tile_k=8" in capsys.readouterr().err
    # What is fixed need not be said again.
    assert main([*line, "--enqueue", "tile_n=8,load_weight=3,banks_weight=2"]) == 0
    for twice in (["--fix", "tile_n=4,tile_n=8"], ["--fix", "tile_k=4"], ["--enqueue", "tile_n=8,tile_n=4"]):
        with pytest.raises(SystemExit, match="2"):
            main([*line, *twice])
        name = twice[1].partition("=")[0]
        assert f"argument {twice[0]}: {name} is given twice" in capsys.readouterr().err
    capsys.readouterr()
    for asked in (["--fix", "tile_k=4"], ["--enqueue", "tile_k=4"]):
        # Before any layer is searched, as for a network's file.
        assert main(["tune", "resnet18", *asked, "--log", f"{log}2"]) == 2
        said = capsys.readouterr()
        assert said.out == "" and "--fix and --enqueue must be one workload" in said.err and len(said.err.splitlines()) == 1
    for name in ("resnet18", " dcgan "):
        with pytest.raises(BadArgumentError, match="fix and enqueue must be one workload, whose decisions they name, got"):
            at.tune(name, trials=1, jobs=1, log=f"{log}2", fix={"tile_k": 4})
    assert not Path(f"{log}2").exists()
    # Decisions that no point has together: the form has too many combinations to list, and none was drawn.
    none = ["tune", "resnet18.c2", "--fix", "tile_y=56,tile_x=56,tile_co=4,banks_acc=2", "--trials", "4", "--jobs", "1"]
    capsys.readouterr()
    assert main([*none, "--log", log]) == 3
    said = capsys.readouterr()
    assert "exhausted" in said.out
    made = "tile_y=56 tile_x=56 tile_co=4 banks_acc=2"
    assert f"autosched: resnet18.c2: no schedule is known that has the decisions {made}\n" in said.err


def test_what_is_fixed_is_what_a_space_lists(here: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """With its values; those of another one are refused with the whole list."""
    name = "dense:m=2,k=64,n=96"
    lines = [line.rstrip().split(maxsplit=2) for line in here("space", name, "--decisions").stdout.splitlines()[1:]]
    assert lines[0] == ["decision", "values", "which"]
    space = Space(workload(name).func, "vta-de10")
    listed = {decision: int(count) for decision, count, _ in lines[1:]}
    assert listed == {n: len(v) for n, v in zip(space.names, space.choices) if len(v) > 1}
    values = next(which for decision, _, which in lines if decision == "tile_n")
    assert values == "1, 2, 3, 4, 5, 6"
    done = here("oracle", name, "--fix", "tile_n=7")
    assert done.returncode == 2 and f"decision tile_n=7: choose one of {values}" in done.stderr
    assert Space(workload(name).func, "vta-de10", fixed={"tile_n": 6}).fixed == {"tile_n": 6}
    # Defaults that need not be given.
    assert workload("add:").spec == "add:m=1,n=1024"


@pytest.mark.usefixtures("brief")
def test_what_is_enqueued_is_the_first_trial(tmp_path: Path) -> None:
    seen: list[TrialEvent] = []
    space = Space(workload("t2").func, "vta-de10")
    point = {"tile_k": 8, "tile_n": 8, "load_weight": 3, "banks_weight": 2}
    at.tune("t2", trials=2, jobs=1, log=tmp_path, cold=True, enqueue=[point],
            listener=lambda e: seen.append(e) if isinstance(e, TrialEvent) else None)
    assert [e.trial for e in seen] == [0, 1] and seen[0].explain == space.explain(space.point(**point))
    with pytest.raises(BadArgumentError, match="enqueue"):
        at.tune("t2", trials=1, jobs=1, log=tmp_path, enqueue=["tile_k=8"])
    with pytest.raises(BadArgumentError, match="fix"):
        at.tune("t2", trials=1, jobs=1, log=tmp_path, fix={"tile_k": "8"})


@pytest.mark.usefixtures("brief")
def test_with_fixed_decisions_a_search_starts_cold(tmp_path: Path) -> None:
    """The log's best is the first trial of the whole space, also where its decisions would do for a part of it."""
    asked = {"jobs": 1, "trials": 2, "sampler": "random", "log": tmp_path}
    name = "dense:m=1,k=64,n=64"
    best = at.tune(name, **{**asked, "trials": 16})
    assert isinstance(best, TuneReport)
    fixed = {"tile_k": best.point[Space(workload(name).func, "vta-de10").names.index("tile_k")]}
    lists = [at.tune(name, fix=fix, cold=cold, **asked).history for fix in ({}, fixed) for cold in (False, True)]
    assert lists[0][0] == best.cycles and lists[0] != lists[1] and lists[2] == lists[3]
    assert lists[2][0] != best.cycles


def test_the_draft_alone_never_asks_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("the model was asked")

    monkeypatch.setattr(CostModel, "fit", asked)
    report = at.tune("t2", trials=20, jobs=1, log=tmp_path / "draft", cold=True, sampler="draft")
    assert isinstance(report, TuneReport) and report.cycles is not None and report.cycles <= 8600
    with brief_breeding(), pytest.raises(AssertionError, match="the model was asked"):
        at.tune("t2", trials=20, jobs=1, log=tmp_path / "model", cold=True)
