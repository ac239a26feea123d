"""``autosched oracle`` against brute force: every point of a small space simulated."""

from __future__ import annotations

import json

import numpy as np
import pytest

from autosched.cli import main
from autosched.errors import ProgramError, UnknownNameError
from autosched.measure import Candidate, measure
from autosched.search import OracleReport, oracle
from autosched.workloads import workload
from space import Space

NAME, LARGER = "dense:m=2,k=64,n=16,tail=cast,bias=0", "dense:m=2,k=32,n=32,tail=cast,bias=0"
PLAIN = {"head": 0, "cut": 0, "cut_again": 0, "head_k": 2, "last_k": 0, "keep_data": 0, "keep_weight": 0, "tail_last": 0}


@pytest.fixture(scope="module")
def brute() -> dict[tuple[int, ...], int]:
    """The cycles of every point."""
    space = Space(workload(NAME).func, "vta-de10")
    points = np.concatenate(list(space.enumerate()))
    found = {}
    for p in points:
        result = measure(Candidate(NAME, "vta-de10", tuple(space.trace(p).as_json())))
        assert result.cycles is not None
        found[tuple(int(x) for x in p)] = result.cycles
    return found


def test_the_optimum_is_that_of_brute_force(brute: dict[tuple[int, ...], int]) -> None:
    report = oracle(NAME, samplers=("draft", "random"), trials=3, seeds=2, simulations=len(brute))
    assert report.fixed == {} and report.whole and report.points == len(brute)
    assert report.proven and report.cycles == report.low == min(brute.values()) == brute[report.point]
    assert report.simulated + report.certified == len(brute) and not report.open and report.certified > 30
    assert [(r.sampler, r.seed, r.trials) for r in report.regrets] == [(s, n, 3) for s in ("draft", "random") for n in (0, 1)]
    for r in report.regrets:
        assert r.cycles in brute.values() and report.regret(r.cycles) == (r.cycles / report.low - 1,) * 2
    assert max(r.cycles or 0 for r in report.regrets) > report.low, "three random trials miss it"


@pytest.mark.parametrize("simulations", [1, 2, 30])
def test_what_is_not_simulated_is_certified_or_said_to_be_open(brute: dict[tuple[int, ...], int], simulations: int) -> None:
    report = oracle(NAME, samplers=(), simulations=simulations)
    assert report.simulated == simulations and report.cycles is not None and brute[report.point] == report.cycles
    space = Space(workload(NAME).func, "vta-de10")
    bounds = np.maximum(space.bound(np.array(list(brute), dtype=np.int32)), report.machine_bound)
    settled = [c for c, bound in zip(brute.values(), bounds) if bound >= report.cycles]
    assert all(c >= report.cycles for c in settled)
    assert report.simulated + report.certified + report.open == len(brute) and report.open > 0 and not report.proven
    assert report.low <= min(brute.values()) <= report.cycles and report.low < report.cycles


def test_a_space_that_is_too_large_is_listed_without_parts_and_what_is_fixed_stays_so() -> None:
    report = oracle(LARGER, samplers=(), simulations=1)
    assert not report.whole and report.fixed == PLAIN and "cut" not in report.explain
    fixed = oracle(LARGER, samplers=("random",), simulations=1, trials=2, fix={"cut": 1, "cut_again": 2})
    assert fixed.whole and fixed.fixed == {"cut": 1, "cut_again": 2} and "cut last" in fixed.explain
    with pytest.raises(ProgramError, match="no schedule has the decisions tile_k=1 load_data=0 load_weight=0"):
        oracle(NAME, samplers=(), fix={"tile_k": 1, "load_data": 0, "load_weight": 0})


def test_refusals() -> None:
    with pytest.raises(UnknownNameError, match="tpe"):
        oracle(NAME, samplers=("tpee",))
    with pytest.raises(ProgramError, match=r"resnet18\.c8 has too many schedules to list, about .* such as --fix "):
        oracle("resnet18.c8")


def test_the_command_prints_what_python_returns(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["oracle", NAME, "--simulations", "20", "--sampler", "draft", "--trials", "4"]
    assert main([*line, "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    report: OracleReport = oracle(NAME, samplers=("draft",), simulations=20, trials=4)
    assert data == json.loads(json.dumps(report.as_json())) and not data["proven"]
    assert main(line) == 0
    out = capsys.readouterr().out
    assert f"{report.open} open" in out and f"between {report.low} and {report.cycles} cycles" in out
    assert out.splitlines()[-1].split() == [
        "draft", "0", "4", str(report.cycles), "0.00", "%", f"{100 * (report.cycles / report.low - 1):.2f}", "%"]
