"""The loop: same trials whatever the jobs, the log as a cache, every sampler, every stop rule."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.errors import UnknownNameError
from autosched.measure import Candidate, Result, measure
from autosched.records import BestRecord, Log, compile, find_best, version
from autosched.records.line import open_line, seal
from autosched.search import (
    Event,
    NetworkReport,
    Remark,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskStarted,
    TrialEvent,
    TuneReport,
    tune,
)
from autosched.search.events import as_json
from autosched.search.proposer import ALIKE, Proposer
from autosched.search.samplers import NAMES
from autosched.target import get_target
from autosched.workloads import workload
from autosched.workloads.catalogue import NETWORKS
from space import VERSION, Space

SMALL = "dense:m=2,k=64,n=96"
pytestmark = pytest.mark.usefixtures("brief")


def one(name: str, log: Path, **kwargs: object) -> TuneReport:
    report = tune(name, log=log, **{"jobs": 1, "trials": 12, "cold": True, **kwargs})  # type: ignore[arg-type]
    assert isinstance(report, TuneReport)
    return report


def points(log: Path) -> list[tuple[int, ...]]:
    task = workload(SMALL)
    known = Log.open(log).trials(task.key, get_target("vta-de10").key(), version())
    return [r.point for r in sorted(known.values(), key=lambda r: r.trial)]


def test_the_list_of_trials_does_not_depend_on_jobs(tmp_path: Path) -> None:
    serial = one(SMALL, tmp_path / "a", trials=32)
    parallel = one(SMALL, tmp_path / "b", trials=32, jobs=2)
    assert serial.history == parallel.history and serial.trace == parallel.trace
    assert points(tmp_path / "a") == points(tmp_path / "b")
    assert len(set(points(tmp_path / "a"))) == 32
    other = one(SMALL, tmp_path / "c", trials=8, seed=1)
    assert other.cycles is not None and points(tmp_path / "c") != points(tmp_path / "a")


def test_the_log_is_a_cache_that_changes_no_trial(tmp_path: Path) -> None:
    first = one(SMALL, tmp_path)
    again = one(SMALL, tmp_path)
    assert first.history == again.history
    assert (first.simulated, first.from_log) == (12, 0) and (again.simulated, again.from_log) == (0, 12)
    longer = one(SMALL, tmp_path, trials=20)
    assert longer.history[:12] == first.history and longer.simulated == 8


def test_a_failure_that_this_version_has_no_word_for_is_simulated_again(tmp_path: Path) -> None:
    first = one(SMALL, tmp_path / "a", trials=4)
    (path,) = (tmp_path / "a").iterdir()
    lines = []
    for line in path.read_bytes().splitlines():
        obj = open_line(line)
        body = {k: v for k, v in obj.items() if k not in ("kind", "format", "crc")}
        if obj["kind"] == "trial":
            body |= {"status": "crash", "cycles": None, "reason": "of another time"}
        lines.append(seal(obj["kind"], body))
    path.write_text("".join(lines))
    again = one(SMALL, tmp_path / "a", trials=4)
    assert (again.history, again.simulated, again.damaged) == (first.history, 4, 0)
    # What is known since is taken from there.
    assert one(SMALL, tmp_path / "a", trials=4).simulated == 0


def test_points_of_another_space_are_not_taken_for_known(tmp_path: Path) -> None:
    first = one(SMALL, tmp_path)
    other = as_of_space(tmp_path, VERSION + 1, tmp_path / "other")
    again = one(SMALL, other)
    assert again.history == first.history and again.from_log == 0


def as_of_space(log: Path, space: int, to: Path, trials: bool = True, **changed: object) -> Path:
    """The records of a log as if their points belonged to another version of the space."""
    task, target = workload(SMALL), get_target("vta-de10")
    known = Log.open(log)
    best = known.best(task.key, target.key())
    assert best is not None
    of = replace(best.of, space=space)
    with Log.open(to).writer(of) as writer:
        for record in known.trials(task.key, target.key(), version()).values() if trials else ():
            writer.append(replace(record, of=of))
        writer.append(replace(best, of=of, **changed))  # type: ignore[arg-type]
    return to


def test_a_schedule_of_another_space_starts_the_search_by_its_trace(tmp_path: Path) -> None:
    first = one(SMALL, tmp_path / "a", trials=40, seed=7)
    # The numbers of its point are another schedule here, or none: only the trace says what it was.
    other = as_of_space(tmp_path / "a", VERSION + 1, tmp_path / "b", trials=False, point=(1, 1, 1))
    events: list[Event] = []
    warm = one(SMALL, other, cold=False, trials=3, seed=7, listener=events.append)
    begun = next(e for e in events if isinstance(e, TrialEvent))
    assert warm.history[0] == first.cycles == warm.cycles and warm.from_log == 1 and warm.verified
    assert warm.trace == first.trace and warm.point == () and f"version {VERSION + 1} of the space" in begun.explain
    again = find_best(workload(SMALL).func, get_target("vta-de10"), other)
    assert again is not None and again.cycles == first.cycles
    cold = one(SMALL, tmp_path / "c", trials=2, seed=7)
    assert warm.history[1:] == cold.history


def test_the_incumbent_is_in_the_log_before_its_trial(tmp_path: Path) -> None:
    seen: list[tuple[int | None, BestRecord | None]] = []
    task, target = workload(SMALL), get_target("vta-de10")

    def listen(event: Event) -> None:
        if isinstance(event, TrialEvent):
            seen.append((event.best, Log.open(tmp_path).best(task.key, target.key())))

    report = one(SMALL, tmp_path, trials=24, sampler="random", listener=listen)
    assert len({best for best, _ in seen}) > 1
    for best, record in seen:
        assert record is not None and record.cycles == best and not record.verified and not record.reason
    last = Log.open(tmp_path).best(task.key, target.key())
    assert last is not None and last.verified and last.cycles == report.cycles


def test_cycles_that_are_not_so_are_not_believed(tmp_path: Path) -> None:
    first = one(SMALL, tmp_path)
    assert first.cycles is not None
    for lie in (first.space_bound - 1, first.space_bound):
        lies = tmp_path / str(lie)
        of = Log.open(tmp_path).bests(workload(SMALL).key, get_target("vta-de10").key())[0].of
        with Log.open(lies).writer(of) as writer:
            for record in Log.open(tmp_path).trials(of.workload, of.hardware, of.version).values():
                writer.append(replace(record, cycles=lie))
        again = one(SMALL, lies, trials=4)
        assert again.cycles is not None and again.verified
        # Below its bound a record is simulated again; above it, the schedule that it made best is, when it is checked.
        assert again.simulated == 4 if lie < first.space_bound else again.from_log > 0
        found = find_best(workload(SMALL).func, get_target("vta-de10"), lies)
        assert found is not None and found.verified and found.cycles == again.cycles >= first.cycles
        assert compile(SMALL, log=lies).cycles == found.cycles


def test_a_violated_bound_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Space, "bound", lambda self, points: np.full(len(points), 10**6))
    report = one(SMALL, tmp_path, trials=3)
    assert len(report.violations) == 3 and report.violations[0][1] == report.history[0] and report.violations[0][2] == 10**6


def test_runs_at_once_use_each_others_cycles(tmp_path: Path) -> None:
    alone = one(SMALL, tmp_path / "alone", trials=48)
    inner: list[TuneReport] = []

    def listen(event: Event) -> None:
        # Another run on the same log, begun after this one has read it.
        if isinstance(event, TrialEvent) and event.trial == 0 and not inner:
            inner.append(one(SMALL, tmp_path / "log", trials=48))

    outer = one(SMALL, tmp_path / "log", trials=48, listener=listen)
    assert outer.history == alone.history == inner[0].history
    assert inner[0].simulated == 48 - inner[0].from_log and outer.from_log >= 32


def test_a_warm_start_begins_with_the_best(tmp_path: Path) -> None:
    first = one(SMALL, tmp_path)
    warm = one(SMALL, tmp_path, cold=False, seed=5, trials=4)
    assert warm.history[0] == first.cycles and warm.from_log >= 1


@pytest.mark.parametrize("sampler", NAMES)
def test_every_sampler_proposes_valid_unseen_points(sampler: str, tmp_path: Path) -> None:
    report = one(SMALL, tmp_path, sampler=sampler, trials=18)
    assert len(report.history) == 18 and not report.failed and report.verified
    assert len(set(points(tmp_path))) == 18
    assert one(SMALL, tmp_path / "again", sampler=sampler, trials=18).history == report.history


def test_an_unknown_sampler_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown sampler 'tpee'; did you mean 'tpe'"):
        one(SMALL, tmp_path, sampler="tpee")


@pytest.mark.parametrize(("rule", "options"), [
    ("trials", {}), ("patience", {"patience": 3, "trials": 64}), ("gap", {"gap": 0.99}), ("time", {"timeout": 1e-6}),
])
def test_every_stop_rule_fires_and_is_named(rule: str, options: dict[str, object], tmp_path: Path) -> None:
    report = one(SMALL, tmp_path, **options)
    assert report.stop == rule
    assert report.verified and report.cycles == min(c for c in report.history if c is not None)


@pytest.mark.parametrize("name", ["dense:m=1,k=16,n=16,tail=cast,bias=0", "dense:m=1,k=16,n=32,bias=0"])
def test_a_certificate_is_the_optimum(name: str, tmp_path: Path) -> None:
    space = Space(workload(name).func, "vta-de10")
    everything = np.concatenate(list(space.enumerate()))
    cycles = [measure(Candidate(name, "vta-de10", tuple(space.trace(p).as_json()))).cycles for p in everything]
    report = one(name, tmp_path, trials=500)
    assert report.stop == "certified" and report.machine_bound <= report.space_bound
    assert report.cycles == min(c for c in cycles if c is not None) == report.space_bound
    assert len(report.history) <= len(everything)


def test_what_was_proposed_but_not_measured_proves_nothing() -> None:
    space = Space(workload("dense:m=1,k=64,n=32,tail=cast,bias=0").func, "vta-de10")
    proposer = Proposer(space, 0)
    assert proposer.points is not None and proposer.floor() == space.floor()
    bounds = space.bound(proposer.points)
    for point in proposer.points[bounds == bounds.min()]:
        proposer.mark(point)
    assert proposer.floor() == space.floor()
    for point in proposer.points[bounds == bounds.min()]:
        proposer.add(point, 10**6)
    assert proposer.floor() == min(bounds[bounds > bounds.min()])


def test_a_first_population_is_bred_once_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that take turns begin again with every turn; another seed, machine or decision begins with its own."""
    from autosched.search import proposer as module

    bred: list[int] = []
    breed = Proposer._breed
    monkeypatch.setattr(module, "GENERATIONS", 2)
    monkeypatch.setattr(module, "EAGER", 256)
    monkeypatch.setattr(module, "ENOUGH", 1)
    monkeypatch.setattr(module, "_FIRST", type(module._FIRST)())
    monkeypatch.setattr(Proposer, "_breed", lambda self, *args, **more: (bred.append(self.seed), breed(self, *args, **more))[1])

    def batches(space: Space, seed: int) -> list[bytes]:
        proposer = Proposer(space, seed)
        found = []
        for cycles in (10**6, 10**6 + 7):
            for point in proposer.batch(8):
                found.append(point.tobytes())
                proposer.add(point, cycles + len(found))
        return found

    func = workload("dense:m=2,k=64,n=64").func
    first = batches(Space(func, "vta-de10"), 0)
    once = len(bred)
    assert once > 2 and len(set(first)) == 16
    assert batches(Space(func, "vta-de10"), 0) == first and len(bred) == once + 1  # the second batch is bred anew
    fixed = Space(func, "vta-de10", fixed={"banks_acc": 1})
    for other, seed in ((Space(func, "vta-de10"), 1), (Space(func, "vta-pynq"), 0), (fixed, 0)):
        before = len(bred)
        batches(other, seed)
        assert len(bred) > before + 2
    assert batches(Space(func, "vta-de10"), 1) != first


