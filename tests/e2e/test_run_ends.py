"""Whatever ends a run, what was acknowledged is in its log; writers that are killed, runs that share a log."""

import errno
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from running import ended, in_a_copy, wait_for

from autosched.cli.exit_codes import Exit
from autosched.measure import Candidate, Result
from autosched.records import Log, Run, TrialRecord
from autosched.search.pool import MeasurePool
from autosched.target import get_target
from autosched.workloads import workload

ROOT = Path(__file__).resolve().parents[2]
SMALL = "dense:m=2,k=64,n=96"
LAYER = "resnet18.c10"
Here = Callable[..., subprocess.CompletedProcess[str]]


def trials_of(log: Path) -> int:
    return sum(p.read_bytes().count(b'{"kind":"trial"') for p in log.glob("*.jsonl"))


def test_a_run_that_is_killed_leaves_its_best(tmp_path: Path, here: Here) -> None:
    with open(os.devnull, "r+") as nothing:
        words = ("tune", LAYER, "--trials", "2000", "--jobs", "1", "--sampler", "random", "--log", tmp_path)
        run = in_a_copy(words, [nothing.fileno()] * 3, ROOT, os.environ)
    try:
        wait_for(lambda: trials_of(tmp_path) >= 5 or ended(run))
    finally:
        os.kill(run, signal.SIGKILL)
        os.waitpid(run, 0)
    assert trials_of(tmp_path) >= 5
    task, target = workload(LAYER), get_target("vta-de10")
    known = Log.open(tmp_path)
    cycles = [r.cycles for r in known.trials(task.key, target.key(), known.bests(task.key, target.key())[0].version).values()]
    (best,) = json.loads(here("best", LAYER, "--log", tmp_path, "--format", "json").stdout)
    assert best["cycles"] <= min(c for c in cycles if c is not None) and best["verified"] is False and best["trace"]
    assert "not yet" in here("best", LAYER, "--log", tmp_path).stdout
    shown = here("apply", LAYER, "--log", tmp_path)
    assert shown.returncode == 0 and "bit-equal" in shown.stdout, shown.stderr
    (after,) = json.loads(here("best", LAYER, "--log", tmp_path, "--format", "json").stdout)
    assert after["verified"] is True and after["cycles"] == best["cycles"]


def write_for_ever(number: int, directory: Path, out: Path) -> None:
    """Appends trials, says of each that it is in the log, and waits to be killed."""
    run = Run("ab" * 32, "cd" * 32, "1.1", "t2", "vta-de10", 3, number)
    with Log(directory, ()).writer(run) as writer, out.open("ab", buffering=0) as said:
        for n in range(1000):
            writer.append(TrialRecord(run, n, (number, n), "ef" * 32, 1 + n, 1, 1))
            said.write(b".")
        signal.pause()


def kill_writers(directory: Path, processes: int, kills: int) -> None:
    """Starts writers, kills them at random moments, starts others in their place; then compares log and acknowledgements."""
    rng = random.Random(0)
    # Forked: a hundred interpreters would take minutes to start, and it is writing that is tested.
    context = multiprocessing.get_context("fork")
    running: dict[int, Any] = {}
    acknowledged: dict[int, Path] = {}

    def start(number: int) -> None:
        acknowledged[number] = directory / f"{number}.out"
        acknowledged[number].touch()
        running[number] = context.Process(target=write_for_ever, args=(number, directory / "log", acknowledged[number]))
        running[number].start()

    try:
        for number in range(processes):
            start(number)
        for kill in range(kills):
            victim = rng.choice(sorted(running))
            waited = time.monotonic()
            while acknowledged[victim].stat().st_size < 500 and time.monotonic() - waited < 240:
                time.sleep(0.01)
            time.sleep(rng.random() * 0.01)
            running[victim].kill()
            running.pop(victim).join()
            if kill + processes < kills:
                start(processes + kill)
    finally:
        for process in running.values():
            process.kill()
            process.join()
    log = Log.open(directory / "log")
    found = log.trials("ab" * 32, "cd" * 32, "1.1")
    said = {(number, n) for number, path in acknowledged.items() for n in range(path.stat().st_size)}
    assert len(said) > 100 * kills
    assert not said - set(found), "an acknowledged line was lost"
    invented = [p for p, r in found.items() if (r.seed, r.trial, r.cycles) != (p[0], p[1], 1 + p[1])]
    assert not invented
    # A line may be in the file that its writer had no time to acknowledge: one per writer.
    assert len(set(found) - said) <= len(acknowledged)
    assert log.damaged <= len(acknowledged)


def test_killed_writers_lose_nothing_that_they_acknowledged(tmp_path: Path) -> None:
    kill_writers(tmp_path, 4, 8)


@pytest.mark.slow
def test_24_writers_and_200_kills(tmp_path: Path) -> None:
    kill_writers(tmp_path, 24, 200)


