"""The worker pool: order, one result per candidate, and workers that die or hang."""

import gc
import importlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from brief import brief_breeding
from turns import in_turn

import autosched
from autosched.child import COPIES, OLDER, YOUNG
from autosched.cli.exit_codes import Exit
from autosched.errors import ExecutorError, UnknownNameError
from autosched.measure import Candidate, Result, measure
from autosched.search import guarded
from autosched.search import pool as pool_module
from autosched.search.executors import Fault, LokyExecutor
from autosched.search.pool import MeasurePool
from autosched.search.worker import Measured
from autosched.workloads import workload
from space import Space

SMALL = "dense:m=2,k=64,n=96"
MINUTE = 60  # more than anything here takes


def candidates(n: int) -> list[Candidate]:
    space = Space(workload(SMALL).func, "vta-de10")
    points = space.sample(np.random.default_rng(0), n)
    return [Candidate(SMALL, "vta-de10", tuple(space.trace(p).as_json())) for p in points]


class Trap:
    """A candidate's trace that runs ``body`` where it is unpickled: in the worker that is to measure it."""

    def __init__(self, body: str, trace: object) -> None:
        self.text = f"(exec({body!r}), {trace!r})[1]"

    def __reduce__(self) -> tuple[object, ...]:
        return eval, (self.text,)


def saboteur(body: str, like: Candidate) -> Candidate:
    """The same candidate, but its worker runs ``body`` first."""
    return Candidate(like.workload, like.target, Trap(f"import os, signal, time\n{body}", like.trace))  # type: ignore[arg-type]


@pytest.fixture
def bred_briefly() -> Iterator[None]:
    """As ``brief``, with checks where they belong."""
    with brief_breeding():
        yield


@pytest.fixture(params=[True, False] if COPIES else [False], ids="copies={}".format)
def beginnings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers as copies of this process where the system has them, and as interpreters of their own."""
    monkeypatch.setattr(LokyExecutor, "copies", request.param)


@pytest.mark.usefixtures("beginnings")
@pytest.mark.parametrize(("jobs", "executor"), [(1, None), (2, None), (1, "loky"), (2, "serial")])
def test_results_come_in_order_whatever_the_jobs(jobs: int, executor: str | None) -> None:
    asked = candidates(7)
    expected = [measure(c) for c in asked]
    with MeasurePool(jobs, executor) as pool:
        assert list(pool.run(asked)) == expected
        assert list(pool.run(asked[:3])) == expected[:3]
        # Who stops listening gets the next batch all the same.
        assert next(iter(pool.run(asked))) == expected[0]
        assert list(pool.run(asked[2:])) == expected[2:]
        assert list(pool.run([])) == []


@pytest.mark.usefixtures("beginnings")
def test_a_candidate_that_kills_its_worker_twice_costs_itself_only(tmp_path: Path) -> None:
    asked = candidates(4)
    asked.insert(2, saboteur(f"open({str(tmp_path / 'tries')!r}, 'a').write('x'); os.kill(os.getpid(), 9)", asked[0]))
    with MeasurePool(2) as pool:
        pool.each = 0.02  # two or three candidates per call: the innocent ones are in one boat with the killer
        results = list(pool.run(asked))
        assert [r.status for r in results] == ["ok", "ok", "environment", "ok", "ok"]
        assert results[2].reason == "its worker process died, 2 times"
        assert (tmp_path / "tries").read_text() == "xx"
        # Nor does it cost the pool.
        once = saboteur(f"m = {str(tmp_path / 'm')!r}; os.path.exists(m) or (open(m, 'w'), os.kill(os.getpid(), 9))", asked[1])
        assert list(pool.run([asked[0], once])) == results[:2]
        assert (tmp_path / "m").exists()


@pytest.mark.usefixtures("beginnings")
def test_whose_fault_it_was_is_known_when_another_has_its_place() -> None:
    """A place is free as soon as its call has ended, and may be filled before anybody asks why it has."""
    first, second = candidates(2)
    executor = LokyExecutor(1)
    executor.start()
    try:
        lost = executor.submit([saboteur("os.kill(os.getpid(), 9)", first)])
        assert lost.exception(timeout=MINUTE) is not None
        assert executor.submit([second]).result(timeout=MINUTE).results[0].ok
        assert executor.fault(lost) is Fault.WORKER
    finally:
        executor.stop()


def test_a_candidate_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's clock stands still until a worker hangs, and then jumps: no machine is too slow for this test.

    A worker may begin before the pool has read the clock for its call. So it hangs only after two further readings: the pool
    makes them one after another, and the second comes when the call's end is known.
    """
    asked, marks, looks = candidates(4), tmp_path / "marks", tmp_path / "looks"
    marks.touch()
    looks.touch()
    hang = f"""
def looked():
    return os.path.getsize({str(looks)!r})
before = looked()
while looked() < before + 2:
    time.sleep(0.01)
open({str(marks)!r}, 'a').write('x')
time.sleep(3600)
"""
    asked.insert(1, saboteur(hang, asked[0]))

    def now() -> float:
        with looks.open("a") as file:
            file.write(".")
        return 1000.0 * len(marks.read_text())

    monkeypatch.setattr(pool_module, "time", SimpleNamespace(monotonic=now))
    with MeasurePool(1, "loky") as pool:
        results = list(pool.run(asked))
    assert [r.status for r in results] == ["ok", "environment", "ok", "ok", "ok"]
    assert results[1].reason == "no result after 120 seconds, 2 times"
    assert marks.read_text() == "xx"


