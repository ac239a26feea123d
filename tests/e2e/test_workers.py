"""Workers that die, hang or swallow memory under the real command: what the run loses by it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from running import MINUTES, lines, trials, wait_for

from autosched.search import tune

ROOT = Path(__file__).resolve().parents[2]


def command(*args: str | Path) -> list[str]:
    return [sys.executable, "-m", "autosched", *map(str, args)]


def run(*args: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*args), cwd=ROOT, capture_output=True, text=True, timeout=MINUTES, check=False,
                          env={**os.environ, **(env or {})})


def children(pid: int) -> list[int]:
    """Worker processes of a process, which are copies of it."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        own = Path(f"/proc/{pid}/cmdline").read_bytes()
        return [int(p) for p in found if Path(f"/proc/{p}/cmdline").read_bytes() == own]
    except (FileNotFoundError, ProcessLookupError):
        return []


linux = pytest.mark.skipif(sys.platform != "linux", reason="finds workers through /proc")


@linux
def test_killed_workers_cost_nothing(tmp_path: Path, here: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    # A sampler that hears the results in order and needs no first population.
    args = ("tune", "t3", "--trials", "28", "--seed", "3", "--cold", "--sampler", "tpe")
    assert here(*args, "--jobs", "1", "--log", tmp_path / "calm").returncode == 0
    process = subprocess.Popen(command(*args, "--jobs", "2", "--log", tmp_path / "hit"), cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    killed: set[int] = set()
    for seen in (1, 10):
        wait_for(lambda seen=seen: process.poll() is not None or len(trials(tmp_path / "hit")) >= seen)
        fresh = wait_for(lambda: process.poll() is not None or [p for p in children(process.pid) if p not in killed])
        assert process.poll() is None, process.communicate()[1]
        killed.add(fresh[0])
        os.kill(fresh[0], signal.SIGKILL)
    out, err = process.communicate(timeout=MINUTES)
    assert process.returncode == 0 and "Traceback" not in err, err
    assert "bit-equal" in out
    assert trials(tmp_path / "hit") == trials(tmp_path / "calm")
    best = [[line for line in lines(tmp_path / d) if line.get("kind") == "best"][-1] for d in ("calm", "hit")]
    assert best[0]["cycles"] == best[1]["cycles"] and best[1]["verified"]


SABOTAGE = '''
import os, signal, sys, time
import autosched.search.worker as worker

real, count = worker.measure, os.environ["SABOTAGE_COUNT"]


def measure(candidate, *args, **kwargs):
    # The third point of the run, wherever and whenever it is measured.
    if str(candidate.trace) == open(os.environ["SABOTAGE_TRACE"]).read():
        with open(count, "a") as file:
            file.write("x")
        ACTION
    return real(candidate, *args, **kwargs)


worker.measure = measure
'''
ACTIONS = {
    "kill": ("os.kill(os.getpid(), signal.SIGKILL)", "its worker process died, 2 times", 2),
    "memory": ("hoard = bytearray(1 << 45)", "the worker's memory did not suffice", 1),
}


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("calm")
    tune("t2", trials=12, jobs=1, log=log, sampler="random")
    return log


def third_trace(log: Path) -> str:
    import numpy as np

    from autosched.target import get_target
    from autosched.workloads import workload
    from space import Space

    space = Space(workload("t2").func, get_target("vta-de10"))
    return str(tuple(space.trace(np.array(trials(log)[2][0], dtype=np.int32)).as_json()))


@pytest.mark.parametrize("what", ACTIONS)
def test_a_candidate_that_harms_its_worker_costs_itself_only(
    what: str, calm: Path, tmp_path: Path, here: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    action, reason, tries = ACTIONS[what]
    (tmp_path / "sitecustomize.py").write_text(SABOTAGE.replace("ACTION", action))
    (tmp_path / "trace").write_text(third_trace(calm))
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "SABOTAGE_TRACE": str(tmp_path / "trace"),
           "SABOTAGE_COUNT": str(tmp_path / "count")}
    args = ("tune", "t2", "--trials", "12", "--sampler", "random", "--jobs", "2", "--log", tmp_path / "log")
    done = run(*args, env=env)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert "failed candidates: 1 environment" in done.stdout
    assert "another run may have another list of trials" in done.stdout
    assert (tmp_path / "count").read_text() == "x" * tries
    got = trials(tmp_path / "log")
    assert len(got) == 12 and got[2][1:] == (None, "environment")
    assert [t for t in lines(tmp_path / "log") if t.get("kind") == "trial"][2]["reason"] == reason
    # One batch, chosen before anything was known: the other trials are those of the calm run.
    assert got[:2] + got[3:] == trials(calm)[:2] + trials(calm)[3:]
    # What the machine failed at is asked again; the rest comes from the log.
    again = here(*args, "--jobs", "1", "--format", "json", "--cold")
    report = json.loads(again.stdout.splitlines()[-1])
    assert report["simulated"] == 1 and report["from_log"] == 11 and not report["failed"], again.stderr
