"""``autosched oracle`` against brute force: every point of a small space simulated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from autosched.cli import main
from autosched.errors import ProgramError, UnknownNameError
from autosched.measure import Candidate, Result, measure
from autosched.search import OracleReport, oracle
from autosched.search.pool import MeasurePool
from autosched.search.tuner import CHECKS
from autosched.workloads import workload
from space import Space
from space.rules import NUMERIC, STRUCTURAL

NAME, LARGER = "dense:m=2,k=64,n=16,tail=cast,bias=0", "dense:m=2,k=64,n=64,tail=cast,bias=0"
POOL = "max_pool2d:h=2,w=4,c=16,k=2,stride=2,pad=0"  # two forms, whose decisions differ
UNCUT = [*STRUCTURAL, *(r for r in NUMERIC if not r.cuts)]


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
    report = oracle(NAME, samplers=("draft", "random"), trials=1, seeds=2, simulations=len(brute))
    assert report.fixed == {} and report.whole and report.points == len(brute)
    assert report.proven and report.cycles == report.low == min(brute.values()) == brute[report.point]
    assert report.simulated + report.certified == len(brute) and not report.open and report.certified > 30
    assert [(r.sampler, r.seed, r.trials) for r in report.regrets] == [(s, n, 1) for s in ("draft", "random") for n in (0, 1)]
    for r in report.regrets:
        assert r.cycles in brute.values() and report.regret(r.cycles) == (r.cycles / report.low - 1,) * 2
    assert max(r.cycles or 0 for r in report.regrets) > report.low, "one random trial misses it"


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
    assert not report.whole and report.fixed == {} and "cut" not in report.explain
    assert report.points == Space(workload(LARGER).func, "vta-de10", UNCUT).count()[0]
    given = {"cut": 1, "cut_again": 2, "fall": 0, "init": 0, "head_init": 0}
    fixed = oracle(LARGER, samplers=("random",), simulations=1, trials=2, fix=given)
    assert fixed.whole and fixed.fixed == given and "cut last" in fixed.explain
    with pytest.raises(ProgramError, match="no schedule has the decisions tile_k=1 load_data=0 load_weight=0"):
        oracle(NAME, samplers=(), fix={"tile_k": 1, "load_data": 0, "load_weight": 0})


def test_without_parts_every_form_is_listed_and_searched() -> None:
    space = Space(workload(POOL).func, "vta-de10", UNCUT)
    points = np.concatenate(list(space.enumerate()))
    assert len(space.sketches) == 2 and set(points[:, 0]) == {0, 1}
    cycles = [measure(Candidate(POOL, "vta-de10", tuple(space.trace(p).as_json()))).cycles or 0 for p in points]
    report = oracle(POOL, samplers=("draft",), trials=12, simulations=1)
    assert not report.whole and report.fixed == {} and report.points == len(points)
    assert [(r.trials, r.cycles) for r in report.regrets] == [(12, min(cycles))]
    assert report.cycles == min(cycles) == cycles[points.tolist().index(list(report.point))]
    assert report.simulated + report.certified + report.open == len(points) and report.simulated <= 2
    one = oracle(POOL, samplers=(), simulations=1, fix={"sketch": 1})
    assert one.points == sum(points[:, 0] == 1) and one.fixed == {"sketch": 1} and one.point[0] == 1


def _judged(monkeypatch: pytest.MonkeyPatch, check: Callable[[int, Result], Result]) -> list[int]:
    """Checks give what ``check`` makes of their number and their true result; returns the cycles of each."""
    true, seen = MeasurePool.check, list[int]()

    def judged(pool: MeasurePool, candidate: Candidate) -> Result:
        result = true(pool, candidate)
        seen.append(result.cycles or 0)
        return check(len(seen), result)

    monkeypatch.setattr(MeasurePool, "check", judged)
    return seen


def test_what_gave_no_answer_stays_open(brute: dict[tuple[int, ...], int], monkeypatch: pytest.MonkeyPatch) -> None:
    fewest, run = min(brute.values()), MeasurePool.run
    best = list(brute.values()).count(fewest)

    def dying(pool: MeasurePool, candidates: Sequence[Candidate], until: float | None = None) -> Iterator[Result]:
        for result in run(pool, candidates, until):
            yield Result.failed("environment", "its worker process died") if result.cycles == fewest else result

    monkeypatch.setattr(MeasurePool, "run", dying)
    report = oracle(NAME, samplers=(), simulations=len(brute))
    assert not report.proven and report.low <= fewest < (report.cycles or 0) and not report.failed
    assert report.unanswered == report.open == best
    assert report.simulated + report.certified + report.open == len(brute)


def test_the_best_is_executed_and_one_that_does_not_hold_gives_way(
    brute: dict[tuple[int, ...], int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fewest, *others = sorted(brute.values())
    with monkeypatch.context() as patch:
        seen = _judged(patch, lambda n, result: Result.failed("timeout", "it hangs") if n == 1 else result)
        report = oracle(NAME, samplers=(), simulations=len(brute))
        assert seen == [fewest, others[0]] and report.dropped == ((fewest, "timeout: it hangs"),)
        assert report.proven and report.cycles == others[0] == brute[report.point] and report.failed == 1
    with monkeypatch.context() as patch:
        _judged(patch, lambda n, result: Result.failed("environment", "its process died") if n == 1 else result)
        report = oracle(NAME, samplers=(), simulations=len(brute))
        assert report.cycles == others[0] and report.unanswered == 1 and report.low <= fewest
        assert report.proven == (fewest == others[0])
    with monkeypatch.context() as patch:
        _judged(patch, lambda n, result: Result.failed("environment", "its process died") if n == 1 else result)
        report = oracle(NAME, samplers=("draft",), trials=1, simulations=1)
        assert report.cycles == report.regrets[0].cycles == brute[report.point], "what the sampler had checked"
        assert (report.simulated, report.unanswered, report.failed) == (1, 0, 0)
        assert report.certified + report.open == len(brute) - 1
    with monkeypatch.context() as patch:
        seen = _judged(patch, lambda n, result: Result.failed("timeout", "it hangs"))
        report = oracle(NAME, samplers=(), simulations=len(brute))
        assert seen == sorted(brute.values())[: len(report.dropped)] and len(seen) == CHECKS and report.cycles is None
    with monkeypatch.context() as patch:
        _judged(patch, lambda n, result: Result.failed("environment", "its process died"))
        assert main(["oracle", NAME, "--sampler", "draft", "--trials", "1"]) == 3
        said = capsys.readouterr()
        assert said.err.count("was not taken, its check failed: environment: its process died") == 2
        assert "no schedule was found" in said.out and "0 simulated, 0 no faster" in said.out and "optimum" not in said.out


def test_wrong_bytes_are_said_and_the_optimum_is_another_one(
    brute: dict[tuple[int, ...], int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fewest = min(brute.values())
    others = min(c for c in brute.values() if c > fewest)
    with monkeypatch.context() as patch:
        _judged(patch, lambda n, result: Result.failed("mismatch", "byte 3") if result.cycles == fewest else result)
        assert main(["oracle", NAME, "--sampler", "draft", "--trials", "2"]) == 5
        said = capsys.readouterr()
        assert said.err.count("computes something else and was not taken: byte 3") == 1 and "its check failed" not in said.err
        assert f"the optimum is {others} cycles" in said.out and "checked: bit-equal" in said.out
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="computes something else"):
        seen = _judged(patch, lambda n, result: Result.failed("mismatch", "byte 3") if n > 1 else result)
        report = oracle(NAME, samplers=("draft",), trials=2, simulations=len(brute))
        # What the sampler alone had checked is told as well.
        assert report.differs and report.cycles == fewest
        assert report.dropped == tuple((c, "mismatch: byte 3") for c in seen[1:])


@pytest.mark.parametrize("above", [0, 1])
def test_with_a_wrong_bound_nothing_is_proven(
    brute: dict[tuple[int, ...], int], above: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fewest = min(brute.values())
    monkeypatch.setattr(Space, "bound", lambda space, points: np.full(len(points), fewest + above))
    assert main(["oracle", NAME, "--sampler", "draft", "--trials", "2"]) == 0
    said = capsys.readouterr()
    assert ("below the proven bound of" in said.err, "nothing is proven" in said.out, ", 0 open" in said.out) == (
        above > 0, above > 0, above == 0)
    assert (f"the optimum is {fewest} cycles" in said.out) == (not above) and "checked: bit-equal" in said.out
    report = oracle(NAME, samplers=())
    assert report.proven == (not above) and report.low == (0 if above else fewest)
    assert [v[1:] for v in report.violations] == [(fewest, fewest + 1)] * above


def test_refusals() -> None:
    with pytest.raises(UnknownNameError, match="tpe"):
        oracle(NAME, samplers=("tpee",))
    with pytest.raises(ProgramError, match=r"resnet18\.c8 has too many schedules to list, about .* such as --fix "):
        oracle("resnet18.c8")
    with pytest.raises(ProgramError, match=r"too many combinations of decisions to list, [0-9 ]* even if "):
        oracle("max_pool2d:h=3,w=3,c=16,k=2,stride=1,pad=0")
    with pytest.raises(ProgramError, match=r"t2 has too many .* to list, .*[0-9]; make some decisions"):
        oracle("t2", fix={"cut": 1})


@pytest.mark.parametrize(("name", "fix"), [("t2", "cut=1"), ("max_pool2d:h=3,w=3,c=16,k=2,stride=1,pad=0", "")])
def test_what_a_refusal_proposes_leads_to_a_list(name: str, fix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its words can be given as they are, for those of before: what was decided already is among them."""
    line = ["oracle", name, "--simulations", "1", "--sampler", "draft", "--trials", "1"]
    for _ in range(4):
        code = main([*line, *(["--fix", fix] if fix else [])])
        said = capsys.readouterr()
        if not code:
            break
        before, (start, hint) = fix, said.err.rstrip().split("such as --fix ")
        assert code == 2 and "too many" in start and " " not in hint
        assert hint.startswith(before) and len(hint.split(",")) == len(before.split(",")) * bool(before) + 3
        fix = hint
    (decided,) = re.findall(r"[0-9 ]+ schedules with (.*)\n", said.out)
    assert code == 0 and sorted(decided.split()) == sorted(fix.split(",")), said


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
