"""The same run on a cluster: a scheduler and two workers, one of them killed on the way."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from running import MINUTES, trials, wait_for

from autosched.errors import ExecutorError
from autosched.search.dask_executor import STARTS, DaskExecutor, _no_lost_connection

pytest.importorskip("distributed")

ROOT = Path(__file__).resolve().parents[2]
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


def spawn(*args: str, cwd: Path) -> subprocess.Popen[str]:
    with (cwd / "output.txt").open("a") as output:
        return subprocess.Popen([sys.executable, "-m", *args], cwd=cwd, env=ENV, stdout=output, stderr=output, text=True)


Cluster = tuple[str, subprocess.Popen[str], list[subprocess.Popen[str]]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler's address, itself, and its two workers: without nannies, so that a killed one stays away."""
    home = tmp_path / "cluster"
    home.mkdir()
    scheduler = spawn("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                      "--scheduler-file", str(home / "scheduler.json"), cwd=home)
    processes = [scheduler]
    try:
        wait_for(lambda: (home / "scheduler.json").exists() and (home / "scheduler.json").stat().st_size)
        workers = [
            spawn("distributed.cli.dask_worker", "--scheduler-file", str(home / "scheduler.json"), "--nthreads", "1",
                  "--no-nanny", "--no-dashboard", "--local-directory", str(home), cwd=home)
            for _ in range(2)
        ]
        processes += workers
        yield json.loads((home / "scheduler.json").read_text())["address"], scheduler, workers
    finally:
        for process in processes:
            process.kill()
            process.wait()


Here = Callable[..., subprocess.CompletedProcess[str]]
TUNE = ("tune", "t3", "--trials", "24", "--cold", "--sampler", "random")


def test_a_cluster_gives_the_trials_of_one_process_and_a_killed_worker_costs_nothing(
    cluster: Cluster, tmp_path: Path, here: Here
) -> None:
    address, _, workers = cluster
    calm = here(*TUNE, "--executor", "serial", "--log", tmp_path / "calm")
    assert calm.returncode == 0, calm.stderr
    words = [sys.executable, "-m", "autosched", *TUNE]
    process = subprocess.Popen([*words, "--scheduler", address, "--log", str(tmp_path / "hit")], cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    wait_for(lambda: process.poll() is not None or len(trials(tmp_path / "hit")) > 4)
    workers[0].send_signal(signal.SIGKILL)
    out, err = process.communicate(timeout=MINUTES)
    assert process.returncode == 0 and "Traceback" not in err, err
    assert "bit-equal" in out and "distributed" not in err, err
    assert len(trials(tmp_path / "hit")) == 24 and trials(tmp_path / "hit") == trials(tmp_path / "calm")
    # Both took part: the run would be over before a worker joined otherwise.
    assert workers[0].wait() == -signal.SIGKILL and workers[1].poll() is None


def test_a_scheduler_that_ends_is_one_line(cluster: Cluster, tmp_path: Path) -> None:
    address, scheduler, _ = cluster
    words = [sys.executable, "-m", "autosched", "tune", "t3", "--trials", "4000", "--cold", "--sampler", "random", "--quiet"]
    process = subprocess.Popen([*words, "--scheduler", address, "--log", str(tmp_path / "log")], cwd=ROOT,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: process.poll() is not None or len(trials(tmp_path / "log")) > 4)
    scheduler.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=MINUTES)
    assert process.returncode == 2 and f"the Dask scheduler {address} is gone" in err, err
    assert "Traceback" not in err and "this is a bug" not in err


def test_the_end_of_a_connection_is_told_once() -> None:
    from distributed.comm.core import CommClosedError

    for error, told in ((CommClosedError("reset by peer"), False), (OSError("reset by peer"), True), (None, True)):
        info = None if error is None else (type(error), error, None)
        assert _no_lost_connection(logging.makeLogRecord({"exc_info": info})) == told


def test_a_cluster_of_ones_own_needs_no_address(tmp_path: Path, here: Here) -> None:
    args = ["tune", "t2", "--trials", "8", "--sampler", "random", "--log"]
    dask = [sys.executable, "-m", "autosched", *args, str(tmp_path / "dask"), "--executor", "dask", "--jobs", "1"]
    done = subprocess.run(dask, cwd=ROOT, capture_output=True, text=True, timeout=MINUTES, check=False)
    assert done.returncode == 0 and "distributed" not in done.stderr, done.stderr
    assert here(*args, tmp_path / "serial", "--executor", "serial").returncode == 0
    assert trials(tmp_path / "dask") == trials(tmp_path / "serial")


def test_a_worker_of_ones_own_cluster_may_be_killed_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = DaskExecutor(2)
    started: list[dict[str, object]] = []
    whole = executor._dask.LocalCluster

    def cluster(**options: object) -> object:
        started.append(options)
        if len(started) < STARTS:
            raise RuntimeError("Nanny failed to start.")
        return whole(**{**options, "n_workers": 0})

    monkeypatch.setattr(executor._dask, "LocalCluster", cluster)
    try:
        executor.start()
        assert len(started) == STARTS and executor.slots() == 0
    finally:
        executor.stop()
    started.clear()
    monkeypatch.setattr("autosched.search.dask_executor.STARTS", 1)
    with pytest.raises(ExecutorError, match="at this machine: its workers do not start: Nanny failed to start"):
        executor.start()


@pytest.mark.parametrize(("more", "said"), [
    (["--scheduler", "nonsense"], "no Dask scheduler answers at nonsense: missing port number"),
    (["--scheduler", "host:bad"], "no Dask scheduler answers at host:bad: 'bad' is no port, as the 8786 of tcp://host:8786"),
    (["--scheduler", "tcp://host:65536"], "no Dask scheduler answers at tcp://host:65536: '65536' is no port"),
    (["--scheduler", "tcp://127.0.0.1:1"], "no Dask scheduler answers at tcp://127.0.0.1:1"),
    (["--scheduler", "nonsense://x"], "no Dask scheduler answers at nonsense://x"),
    (["--executor", "loky", "--scheduler", "tcp://127.0.0.1:1"], "--scheduler is for --executor dask"),
    (["--executor", "dusk"], "unknown executor 'dusk'; did you mean 'dask'"),
])
def test_what_is_no_cluster_is_one_line(
    more: list[str], said: str, tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.search.dask_executor.CONNECT_SECONDS", 0.5)
    done = here(*TUNE, *more, "--log", tmp_path)
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
