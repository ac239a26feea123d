"""What a command loads before it does anything."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from running import MINUTES, wait_for

from autosched.cli.exit_codes import Exit
from autosched.search.executors import LokyExecutor

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "numpy", "numba", "llvmlite", "optuna", "xgboost", "joblib", "rich", "distributed", "autosched.ir", "space",
    "multiprocessing",
}
# What numba loads for kernels that are not ours, and for compiling.
OTHERS = {"scipy.linalg", "coverage.control", "numba.np.linalg", "numba.cpython.setobj"}


def loaded(*args: str) -> tuple[set[str], subprocess.CompletedProcess[str]]:
    """The modules that a command imported, by the interpreter's own account, and what it printed."""
    command = [sys.executable, "-m", "autosched", *args]
    told = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}  # workers tell as well
    done = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, timeout=300, check=False)
    return set(re.findall(r"^import time:.*\|\s+([\w.]+)$", done.stderr, re.MULTILINE)), done


@pytest.mark.parametrize("args", [("--help",), ("--version",), ("nonsense",), ()], ids=" ".join)
def test_nothing_heavy_is_loaded_to_say_what_there_is(args: tuple[str, ...]) -> None:
    modules, done = loaded(*args)
    assert done.returncode == (0 if args and args[0].startswith("--") else 2)
    assert "autosched.cli" in modules
    assert not modules & HEAVY


def test_a_command_loads_what_it_needs() -> None:
    words = ("sim", "tests/data/rtl_cycles.json", "--only", "unit000")
    loaded(*words)  # kernels are compiled here, if they are not yet
    modules, done = loaded(*words)
    assert {"numpy", "numba"} <= modules, done.stderr[-500:]
    assert not modules & {"optuna", "xgboost", "joblib", "space", *OTHERS}


