"""Signals at any moment of a run: one line, the right exit code, and nothing left behind."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from running import MINUTES, ended, in_a_copy, wait_for

ROOT = Path(__file__).resolve().parents[2]
Command = Callable[..., tuple[int, str, str]]
NAME = "t3"  # thousands of trials are no end of it
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes through /proc")


def start(log: Path) -> subprocess.Popen[str]:
    # The sampler that needs least before the first trial: it is no part of what is tested.
    command = [sys.executable, "-m", "autosched", "tune", NAME, "--trials", "4000", "--jobs", "2", "--sampler", "random", "--log",
               str(log)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: [signal.signal(s, signal.SIG_DFL) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
    )


def group(session: int) -> set[int]:
    """Living processes of a session: the command and its workers."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.add(int(path.parent.name))
    return found


def trials(log: Path) -> int:
    return sum(path.read_text().count('"kind":"trial"') for path in log.glob("*.jsonl"))


def shared(pid: int) -> list[str]:
    return [p.name for p in Path("/dev/shm").iterdir() if f"-{pid}-" in p.name]


def nothing_is_left(process: subprocess.Popen[str]) -> None:
    wait_for(lambda: not group(process.pid))
    assert not shared(process.pid)


MOMENTS: dict[str, Callable[[subprocess.Popen[str], Path], Any]] = {
    "the first worker starts": lambda p, log: len(group(p.pid)) > 1,
    "all workers start": lambda p, log: len(group(p.pid)) > 2,
    "trials are known": lambda p, log: trials(log) > 4,
}


# Twice is the harder one while workers start; the long run has them all.
@pytest.mark.parametrize(("moment", "times"), [
    *((moment, 2) for moment in MOMENTS), ("trials are known", 1),
    *(pytest.param(moment, 1, marks=pytest.mark.slow) for moment in list(MOMENTS)[:2]),
])
def test_ctrl_c_is_one_line(moment: str, times: int, tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_for(lambda: MOMENTS[moment](process, tmp_path))
    for _ in range(times):
        # A terminal sends it to the whole group.
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.1 if times > 1 else 0)
    out, err = process.communicate(timeout=MINUTES)
    assert process.returncode == 130, err
    last = err.strip().splitlines()
    assert last[-1].startswith("autosched: interrupted"), err
    assert "Traceback" not in err and "Exception" not in err and not out, err
    # On a machine without kernels, what is waited for is said before.
    assert sum(line.startswith("autosched:") and "compiling kernels" not in line for line in last) == 1, err
    if moment == "trials are known":
        assert "its best so far has" in last[-1] and f"the log is {tmp_path}" in last[-1], err
    nothing_is_left(process)


def ends_in_order(process: subprocess.Popen[str], number: signal.Signals, log: Path, command: Command) -> None:
    """A signal other than that of Ctrl-C: one line, nothing left, and the best so far in the log."""
    process.send_signal(number)
    _, err = process.communicate(timeout=MINUTES)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err and f"autosched: ended by {number.name}; {NAME}: " in err.splitlines()[-1]
    nothing_is_left(process)
    (found,) = json.loads(command("best", NAME, "--log", log, "--format", "json")[1])
    assert found["cycles"] and not found["verified"]


def test_a_hangup_ends_it_in_order_too(tmp_path: Path, command: Command) -> None:
    process = start(tmp_path)
    wait_for(lambda: trials(tmp_path) > 4)
    ends_in_order(process, signal.SIGHUP, tmp_path, command)


def test_workers_ignore_ctrl_c_and_end_with_the_command(tmp_path: Path, command: Command) -> None:
    process = start(tmp_path)
    wait_for(lambda: trials(tmp_path) > 4)
    workers = group(process.pid) - {process.pid}
    assert len(workers) == 2
    for pid in workers:
        ignored = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn"))
        assert int(ignored.split()[1], 16) & 1 << signal.SIGINT - 1
        os.kill(pid, signal.SIGINT)
    before = trials(tmp_path)
    wait_for(lambda: trials(tmp_path) > before + 40)
    assert group(process.pid) - {process.pid} == workers
    ends_in_order(process, signal.SIGTERM, tmp_path, command)


EARLY = """
import sys
import autosched.child
from autosched.cli import main
moment = sys.argv[1]
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            raise KeyboardInterrupt
def interrupted():
    raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
if moment == "begin":
    autosched.child.keep_memory = interrupted
sys.argv[1:] = ["list", "targets"]
sys.exit(main())
"""


@pytest.mark.parametrize("moment", ["autosched.cli.commands", "autosched.cli.interrupts", "begin", "nothing"])
def test_ctrl_c_is_one_line_while_the_command_is_loaded(moment: str) -> None:
    done = subprocess.run([sys.executable, "-c", EARLY, moment], cwd=ROOT, capture_output=True, text=True)
    if moment == "nothing":
        assert (done.returncode, done.stderr) == (0, "") and "vta-de10" in done.stdout
    else:
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "autosched: interrupted\n")