def test_runs_that_share_a_log_simulate_less_and_try_the_same(tmp_path: Path, here: Here) -> None:
    words = ["tune", SMALL, "--trials", "32", "--jobs", "1", "--sampler", "random", "--cold", "--format", "json", "--log"]
    with (tmp_path / "0").open("w") as one, (tmp_path / "1").open("w") as other, open(os.devnull, "r+") as nothing:
        streams = [[nothing.fileno(), file.fileno(), nothing.fileno()] for file in (one, other)]
        shared = [in_a_copy([*words, tmp_path / "log"], three, ROOT, os.environ) for three in streams]
    assert [os.waitpid(pid, 0)[1] for pid in shared] == [0, 0]
    # The report is the last of the lines.
    reports = [json.loads((tmp_path / name).read_text().splitlines()[-1]) for name in "01"]
    history = json.loads(here(*words, tmp_path / "alone").stdout.splitlines()[-1])["history"]
    assert [r["history"] for r in reports] == [history, history]
    assert all(r["simulated"] + r["from_log"] == 32 for r in reports)
    log = Log.open(tmp_path / "log")
    assert log.damaged == 0 and trials_of(tmp_path / "log") == sum(r["simulated"] for r in reports)


@pytest.mark.usefixtures("brief")
def test_memory_that_does_not_suffice_is_one_line(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Result:
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setattr(MeasurePool, "check", full)
    code, _, err = command("tune", SMALL, "--trials", "2", "--jobs", "1", "--log", tmp_path, "--quiet")
    assert code == Exit.BAD_INPUT and re.fullmatch(
        f"autosched: the memory of this process does not suffice; {SMALL}: 2 of 2 trials, its best so far .*\n", err)


class Disk:
    """A disk that takes so many lines of a log, then half of one, and then is full."""

    def __init__(self, lines: int, patch: pytest.MonkeyPatch) -> None:
        self.lines, self.left = lines, -1
        self.write = os.write
        patch.setattr(os, "write", self.take)

    def take(self, fd: int, data: bytes) -> int:
        if not data.startswith(b'{"kind":') and self.left < 0:
            return self.write(fd, data)
        if self.lines:
            self.lines -= 1
            return self.write(fd, data)
        if self.left < 0:
            self.left = len(data) // 2
            return self.write(fd, data[: self.left])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.usefixtures("brief")
def test_a_disk_that_is_full_ends_a_run_in_one_line_with_its_best(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("tune", SMALL, "--trials", "8", "--jobs", "1", "--sampler", "random", "--quiet", "--log")
    whole = command(*words, tmp_path / "whole")
    assert whole[0] == 0
    (path,) = (tmp_path / "whole").glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    bests = [n for n, line in enumerate(lines) if line["kind"] == "best" and not line["verified"]]
    assert bests[0] == 1 and len(bests) > 1, "nothing better was found: choose another seed"

    def cycles(n: int) -> str:
        return f"{lines[n]['cycles']:,} cycles".replace(",", " ")

    logged = cycles(bests[0]).removesuffix(" cycles")
    for room, said in (
        (0, "nothing was found so far"),  # not even the run's line
        (bests[0], f"its best so far has {cycles(bests[0])}, which is not in the log"),
        (bests[0] + 1, f"its best so far has {cycles(bests[0])}"),  # not its trial's line
        (bests[1], f"its best so far has {cycles(bests[1])}, which is not in the log; one of {logged} is"),
        (bests[1] + 1, f"its best so far has {cycles(bests[1])}"),
    ):
        log = tmp_path / str(room)
        with monkeypatch.context() as patch:
            Disk(room, patch)
            code, out, err = command(*words, log)
        trials = sum(line["kind"] == "trial" for line in lines[:room])
        where = f"cannot write {log}/RUN.jsonl: No space left on device"
        assert (code, out, re.sub(r"/[^/]*\.jsonl", "/RUN.jsonl", err)) == (
            Exit.BAD_INPUT, "", f"autosched: {where}; {SMALL}: {trials} of 8 trials, {said}; the log is {log}\n")
        # What was acknowledged is there, and the half line is not.
        assert (Log.open(log).damaged, trials_of(log)) == (0, trials)
    code, out, err = command(*words, log)
    assert code == 0 and "bit-equal" in out and not err


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("happens", ["removed", "moved", "cut", "nothing"])
def test_a_log_that_goes_while_it_is_written_is_said(
    happens: str, tmp_path: Path, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, check = tmp_path / "log", MeasurePool.check

    def at_last(pool: MeasurePool, candidate: Candidate) -> Result:
        if happens == "removed":
            shutil.rmtree(log)
        if happens == "moved":
            log.rename(tmp_path / "elsewhere")
        if happens == "cut":
            os.truncate(next(log.iterdir()), 40)
        return check(pool, candidate)

    monkeypatch.setattr(MeasurePool, "check", at_last)
    with warnings.catch_warnings():
        # As PYTHONWARNINGS=error has it: a remark is no reason to end.
        warnings.simplefilter("error")
        code, out, err = command("tune", SMALL, "--trials", "2", "--jobs", "1", "--log", log, "--quiet")
    assert code == 0 and "bit-equal" in out
    lost = "was cut while it was written: a part of" if happens == "cut" else "is not there any more:"
    said = f"autosched: {log}/.*jsonl {lost} what this run found is in no log\n"
    assert re.fullmatch("" if happens == "nothing" else said, err)