def test_what_has_no_result_when_time_is_up_is_never_given(tmp_path: Path) -> None:
    asked = candidates(3)
    asked.insert(1, saboteur("time.sleep(3600)", asked[0]))
    with MeasurePool(2) as pool:
        batch = pool_module._Batch(pool, asked, None)
        results = batch.results()
        assert next(results).ok
        batch.until = time.monotonic()
        assert list(results) == []
        batch.abandon()
        # The worker that hangs is not waited for, and not counted on.
        pool.strays = dict.fromkeys(pool.strays, 0.0)
        assert [r.status for r in pool.run([asked[0], *asked[2:]])] == ["ok", "ok", "ok"]
    with MeasurePool(1) as serial:
        assert list(serial.run(asked, until=time.monotonic())) == []


def test_an_interrupt_never_comes_inside_a_librarys_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raised there, it leaves the lock locked, and the end of the run waits for ever for the threads that need it."""
    from joblib.externals.loky import ProcessPoolExecutor

    inside = []
    asked = candidates(1)[0]

    def interrupted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            inside.append(True)
            signal.raise_signal(signal.SIGTERM)
            found = real(*args, **kwargs)
            inside.pop()
            return found

        return call

    def handler(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handler)
    try:
        for owner, name in ((ProcessPoolExecutor, "submit"), (Future, "add_done_callback")):
            with MeasurePool(2) as pool, monkeypatch.context() as patched:
                patched.setattr(owner, name, interrupted(getattr(owner, name)))
                with pytest.raises(KeyboardInterrupt):
                    next(pool.run([asked, saboteur("time.sleep(3600)", asked)]))
            assert not inside, name
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("harm", "status", "reason"), [
    ("kill", "environment", "its process died, 2 times"), ("memory", "environment", "the worker's memory did not suffice"),
    ("hang", "environment", "no result after 0.2 seconds"), ("none", "ok", ""),
])
def test_a_check_costs_itself_only(harm: str, status: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = guarded.measure

    def harmful(*args: Any, **kwargs: Any) -> Any:
        if harm == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if harm == "memory":
            bytearray(1 << 45)
        if harm == "hang":
            time.sleep(3600)
        return real(*args, **kwargs)

    monkeypatch.setattr(guarded, "measure", harmful)
    if harm == "hang":
        monkeypatch.setattr(pool_module, "CHECK_SECONDS", 0.2)
    pool = MeasurePool(1)
    result = pool.check(candidates(1)[0])
    assert (result.status, result.reason) == (status, reason)


@pytest.mark.skipif(not hasattr(signal, "SIGCHLD"), reason="children are not waited for")
def test_who_ignores_its_childrens_end_gets_a_checked_result() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert MeasurePool(1).check(candidates(1)[0]).status == "ok"
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_what_checks_run_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from sim import semantics

    loaded: list[int] = []
    monkeypatch.setattr(semantics, "warm", lambda: loaded.append(os.getpid()))
    monkeypatch.setattr(pool_module, "check", lambda *_: Result.success(1, "", {}))
    pool = MeasurePool(1)
    for _ in range(3):
        assert pool.check(candidates(1)[0]).ok
    assert loaded == ([os.getpid()] if pool_module.COPIES else [])


def test_a_bug_in_a_check_is_raised_here() -> None:
    with pytest.raises(UnknownNameError, match="unknown workload"):
        MeasurePool(1).check(Candidate("denser", "vta-de10", ()))


@pytest.mark.usefixtures("bred_briefly")
def test_a_run_whose_checks_die_says_so(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded, "measure", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    code, out, err = command("tune", SMALL, "--trials", "4", "--jobs", "1", "--log", tmp_path)
    assert code == Exit.NO_SCHEDULE and "bit-equal" not in out and "Traceback" not in err
    # Twice, and not for every schedule of the run.
    assert err.count("its check failed: environment: its process died, 2 times") == 2


@pytest.mark.usefixtures("bred_briefly")
def test_a_check_that_this_machine_ended_withdraws_nothing(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("tune", SMALL, "--trials", "4", "--jobs", "1", "--quiet", "--log", tmp_path)

    def best() -> tuple[int, bool]:
        (found,) = json.loads(command("best", SMALL, "--log", tmp_path, "--format", "json")[1])
        return found["cycles"], found["verified"]

    with monkeypatch.context() as patch:
        patch.setattr(guarded, "measure", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        assert command(*words)[0] == Exit.NO_SCHEDULE
    cycles, verified = best()
    assert not verified and "not yet" in command("best", "--log", tmp_path)[1]
    # Who uses it checks it, and so does the next run.
    assert command("apply", SMALL, "--log", tmp_path)[0] == Exit.OK and best() == (cycles, True)
    assert command(*words)[0] == Exit.OK and best() == (cycles, True)


@pytest.mark.usefixtures("bred_briefly")
def test_a_check_that_is_killed_once_costs_a_retry(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, mark = guarded.measure, tmp_path / "killed"

    def killed_once(*args: Any, **kwargs: Any) -> Any:
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    words = ("tune", SMALL, "--trials", "4", "--jobs", "1", "--sampler", "random", "--format", "json", "--quiet", "--log")
    calm = command(*words, tmp_path / "calm")
    monkeypatch.setattr(guarded, "measure", killed_once)
    code, out, err = command(*words, tmp_path / "hit")
    assert mark.exists() and (code, err) == (Exit.OK, "")
    ends = [json.loads(told.splitlines()[-1]) for told in (calm[1], out)]
    assert ends[1]["verified"] and ends[0]["cycles"] == ends[1]["cycles"] and ends[0]["point"] == ends[1]["point"]


@contextmanager
def broken_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from autosched.search import executors

    monkeypatch.setattr(executors, "ready", _die)
    yield


def _die() -> None:
    import os

    os._exit(1)


@pytest.mark.parametrize(("where", "instead"), in_turn(
    ["io.StringIO()", "None", "open(os.devnull, 'w')", "Cell()"], ("sys.__stderr__", "None")))
def test_who_writes_to_no_file_has_workers(where: str, instead: str, tmp_path: Path) -> None:
    """A notebook's cell has no descriptor, which what reports crashes asks for: every worker ended at its beginning."""
    code = f"""
import io, os, sys
import autosched
class Cell(io.StringIO):
    def fileno(self): return None
sys.stderr, sys.__stderr__ = where, _ = {where}, {instead}
assert autosched.tune({SMALL!r}, trials=4, jobs=2, log={str(tmp_path)!r}).cycles and sys.stderr is where
"""
    # A process of its own: in pytest's, crashes are reported already.
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=10 * MINUTE)