@pytest.mark.parametrize(("words", "kept"), [(("tune",), True), (("oracle", "--simulations", "1"), False)], ids=["tune", "other"])
def test_a_log_is_named_where_it_is_kept(
    words: tuple[str, ...], kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """The runs of an oracle have a log that is gone with them."""
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("autosched.search.tuner._Run._loop", interrupted)
    code, out, err = command(words[0], "dense:m=1,k=16,n=16,bias=0", *words[1:], "--trials", "4", "--jobs", "1")
    assert (code, out) == (130, "") and "0 of 4 trials, nothing was found so far" in err
    assert err.endswith(f"; the log is {Path('tuning_logs') / 'runs'}\n") is kept and ("log is" in err) is kept


@pytest.mark.parametrize("moment", list(MOMENTS)[1:])
def test_a_killed_command_leaves_no_process_and_no_shared_memory(moment: str, tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_for(lambda: MOMENTS[moment](process, tmp_path))
    process.kill()
    _, err = process.communicate(timeout=MINUTES)
    # Who cleans up says nothing of it.
    assert not [line for line in err.splitlines() if not line.startswith((NAME, "autosched:"))], err
    nothing_is_left(process)


KILLED_AT_A_SEMAPHORE = """
import importlib, os, signal, sys
from autosched.search.executors import LokyExecutor
library = importlib.import_module("joblib.externals.loky.backend.synchronize")
Real, left = library._SemLock, int(sys.argv[1])
def fatal(*words):
    global left
    made, left = Real(*words), left - 1
    if not left:
        print(*os.listdir("/dev/shm"), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return made
library._SemLock = fatal
LokyExecutor.copies = False
LokyExecutor(2).start()
"""
COPIES = """
import os
from autosched.search.executors import LokyExecutor
workers = LokyExecutor(2)
workers.start()
print(*os.listdir("/dev/shm"), flush=True)
workers.stop()
"""


# The first and the last; those of queues in between are for the long run.
@pytest.mark.parametrize("number", [1, 8, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 7))])
def test_killed_between_the_making_of_a_semaphore_and_its_being_known_it_leaves_none(number: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED_AT_A_SEMAPHORE, str(number)], cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    out, err = process.communicate(timeout=MINUTES)
    assert (process.returncode, err) == (-signal.SIGKILL, "")
    assert sum(f"-{process.pid}-" in name for name in out.split()) == number
    nothing_is_left(process)


def test_what_copies_share_has_no_name() -> None:
    process = subprocess.Popen([sys.executable, "-c", COPIES], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    out, err = process.communicate(timeout=MINUTES)
    assert (process.returncode, err) == (0, "") and f"-{process.pid}-" not in out


def test_a_run_that_is_to_ignore_hangups_does(tmp_path: Path) -> None:
    words = ["tune", "t2", "--trials", "24", "--jobs", "1", "--sampler", "random", "--log", tmp_path]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with (tmp_path / "said").open("w") as said, open(os.devnull) as nothing:
            run = in_a_copy(words, [nothing.fileno(), said.fileno(), said.fileno()], ROOT, os.environ)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_for(lambda: trials(tmp_path) > 0 or ended(run))
    os.kill(run, signal.SIGHUP)
    assert os.waitpid(run, 0)[1] == 0 and "24/24 trials" in (tmp_path / "said").read_text()


def test_an_interrupt_that_a_library_made_an_error_of_its_own_is_still_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def swallowing(*_: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            # As np.unique does when it is interrupted while it compares structured types.
            raise TypeError("cannot compare structured arrays") from None

    def broken(*_: object) -> None:
        raise TypeError("cannot compare structured arrays")

    run = ("tune", "t2", "--trials", "4", "--jobs", "1", "--log", tmp_path, "--quiet")
    monkeypatch.setattr("autosched.search.tuner._Run._ask", swallowing)
    code, out, err = command(*run)
    assert (code, out) == (143, "")
    assert err == f"autosched: ended by SIGTERM; t2: 0 of 4 trials, nothing was found so far; the log is {tmp_path}\n"
    monkeypatch.setattr("autosched.search.tuner._Run._ask", broken)
    with pytest.raises(TypeError) as caught:
        command(*run)
    assert f"the log is {tmp_path}" in caught.value.__notes__[0] and "bug of autosched" in caught.value.__notes__[1]


def test_the_library_names_its_semaphores_as_before_once_workers_have_started(monkeypatch: pytest.MonkeyPatch) -> None:
    from joblib.externals.loky.backend import resource_tracker

    from autosched.search.executors import _semaphores_are_known_before_they_are

    semaphores = importlib.import_module("joblib.externals.loky.backend.synchronize").SemLock
    told: list[str] = []
    monkeypatch.setattr(resource_tracker, "register", lambda name, kind: told.append(name))
    before = semaphores._make_name
    with _semaphores_are_known_before_they_are():
        name = semaphores._make_name()
        assert told == [name]
    assert semaphores._make_name is before and semaphores._make_name() and told == [name]
    # A version that names them elsewhere runs all the same.
    monkeypatch.delattr(semaphores, "_make_name")
    with _semaphores_are_known_before_they_are():
        assert not hasattr(semaphores, "_make_name")