def test_a_population_that_settles_early_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.search import proposer as module

    bred: list[int] = []
    breed = Proposer._breed

    def counted(self: Proposer, *args: Any, **more: Any) -> int:
        bred.append(breed(self, *args, **more))
        return bred[-1]

    for name, value in (("IDLE", 3), ("ENOUGH", 12), ("GENERATIONS", 8), ("EAGER", 256), ("_FIRST", type(module._FIRST)())):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(Proposer, "_breed", counted)
    monkeypatch.setattr(Proposer, "_polish", lambda self: None)
    Proposer(Space(workload("dense:m=2,k=64,n=64").func, "vta-de10"), 0).batch(8)
    assert len(bred) > 1 and sum(bred) >= 12 > sum(bred[:-1]) and max(bred) <= 8


def test_no_tile_fills_the_first_batch() -> None:
    space = Space(workload(SMALL).func, "vta-de10")
    batch = np.stack(Proposer(space, 0).batch(32))
    counts = np.unique(space.same_tiles(batch), axis=0, return_counts=True)[1]
    assert len(batch) == 32 and counts.max() == ALIKE


def test_events_tell_the_run(tmp_path: Path) -> None:
    said: list[Event] = []
    report = one(SMALL, tmp_path, listener=said.append)
    assert [type(e) for e in said[:2]] == [RunStarted, TaskStarted]
    assert said[-2:] == [TaskFinished(report), RunFinished(report)]
    run, task = said[0], said[1]
    assert isinstance(run, RunStarted) and isinstance(task, TaskStarted)
    assert run == RunStarted(SMALL, "vta-de10", ((SMALL, 1),), 12, 1, 0, "cost-model", str(tmp_path), 0)
    # 2 x 4 x 6 products of a row with a 16 x 16 block, one per cycle.
    assert (task.workload, task.number, task.trials, task.peak) == (SMALL, 0, 12, 48)
    trials = [e for e in said if isinstance(e, TrialEvent)]
    assert len(trials) == len(said) - 4 and [e.trial for e in trials] == list(range(12))
    assert [e.cycles for e in trials] == list(report.history)
    assert trials[-1].best == report.cycles and trials[-1].machine_bound == report.machine_bound
    assert report.cycles is not None
    assert report.gap == trials[-1].gap == (report.cycles - report.machine_bound) / report.machine_bound