def tuned(log: str, executor: str | None) -> int | str | None:
    """What a worker of somebody else's pool finds, or why not."""
    try:
        return autosched.tune(SMALL, trials=4, jobs=2, log=log, executor=executor).cycles
    except ExecutorError as error:
        return str(error)


@pytest.mark.parametrize("copies", [COPIES, False])
def test_a_daemon_measures_itself(copies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python lets a daemon, as workers of its pools are, have no children; where there are no copies it checks itself, too."""
    monkeypatch.setattr(guarded, "COPIES", copies)
    with multiprocessing.get_context("fork" if COPIES else "spawn").Pool(1) as pool:
        alone, refused = pool.starmap(tuned, [(str(tmp_path / "a"), None), (str(tmp_path / "b"), "loky")])
    assert alone == tuned(str(tmp_path / "c"), None)
    assert isinstance(refused, str) and "serial has none" in refused


def test_workers_that_never_start_are_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "FALSE_STARTS", 1)
    with broken_start(monkeypatch), MeasurePool(2) as pool, pytest.raises(ExecutorError) as raised:
        list(pool.run(candidates(3)))
    assert re.fullmatch(r"2 worker processes ended before they could begin, with (EXIT\(1\)(, )?)+", str(raised.value))


@pytest.mark.skipif(not COPIES, reason="no copies")
@pytest.mark.parametrize("copies", [True, False])
def test_a_kill_can_leave_no_semaphore_of_a_copy_behind(copies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of copies have no name that the library gives, and its tracker is not asked for."""
    semaphores = importlib.import_module("joblib.externals.loky.backend.synchronize").SemLock
    make = semaphores._make_name
    named: list[str] = []

    def counted() -> str:
        name: str = make()
        named.append(name)
        return name

    monkeypatch.setattr(semaphores, "_make_name", staticmethod(counted))
    monkeypatch.setattr(LokyExecutor, "copies", copies)
    with MeasurePool(2) as pool:
        assert [r.ok for r in pool.run(candidates(2))] == [True, True]
    assert bool(named) != copies


def test_one_job_leaves_the_collector_of_garbage_as_it_was() -> None:
    """In this process it looks seldom while candidates are measured, in that of a user's own program as well."""
    tests = gc.get_threshold()
    try:
        for often, *within in ((700, YOUNG, OLDER), (YOUNG, YOUNG, 9), (0, 0, 9)):
            gc.set_threshold(often, 9, 8)
            with MeasurePool(1):
                assert gc.get_threshold() == (*within, 8)
            assert gc.get_threshold() == (often, 9, 8)
    finally:
        gc.set_threshold(*tests)


@pytest.mark.skipif(sys.platform != "linux", reason="asks for what glibc does")
def test_arrays_that_come_and_go_get_no_pages_anew() -> None:
    code = """
import resource, sys
import numpy as np
from autosched.child import keep_memory
if sys.argv[1]:
    keep_memory()
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for megabytes in (1, 2, 4, 8, 16, 24) * 16:
    np.ones(megabytes << 17)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)
"""
    words = [[sys.executable, "-c", code, how] for how in ("", "kept")]
    root = Path(__file__).resolve().parents[2]
    told = [subprocess.run(own, cwd=root, capture_output=True, text=True, check=True).stdout for own in words]
    given, kept = map(int, told)
    assert kept < given / 2 or given == kept  # the second where the library is another


def test_executors_have_names() -> None:
    with pytest.raises(UnknownNameError, match="unknown executor 'lokky'; did you mean 'loky'"):
        MeasurePool(2, "lokky")


def lettered(*traces: str) -> list[Candidate]:
    return [Candidate(SMALL, "vta-de10", tuple(text)) for text in traces]  # type: ignore[arg-type]


def test_what_begins_alike_is_measured_in_one_place() -> None:
    asked = lettered("ab", "b", "ac", "aa", "c", "a")
    assert pool_module.shares(asked, 1) == [(0, 1, 2, 3, 4, 5)]
    assert pool_module.shares(asked, 2) == [(0, 2, 3), (1, 4, 5)]
    assert pool_module.shares(asked, 3) == [(0, 3), (2, 5), (1, 4)]
    assert sorted(k for share in pool_module.shares(asked, 16) for k in share) == [0, 1, 2, 3, 4, 5]
    assert pool_module.shares([], 2) == [(), ()]


class Places:
    """Two places, of which one is as free as the test says; every call has its result at once."""

    places = 2

    def __init__(self, free: list[int]) -> None:
        self.free, self.calls = free, list[tuple[int, tuple[str, ...]]]()

    def slots(self) -> int:
        return 1

    def vacant(self) -> int:
        return self.free[len(self.calls)]

    def submit(self, asked: Sequence[Candidate]) -> Future[Any]:
        self.calls.append((self.vacant(), tuple("".join(map(str, c.trace)) for c in asked)))
        future: Future[Any] = Future()
        future.set_result(Measured(tuple(Result("ok", cycles=len(c.trace)) for c in asked), 0.0))
        return future


def test_a_place_that_has_done_its_share_takes_the_last_of_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = lettered("ab", "b", "ac", "aa", "c", "a")
    with MeasurePool(1) as pool:
        places = Places([0, 1, 0, 0, 0, 0])
        monkeypatch.setattr(pool, "executor", places)
        monkeypatch.setattr(places, "stop", lambda: None, raising=False)
        assert [r.cycles for r in pool.run(asked)] == [2, 1, 2, 2, 1, 1]
    assert [(place, *call) for place, call in places.calls] == [(0, "ab"), (1, "b"), (0, "ac"), (0, "aa"), (0, "a"), (0, "c")]


class Scheduler(Places):
    """Takes its first call back, as one that ends, and is there again or not."""

    def __init__(self, back: bool) -> None:
        super().__init__([0] * 9)
        self.back, self.lost = back, False

    def slots(self) -> int:
        if self.lost and not self.back:
            raise ExecutorError("the scheduler is gone")
        return 1

    def submit(self, asked: Sequence[Candidate]) -> Future[Any]:
        if self.lost:
            return super().submit(asked)
        self.lost = True
        future: Future[Any] = Future()
        future.cancel()
        return future


@pytest.mark.parametrize("back", [True, False])
def test_a_scheduler_that_takes_its_calls_back_is_asked_again_or_missed(back: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = lettered("ab", "b", "abc")
    with MeasurePool(1) as pool:
        monkeypatch.setattr(pool, "executor", scheduler := Scheduler(back))
        monkeypatch.setattr(scheduler, "stop", lambda: None, raising=False)
        if back:
            assert [r.cycles for r in pool.run(asked)] == [2, 1, 3]
        else:
            with pytest.raises(ExecutorError, match="the scheduler is gone"):
                list(pool.run(asked))


def test_what_goes_wrong_without_checks_is_for_the_checks_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that should have been refused ends anywhere; what also ends with all checks is a bug, and no candidate's fault."""
    from autosched.search import worker

    asked: list[bool] = []

    def wrong(candidate: Candidate, check: bool = True) -> Result:
        asked.append(check)
        if check and "legal" in candidate.trace:
            return Result.failed("illegal", "refused")
        raise KeyError(candidate.trace)

    monkeypatch.setattr(worker, "measure", wrong)
    assert worker.one(Candidate("t2", "vta-de10", ("legal",))) == Result.failed("illegal", "refused")
    assert asked == [False, True]
    with pytest.raises(KeyError):
        worker.one(Candidate("t2", "vta-de10", ("broken",)))