@pytest.mark.parametrize(("args", "closed", "code"), [
    ("best t2", ">&-", 0), ("best nonsense", "2>&-", 2), ("best t2", "2>&-", 0),
])
def test_a_stream_that_is_closed_takes_nothing(args: str, closed: str, code: int) -> None:
    command = f'"{sys.executable}" -m autosched {args} {closed}'
    done = subprocess.run(["/bin/sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    # What belongs to one stream does not go to the other.
    assert bool(done.stdout) == (code == 0 and closed == "2>&-") and not done.stderr


@contextmanager
def nowhere(how: str) -> Iterator[int]:
    """A descriptor that takes nothing: a pipe whose reader has gone, or a device that is full."""
    if how == "full":
        fd = os.open("/dev/full", os.O_WRONLY)
    else:
        gone, fd = os.pipe()
        os.close(gone)
    try:
        yield fd
    finally:
        os.close(fd)


def unheard(args: str, stream: str, how: str, unbuffered: bool = False) -> tuple[int, str]:
    """The exit code of a command one of whose streams takes nothing, and what came out of the other."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    with nowhere(how) as fd:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: fd}
        command = [sys.executable, "-m", "autosched", *args.split()]
        done = subprocess.run(command, cwd=ROOT, env=env, text=True, check=False, **streams)
    return done.returncode, done.stdout or done.stderr or ""


# Short texts wait in a buffer until the command ends, long ones do not; tables are printed by a library.
@pytest.mark.parametrize("args", ["--version", "list targets", "list workloads --format json"])
def test_a_reader_that_has_gone_ends_a_command_in_silence(args: str) -> None:
    assert unheard(args, "stdout", "gone") == (0, "")


def test_nor_does_it_matter_whether_python_buffers() -> None:
    assert unheard("list targets", "stdout", "gone", unbuffered=True) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_output_that_finds_no_room_is_one_line() -> None:
    full = (2, "autosched: standard output: No space left on device\n")
    assert unheard("--version", "stdout", "full") == full
    assert unheard("list targets", "stdout", "full") == full
    for args in ("--version", "tune --help", "help tune", "list targets"):
        assert unheard(args, "stdout", "full", unbuffered=True) == full, args
    # The reason that a command has failed goes before what became of its output.
    code, told = unheard("best nonsense", "stdout", "full")
    assert code == 2 and told.count("\n") == 1 and "nonsense" in told


@pytest.mark.parametrize("how", ["gone", "full"])
def test_remarks_that_nobody_takes_end_no_run(how: str, tmp_path: Path) -> None:
    if how == "full" and not Path("/dev/full").exists():
        pytest.skip("no device that is full")
    code, told = unheard(f"tune t1 --trials 2 --jobs 1 --sampler random --log {tmp_path} --format json", "stderr", how)
    assert code == 0 and json.loads(told.splitlines()[-1])["event"] == "finished", told


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system what a process waits for")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_who_reads_no_more_is_not_waited_for_when_a_command_is_ended(unbuffered: str) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write, bytes(1 << 12))
    os.set_blocking(write, True)
    command, env = [sys.executable, "-m", "autosched", "list", "targets"], {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, env=env) as process:
        try:
            where = Path(f"/proc/{process.pid}/syscall")
            # The first number is the call, the second its descriptor in hexadecimal: it writes to standard output, and waits.
            wait_for(lambda: process.poll() is not None or where.read_text().split()[1:2] == ["0x1"])
            assert process.poll() is None
            process.terminate()
            assert process.wait(MINUTES) == Exit.TERMINATED
            assert process.stderr is not None and process.stderr.read() == b"autosched: ended by SIGTERM\n"
        finally:
            process.kill()
            os.close(read)
            os.close(write)


def test_nor_does_its_worker(tmp_path: Path) -> None:
    words = ("tune", "t1", "--trials", "2", "--jobs", "1", "--executor", "loky", "--sampler", "random", "--log", str(tmp_path))
    loaded(*words[:-1], str(tmp_path / "first"))  # as above
    modules, done = loaded(*words)
    assert done.returncode == 0, done.stderr[-500:]
    told = re.findall(r"^import time:.*\|\s+autosched.measure.measure$", done.stderr, re.MULTILINE)
    # A copy has loaded what its original has.
    assert len(told) == (1 if LokyExecutor.copies else 2) and not modules & OTHERS


def test_a_program_that_uses_the_package_keeps_its_own_numba() -> None:
    """What numba has for kernels of others is hidden from ours alone, and only while numba loads."""
    code = """
import sys
if sys.argv[1] == "ours":
    from sim.own import claim
    claim()
from sim import timing
timing.warm()
assert ("coverage.control" in sys.modules) == (sys.argv[1] != "ours")
import coverage, numba, numpy as np
product = numba.njit(lambda a, b: np.linalg.inv(a) @ b)
assert np.allclose(product(2.0 * np.eye(3), np.ones((3, 3))), 0.5)
"""
    run_as_both(code)


def test_and_its_own_xgboost() -> None:
    code = """
import sys
if sys.argv[1] == "ours":
    from sim.own import claim
    claim()
import numpy as np
from autosched.search.cost_model import CostModel
model, points = CostModel(), np.arange(32, dtype=np.float32)[:, None]
drafts = np.full(32, 100.0)
model.fit(points, drafts, drafts + points[:, 0])
assert 120 < model.predict(points[-1:], drafts[-1:])[0] < 140
import xgboost
for unused in ("xgboost.sklearn", "scipy.special"):
    assert (unused in sys.modules) == (sys.argv[1] != "ours"), unused
assert hasattr(xgboost, "XGBModel") == (sys.argv[1] != "ours")
"""
    run_as_both(code)


def run_as_both(code: str) -> None:
    """Runs a program in a process of ours, and in one of somebody who uses the package; it is told which."""
    for whose in ("ours", "theirs"):
        words = [sys.executable, "-c", code, whose]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-500:]


def test_help_lists_every_command_and_each_has_its_own(here: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    names = re.findall(r"^    (\w+)  ", here("--help").stdout, re.MULTILINE)
    assert {"tune", "best", "show", "apply", "export", "sim", "space"} <= set(names)
    for name in names:
        own = here(name, "--help")
        assert own.returncode == 0 and own.stdout.startswith(f"usage: autosched {name} "), own.stderr[-500:]