def test_logging_hears_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    said: list[Event] = []
    with caplog.at_level("INFO", logger="autosched"):
        one(SMALL, tmp_path / "a")
    assert [r.levelname for r in caplog.records] == ["INFO"] * 4
    caplog.clear()
    with caplog.at_level("DEBUG", logger="autosched"):
        report = one(SMALL, tmp_path / "b", listener=said.append)
    assert len(caplog.records) == len(said) == 16
    assert f"{SMALL}: {report.cycles} cycles, stopped by trials, verified: True" in caplog.text
    assert "trial 11: " in caplog.text


def test_every_event_is_json(tmp_path: Path) -> None:
    said: list[Event] = [Remark("a line")]
    report = one(SMALL, tmp_path, listener=said.append)
    objects = [json.loads(json.dumps(as_json(e))) for e in said]
    assert [o["event"] for o in objects] == ["remark", "run", "task", *["trial"] * 12, "task_finished", "finished"]
    assert objects[0]["text"] == "a line" and objects[1]["tasks"] == [[SMALL, 1]]
    assert objects[-1]["cycles"] == report.cycles and objects[-1]["gap"] == report.gap
    assert objects[-1]["bound"] == report.machine_bound and objects[-1]["trace"] == list(report.trace)


def test_the_best_can_be_applied(tmp_path: Path) -> None:
    report = one(SMALL, tmp_path)
    task = workload(SMALL)
    record = find_best(task.func, get_target("vta-de10"), tmp_path)
    assert record is not None and record.cycles == report.cycles and record.verified
    inputs = task.inputs(3)
    for kernel in (compile(SMALL, log=tmp_path), report.kernel()):
        assert kernel.cycles == report.cycles
        assert np.array_equal(kernel(*inputs), task.reference(*inputs))
    assert report.schedule().func == kernel.schedule.func


def test_a_network_is_the_weighted_sum_of_its_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [times for _, times in NETWORKS["resnet18"]] == [4, 1, 1, 3, 1, 1, 3, 1, 1, 3]
    monkeypatch.setitem(NETWORKS, "small", ((SMALL, 4), ("t2", 1), ("dense:m=1,k=64,n=48", 3)))
    said: list[Event] = []
    begun = time.monotonic()
    report = tune("small", jobs=1, trials=1, cold=True, log=tmp_path, listener=said.append)
    waited = time.monotonic() - begun
    # A machine that has no kernels yet says so in between.
    heard = [type(e) for e in said if not isinstance(e, Remark)]
    assert heard == [RunStarted, *[TaskStarted, TrialEvent, TaskFinished] * 3, RunFinished]
    assert [e.number for e in said if isinstance(e, TaskStarted)] == list(range(3))
    assert isinstance(report, NetworkReport) and len(report.tasks) == 3
    assert [t.multiplicity for t in report.tasks] == [4, 1, 3]
    assert report.cycles == sum((t.cycles or 0) * t.multiplicity for t in report.tasks)
    assert report.machine_bound <= report.space_bound <= report.cycles
    assert sum(t.seconds for t in report.tasks) <= waited, "no layer counts what another took"


@pytest.mark.parametrize("failing", [1, 3, 1000])
def test_what_fails_its_check_is_never_the_best(failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the first few is made to fail: the next takes their place, and the reasons are told."""
    from autosched.search import pool, tuner

    checked: list[int | None] = []
    real = pool.check

    def check(candidate: Candidate, patience: float) -> Result:
        found = real(candidate, patience)
        checked.append(found.cycles)
        return Result.failed("simulation", "a race", found.program) if len(checked) <= failing else found

    monkeypatch.setattr(pool, "check", check)
    report = one(SMALL, tmp_path, trials=16, sampler="random")
    task, target = workload(SMALL), get_target("vta-de10")
    logged = [r for r in Log.open(tmp_path).bests(task.key, target.key()) if r.verified]
    assert [reason for _, reason in report.dropped] == ["simulation: a race"] * min(failing, tuner.CHECKS)
    if failing > tuner.CHECKS:
        assert (report.cycles, report.verified, report.point, logged) == (None, False, (), [])
        return
    known = sorted({c for c in report.history if c is not None})
    assert report.verified and report.cycles == checked[-1] in known
    assert [c for c, _ in report.dropped] == checked[:-1] and all(c <= report.cycles for c, _ in report.dropped)
    assert [r.cycles for r in logged] == [report.cycles]
    best = find_best(task.func, target, tmp_path)
    assert best is not None and best.cycles == report.cycles and best.verified


def test_wrong_bytes_are_said_whatever_was_found_instead(here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug that gives way to the next schedule: a warning, exit code 5, and a result that holds all the same."""
    from autosched.search import pool

    real = pool.check
    wrong: list[int] = []

    def check(candidate: Candidate, patience: float) -> Result:
        found = real(candidate, patience)
        if wrong:
            return found
        wrong.append(found.cycles or 0)
        return Result.failed("mismatch", "out: 3 of 16 elements differ", found.program)

    monkeypatch.setattr(pool, "check", check)
    with pytest.warns(UserWarning, match=r"computes something else and was not taken: out: 3 of 16 .* please report it") as said:
        report = one(SMALL, tmp_path / "a", trials=4, sampler="random")
    assert len(said) == 1 and report.differs and report.verified and report.cycles is not None and report.cycles >= wrong[0]
    assert report.dropped == ((wrong[0], "mismatch: out: 3 of 16 elements differ"),)
    best = find_best(workload(SMALL).func, get_target("vta-de10"), tmp_path / "a")
    assert best is not None and best.cycles == report.cycles and best.verified
    words = ("tune", SMALL, "--trials", "4", "--jobs", "1", "--sampler", "random", "--log", tmp_path / "b")
    for more in ((), ("--quiet",), ("--format", "json", "--cold")):
        wrong.clear()
        done = here(*words, *more)
        assert done.returncode == 5 and done.stderr.count("computes something else") == 1, done.stderr
        assert "Traceback" not in done.stderr and ("bit-equal" in done.stdout or '"verified": true' in done.stdout)
    wrong[:] = [0]
    done = here(*words)
    assert done.returncode == 0 and "computes something else" not in done.stderr


def test_a_schedule_is_checked_on_telling_and_on_wide_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.workloads import Workload

    asked = tmp_path / "asked"
    real = Workload.inputs

    def inputs(self: Workload, seed: int = 0, wide: bool = False) -> Any:
        # In the process that checks.
        with asked.open("a") as file:
            file.write(f"{wide} ")
        return real(self, seed, wide)

    monkeypatch.setattr(Workload, "inputs", inputs)
    assert one(SMALL, tmp_path, trials=2).verified
    assert asked.read_text() == "False True "
