"""The log: round trips, both formats, torn tails, damaged and merged lines, fields that cannot be, writers at once."""

import json
import os
import re
import sys
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.errors import RecordError
from autosched.records import BestRecord, Log, ProgramRecord, Run, TrialRecord, history, reading
from autosched.records.line import TRIAL_BYTES, best_line, head_of, open_line, program_line, record_of, run_line, seal, trial_line
from autosched.records.writer import locked

DATA = Path(__file__).resolve().parents[1] / "data"
W, H, P = "ab" * 32, "cd" * 32, "ef" * 32
RUN = Run(W, H, "1.1", "resnet18.c8", "vta-de10", 3, 0, "run", "here", 470_000, 460_000, {"trials": 64}, {"numpy": "2.0"})
TRIAL = TrialRecord(RUN, 7, (1, 4, 14, 14, 1, 3, 3, 0, 2, 2, 0, 2, 1, 1, 0, 1), P, 473_000, 470_400, 474_100)
BEST = BestRecord(RUN, 7, TRIAL.point, P, 473_000, 470_400, 460_000,
                  ({"op": "split", "in": {"loop": "l0"}, "args": {"factors": [None, 4]}, "out": ["l1", "l2"]},), True)
PROGRAM = ProgramRecord(W, "kernels.py:f", "x = 1\n")
HEAD = head_of(run_line(RUN))


def write(directory: Path, *records: TrialRecord | BestRecord | ProgramRecord, run: Run = RUN) -> Path:
    with Log.open(directory).writer(run) as writer:
        for record in records:
            writer.append(record)
    return writer.path


def known(log: Log, version: str = "1.1", space: int | None = None) -> dict[tuple[int, ...], TrialRecord]:
    return log.trials(W, H, version, space)


def read(line: str) -> object:
    return record_of(open_line(line.rstrip("\n").encode()), {HEAD: RUN})


FAILED = replace(TRIAL, cycles=None, program=None, status="lowering", reason='a "b" \n c')


def test_lines_round_trip() -> None:
    for record in (TRIAL, FAILED, replace(FAILED, program=P)):
        line = trial_line(record, HEAD)
        assert line.count("\n") == 1 and read(line) == record
    timed = read(trial_line(replace(TRIAL, ms=1234), HEAD))
    # What a run took is told, and makes no other trial.
    assert isinstance(timed, TrialRecord) and timed.ms == 1234 and timed == TRIAL
    bare = replace(RUN, space_bound=None, machine_bound=None, asked={}, libraries={})
    for best in (BEST, replace(BEST, verified=False, reason="mismatch"), replace(BEST, machine_bound=None, point=())):
        assert read(best_line(best, HEAD)) == replace(best, of=bare)
    assert read(run_line(RUN)) == RUN
    assert read(program_line(PROGRAM)) == PROGRAM


@pytest.mark.parametrize("reason", ["", "x" * 10_000, '"\\\n' * 3000, "\U0001f600" * 3000])
def test_a_trial_of_64_columns_takes_600_bytes(reason: str) -> None:
    most = 999_999_999
    record = replace(TRIAL, point=tuple(range(9936, 10_000)), trial=9999, cycles=most, bound=most, draft=most, ms=most)
    if reason:
        record = replace(record, cycles=None, status="environment", reason=reason)
    line = trial_line(record, HEAD)
    assert len(line.encode()) <= TRIAL_BYTES == 600
    back = read(line)
    assert isinstance(back, TrialRecord) and back.point == record.point
    assert reason.startswith(back.reason) and bool(back.reason) == bool(reason)
    # No more is cut than must be.
    assert not reason or len(line) > TRIAL_BYTES - 13


def test_a_name_that_is_no_utf_8_is_written_as_it_can_be_read(tmp_path: Path) -> None:
    write(tmp_path, replace(FAILED, reason="\udcff" * 10_000), replace(BEST, point=()), run=replace(RUN, target="\udcffx"))
    log = Log.open(tmp_path)
    assert log.damage == [] and {t.target for t in log.all_trials()} == {"\\udcffx"} and len(log.bests(W, H)) == 1
    assert max(len(line) for line in next(tmp_path.iterdir()).read_text().splitlines() if '"kind":"trial"' in line) <= TRIAL_BYTES


def test_what_holds_for_a_run_stands_once(tmp_path: Path) -> None:
    lines = write(tmp_path, TRIAL, replace(TRIAL, trial=8)).read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["run", "trial", "trial"]
    for name in ("workload", "hardware", "version", "target", "seed", "libraries", "host"):
        assert name in json.loads(lines[0]) and name not in json.loads(lines[1])


def test_the_name_of_a_run_tells_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "odd name.example.org")
    path = write(tmp_path, TRIAL)
    stamp, host, pid, number = path.stem.replace("odd-name", "odd_name").split("-")
    assert (host, pid, number) == ("odd_name", str(os.getpid()), "0") and len(stamp) == 15
    assert next(iter(known(Log.open(tmp_path)).values())).run == path.stem


def test_log_reads_what_was_written(tmp_path: Path) -> None:
    write(tmp_path, TRIAL, BEST)
    write(tmp_path, replace(TRIAL, point=(1, 2)), replace(BEST, cycles=472_000, program="a" * 64))
    log = Log.open(tmp_path)
    assert log.damaged == 0
    assert set(known(log)) == {TRIAL.point, (1, 2)}
    best = log.best(W, H, "1.1")
    assert best is not None and best.cycles == 472_000 and best.name == "resnet18.c8"
    assert log.best("e" * 64, H) is None and log.best(W, H, "0.9") is None
    assert log.tasks() == [("resnet18.c8", W, H)]


def test_a_program_without_a_name_is_kept_as_text(tmp_path: Path) -> None:
    write(tmp_path, PROGRAM, BEST)
    assert Log.open(tmp_path).programs == {W: PROGRAM}


# -- which is best ------------------------------------------------------------------------------------------------------


def test_checked_comes_before_unchecked_and_failed_never(tmp_path: Path) -> None:
    other = replace(BEST, program="a" * 64)
    write(tmp_path, replace(BEST, verified=False), other)
    best = Log.open(tmp_path).best(W, H)
    assert best is not None and best.verified and best.program == "a" * 64
    write(tmp_path, replace(BEST, cycles=1000, program="b" * 64, verified=False))
    fewer = Log.open(tmp_path).best(W, H)
    assert fewer is not None and fewer.cycles == 1000 and not fewer.verified
    write(tmp_path, replace(fewer, reason="mismatch: 3 of 16 elements differ"))
    assert Log.open(tmp_path).best(W, H) == best


def test_what_is_withdrawn_is_what_was_said_of_that_schedule(tmp_path: Path) -> None:
    withdrawn = replace(BEST, verified=False, reason="mismatch")
    other = replace(BEST, trace=({**BEST.trace[0], "args": {"factors": [4, None]}},))
    write(tmp_path, BEST, other)
    assert len(Log.open(tmp_path).bests(W, H)) == 2
    write(tmp_path, withdrawn)
    assert [b.trace for b in Log.open(tmp_path).bests(W, H)] == [other.trace]
    # The same trace with its true cycles is another thing to say.
    write(tmp_path, replace(BEST, cycles=BEST.cycles + 1))
    assert [b.cycles for b in Log.open(tmp_path).bests(W, H)] == [BEST.cycles, BEST.cycles + 1]


@pytest.mark.parametrize(("version", "began", "verified", "offered"), [
    ("1.10", "20260101T000000-there-9-0", True, True),  # a newer version
    ("1.10", "20260101T000000-there-9-0", False, False),  # which has not looked
    ("1.9", "20260301T000000-here-3-0", True, True),  # a later run
    ("1.9", "20260202T000000-here-3-10", True, True),  # of the same second
    ("1.9", "20260202T000000-here-3-9", True, False),  # the run itself
    ("1.9", "20260301T000000-here-3-0", False, False),
    ("1.9", "20260201T235959-here-3-0", True, False),
    ("1.9", "run", True, False),
    ("1.8", "20260301T000000-here-3-0", True, False),  # an older version
])
def test_what_was_withdrawn_is_offered_where_it_was_found_good_since(
    version: str, began: str, verified: bool, offered: bool, tmp_path: Path
) -> None:
    def line(version: str, run: str, **fields: Any) -> str:
        return best_line(replace(BEST, of=replace(RUN, version=version, run=run), **fields), HEAD)

    lines = [line("1.9", "20260202T000000-here-3-9", verified=False, reason="mismatch"),
             line("1.2", "20260801T000000-here-3-0", verified=False, reason="mismatch"), line(version, began, verified=verified)]
    for turn in (lines, lines[::-1]):
        (tmp_path / "log.jsonl").write_text("".join(turn))
        log = Log.open(tmp_path)
        assert [b.run for b in log.bests(W, H)] == [began] * offered and not log.damage


def test_versions_are_compared_as_numbers(tmp_path: Path) -> None:
    for n, version in enumerate(("9.1", "10.1", "9.10", "2.0")):
        write(tmp_path, replace(BEST, cycles=1000 + n), run=replace(RUN, version=version))
    log = Log.open(tmp_path)
    assert [r.version for r in log.bests(W, H)] == ["10.1", "9.10", "9.1", "2.0"]
    assert [r.version for r in log.bests(W, H, "9.1")] == ["9.1", "10.1", "9.10", "2.0"]
    best = log.best(W, H)
    assert best is not None and best.version == "10.1"
    old = log.best(W, H, "2.0")
    assert old is not None and old.version == "2.0" and log.best(W, H, "3.0") is None


def test_another_version_is_another_key(tmp_path: Path) -> None:
    write(tmp_path, TRIAL)
    write(tmp_path, replace(TRIAL, cycles=1), run=replace(RUN, version="9.9"))
    write(tmp_path, replace(TRIAL, cycles=2), run=replace(RUN, space=4))
    log = Log.open(tmp_path)
    assert known(log, space=3)[TRIAL.point].cycles == TRIAL.cycles
    assert known(log, space=4)[TRIAL.point].cycles == 2
    assert known(log, "9.9")[TRIAL.point].cycles == 1


def test_what_the_machine_did_to_a_candidate_is_not_known_of_it(tmp_path: Path) -> None:
    write(tmp_path, replace(FAILED, status="environment", reason="its worker was killed, twice"))
    assert not known(Log.open(tmp_path))
    # Nor is what a version with other words for failures has found.
    write(tmp_path, replace(FAILED, status="crash"))
    assert not known(Log.open(tmp_path))
    write(tmp_path, FAILED)
    assert known(Log.open(tmp_path))[FAILED.point].status == "lowering"


# -- damage -------------------------------------------------------------------------------------------------------------


@given(cut=st.integers(min_value=1, max_value=2000))
def test_a_torn_tail_costs_one_line(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    directory = tmp_path_factory.mktemp("log")
    path = write(directory, TRIAL, replace(TRIAL, trial=8, point=(8,)), replace(TRIAL, trial=9, point=(9,)))
    data = path.read_bytes()
    whole = data[: max(0, len(data) - cut)]
    path.write_bytes(whole)
    log = Log.open(directory)
    unended = bool(re.search(rb',"crc":"[0-9a-f]{8}"}\Z', whole))  # a line that lacks but its end is whole
    lines = whole.count(b"\n") + unended
    assert len(known(log)) == max(0, lines - 1)
    assert log.damaged == (0 if whole.endswith(b"\n") or unended or not whole else 1)


def test_a_last_line_without_its_end_is_read_where_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, TRIAL)
    log = Log.open(tmp_path)
    assert len(known(log)) == 1
    later = [replace(BEST, cycles=BEST.cycles + 1), BEST]
    path.write_bytes(path.read_bytes() + "".join(best_line(best, HEAD) for best in later).encode()[:-1])
    assert log.refresh()
    for again in (log, Log.open(tmp_path)):
        assert [best.cycles for best in again.bests(W, H)] == [BEST.cycles, BEST.cycles + 1] and not again.damaged


@pytest.mark.parametrize("verified", [True, False])
def test_a_run_is_verified_where_its_best_is(verified: bool, tmp_path: Path) -> None:
    write(tmp_path, TRIAL, replace(BEST, cycles=BEST.cycles + 1, verified=not verified), replace(BEST, verified=verified))
    (done,) = history(Log.open(tmp_path))
    assert (done.trials, done.failed, done.cycles, done.bound, done.verified) == (1, 0, BEST.cycles, BEST.bound, verified)
    assert done.gap == pytest.approx(BEST.cycles / BEST.bound - 1)


def test_a_run_has_found_what_others_have_found_as_well(tmp_path: Path) -> None:
    found = replace(BEST, verified=True)
    slower = replace(TRIAL, point=(1, 2), cycles=BEST.cycles + 9)
    for records in ([TRIAL, found], [slower, found], [found]):
        write(tmp_path, *records)
    wanted = [(n, BEST.cycles, True) for n in (1, 1, 0)]
    assert [(d.trials, d.cycles, d.verified) for d in history(Log.open(tmp_path))] == wanted
    # What one of them withdraws the others have not found, either.
    write(tmp_path, replace(BEST, verified=False, reason="mismatch"))
    assert [(d.trials, d.cycles, d.verified) for d in history(Log.open(tmp_path))] == [
        (1, TRIAL.cycles, False), (1, slower.cycles, False)]


@pytest.mark.parametrize(("began", "heard"), [
    ("20991231T000000-host-1-0", True), ("20991231T000000-host-1-9998", True), ("20991231T000000-host-1-9999", False),
    ("odd", True), ("20200101T000000-host-1-9999", True),
])
def test_a_clock_that_is_slow_makes_no_run_earlier_than_what_it_has_read(began: str, heard: bool, tmp_path: Path) -> None:
    withdrawn = replace(BEST, verified=False, reason="mismatch", of=replace(RUN, run=began))
    (tmp_path / "other.jsonl").write_text(run_line(withdrawn.of) + best_line(withdrawn, HEAD))
    write(tmp_path, replace(BEST, verified=True))
    assert [b.verified for b in Log.open(tmp_path).bests(W, H)] == [True] * heard
    # Nor the one that withdraws what it has read.
    checked = replace(withdrawn, verified=True, reason="")
    (tmp_path / "sure").mkdir()
    (tmp_path / "sure" / "other.jsonl").write_text(run_line(checked.of) + best_line(checked, HEAD))
    write(tmp_path / "sure", replace(BEST, verified=False, reason="mismatch"))
    assert bool(Log.open(tmp_path / "sure").bests(W, H)) != heard
    # What holds for one program says nothing of the runs of others.
    other = write(tmp_path, run=replace(RUN, workload="e" * 64))
    assert not other.name.startswith("2099")


def test_what_bears_one_id_is_a_run_for_each_task(tmp_path: Path) -> None:
    path = write(tmp_path, BEST)
    other = replace(BEST, cycles=BEST.cycles + 9, of=replace(RUN, workload="e" * 64, name="a layer", run=path.stem))
    path.write_text(path.read_text() + best_line(other, HEAD))
    assert [(d.run.name, d.cycles, d.verified) for d in history(Log.open(tmp_path))] == [
        (best.of.name, best.cycles, best.verified) for best in (other, BEST)]


@given(at=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255))
def test_a_flipped_byte_costs_at_most_its_lines(tmp_path_factory: pytest.TempPathFactory, at: int, flip: int) -> None:
    directory = tmp_path_factory.mktemp("log")
    records = [replace(TRIAL, trial=n, point=(n,)) for n in range(4)]
    path = write(directory, BEST, *records)
    data = bytearray(path.read_bytes())
    at %= len(data)
    data[at] ^= flip
    path.write_bytes(bytes(data))
    log = Log.open(directory)
    found = known(log)
    assert log.damaged <= 1 + (data[at] == 10)  # a new end makes two lines of one
    assert len(found) + (log.best(W, H) is not None) >= (4 if log.damaged else 5)
    assert all((r.trial, r.point, r.cycles) == (n, (n,), TRIAL.cycles) for (n,), r in found.items())


def test_the_best_gives_the_run_of_trials_whose_first_line_is_damaged(tmp_path: Path) -> None:
    path = write(tmp_path, TRIAL, BEST, replace(TRIAL, point=(9,)))
    path.write_text(path.read_text().replace('"kind":"run"', '"kind":"rum"'))
    log = Log.open(tmp_path)
    assert set(known(log)) == {TRIAL.point, (9,)} and log.damaged == 1
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines() if '"best"' not in line))
    lost = Log.open(tmp_path)
    assert not known(lost) and lost.damaged == 3
    assert "its run" in str(lost.damage[-1]) and f"{path}:3" in str(lost.damage[-1])


@pytest.mark.parametrize("gap", ["", " ", "}", '{"kind":"trial","form', "\x00\x00"])
def test_of_merged_lines_all_are_recovered(tmp_path: Path, gap: str) -> None:
    path = write(tmp_path, TRIAL, replace(TRIAL, point=(8,)), replace(TRIAL, point=(9,)))
    head, *trials = path.read_text().splitlines()
    path.write_text(head + "\n" + gap.join(trials) + "\n")
    log = Log.open(tmp_path)
    assert set(known(log)) == {TRIAL.point, (8,), (9,)}
    assert log.damaged == bool(gap.strip(" \x00"))


@pytest.mark.parametrize("gap", ["", "\r"])
@pytest.mark.parametrize("end", ["", '{"kind":"trial","form'])
def test_merged_lines_without_an_end_are_recovered_too(tmp_path: Path, gap: str, end: str) -> None:
    path = write(tmp_path, TRIAL, replace(TRIAL, point=(8,)), BEST)
    whole = path.read_text()
    path.write_text(gap.join(whole.splitlines()) + end)
    log = Log.open(tmp_path)
    best = log.best(W, H)
    assert set(known(log)) == {TRIAL.point, (8,)} and best is not None and best.trace == BEST.trace
    assert log.damaged == bool(end) and all("not whole" in fault.reason for fault in log.damage)
    if end:  # and its writer goes on
        with path.open("a") as file:
            file.write(whole.splitlines()[1].replace(end, "", 1) + "\n")
        log.refresh()
        assert log.damaged == 0


class Compared(int):
    """A number that counts how often it is compared."""

    times = 0

    def __lt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) < int(other)

    def __ge__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) >= int(other)


def test_very_many_merged_lines_cost_no_square(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, many = write(tmp_path, TRIAL), 1000
    head, line = path.read_text().splitlines()
    raw = (head + line * many).encode()

    class Starts:
        @staticmethod
        def finditer(text: bytes) -> list[SimpleNamespace]:
            places = [m.start() for m in re.finditer(rb'\{"kind":"', text)]
            return [SimpleNamespace(start=partial(Compared, at)) for at in places]

    monkeypatch.setattr(reading, "_START", Starts)
    parts, rest = reading.salvage(raw)
    assert len(parts) == 1 + many and not rest and parts[-1][1] == len(raw)
    assert 0 < Compared.times < 40 * many


def test_a_line_that_swallowed_the_start_of_another_costs_one(tmp_path: Path) -> None:
    path = write(tmp_path, TRIAL, replace(TRIAL, point=(8,)))
    head, first, second = path.read_text().splitlines()
    path.write_text(f"{head}\n{first[:100]}{second}\n")
    log = Log.open(tmp_path)
    assert set(known(log)) == {(8,)} and log.damaged == 1


def test_line_ends_of_another_system_load_in_full(tmp_path: Path) -> None:
    path = write(tmp_path, PROGRAM, BEST, TRIAL)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    log = Log.open(tmp_path)
    assert log.damaged == 0 and known(log) and log.best(W, H) and log.programs


def sealed(kind: str, **fields: Any) -> str:
    """A line with fields that a writer would not write, and a right checksum."""
    base = {"trial": open_line(trial_line(TRIAL, HEAD)[:-1].encode()), "best": open_line(best_line(BEST, HEAD)[:-1].encode()),
            "run": open_line(run_line(RUN)[:-1].encode()), "program": open_line(program_line(PROGRAM)[:-1].encode())}[kind]
    body = {k: v for k, v in {**base, **fields}.items() if k not in ("crc", "kind", "format") and v is not ...}
    text = json.dumps({"kind": kind, "format": fields.get("format", 2), **body}, separators=(",", ":"))
    return f'{text[:-1]},"crc":"{zlib.crc32(text.encode()):08x}"}}\n'


def nested(deep: int) -> Any:
    """A value in so many lists."""
    return [nested(deep - 1)] if deep else 1


STEP = BEST.trace[0]
IMPOSSIBLE: list[tuple[str, dict[str, Any], str]] = [
    ("trial", {"cycles": 0}, "'cycles' is 0, expected an integer from 1"), ("trial", {"cycles": -5}, "'cycles'"),
    ("trial", {"cycles": 2**70}, "'cycles' is an integer out of all bounds"),
    ("trial", {"cycles": 473000.0}, "'cycles' is 473000.0"),
    ("trial", {"cycles": True}, "'cycles' is True, expected an integer"), ("trial", {"cycles": "5"}, "'cycles'"),
    ("trial", {"cycles": None}, "'cycles' is missing or null"), ("trial", {"cycles": float("nan")}, "NaN is no JSON"),
    ("trial", {"cycles": float("inf")}, "Infinity is no JSON"),
    ("trial", {"status": "lowering"}, "'cycles' is 473000, expected null"),
    ("trial", {"point": [[1]]}, "'point' is a list of 1"), ("trial", {"point": [1.0]}, "'point' is 1.0"),
    ("trial", {"point": [2**31]}, "'point' is 2147483648"), ("trial", {"point": [-(2**31) - 1]}, "'point'"),
    ("trial", {"point": [True]}, "'point' is True"), ("trial", {"point": "1,2"}, "'point'"),
    ("trial", {"point": [0] * 4097}, "'point'"),
    ("trial", {"bound": -1}, "'bound'"), ("trial", {"draft": 1.5}, "'draft'"), ("trial", {"trial": -1}, "'trial'"),
    ("trial", {"program": "EF" * 32}, "'program'"), ("trial", {"program": "ef" * 31}, "'program'"),
    ("trial", {"program": None}, "'program'"),
    ("trial", {"ms": -1}, "'ms' is -1"), ("trial", {"ms": 1.5}, "'ms' is 1.5"),
    ("trial", {"status": 5}, "'status'"), ("trial", {"status": "Ok"}, "'status'"), ("trial", {"head": 5}, "'head'"),
    ("trial", {"reason": 5}, "'reason'"), ("trial", {"draft": ...}, "'draft' is missing"), ("trial", {"format": 3}, "format 3"),
    ("trial", {"format": True}, "format True"), ("trial", {"format": "2"}, "format '2'"),
    ("best", {"verified": 1}, "'verified'"), ("best", {"trace": {}}, "'trace'"), ("best", {"trace": [5]}, "'trace'"),
    ("best", {"trace": [{}]}, "'trace'"), ("best", {"trace": [{**STEP, "in": []}]}, "'in' of a step"),
    ("best", {"trace": [{**STEP, "args": {"x": nested(31)}}]}, "values nested at most 32"),
    ("best", {"version": "1.x"}, "'version'"),
    ("best", {"version": "1" * 10}, "'version'"), ("best", {"workload": "x"}, "'workload'"),
    ("best", {"space_bound": None}, "'space_bound'"),
    ("best", {"machine_bound": "5"}, "'machine_bound'"), ("best", {"name": 5}, "'name'"),
    ("best", {"name": "x" * 4097}, "'name'"),
    ("best", {"seed": 2**63}, "'seed'"), ("best", {"space": -1}, "'space'"),
    ("run", {"asked": [1]}, "'asked'"), ("run", {"asked": {"x": [1]}}, "'asked'"), ("run", {"hardware": 5}, "'hardware'"),
    ("program", {"script": 5}, "'script'"), ("program", {"workload": None}, "'workload'"),
    ("best", {"name": "\ud800x"}, "'name' is '\\ud800x', expected characters"), ("trial", {"reason": "\udfff"}, "'reason'"),
    ("program", {"script": "x\udc80"}, "'script'"), ("run", {"asked": {"x": "\ud800"}}, "'asked'"),
    ("run", {"libraries": {"\ud800": 1}}, "'libraries'"), ("run", {"host": "\udcff"}, "'host'"),
]


@pytest.mark.parametrize(("kind", "fields", "said"), IMPOSSIBLE, ids=lambda v: str(v)[:40])
def test_a_field_that_cannot_be_is_named(tmp_path: Path, kind: str, fields: dict[str, Any], said: str) -> None:
    path = write(tmp_path, TRIAL)
    with path.open("a") as file:
        file.write(sealed(kind, **fields))
    log = Log.open(tmp_path)
    (fault,) = log.damage
    assert said in fault.reason and fault.line == 3 and "\n" not in fault.reason and len(fault.reason) < 200
    assert set(known(log)) == {TRIAL.point}


POSSIBLE: list[tuple[str, dict[str, Any]]] = [
    ("trial", {"cycles": 1, "point": [2**31 - 1, -(2**31)]}), ("trial", {"cycles": 2**62, "bound": 0, "draft": 0, "trial": 0}),
    ("trial", {"ms": 0}), ("trial", {"ms": 2**62}),
    ("trial", {"point": [0] * 4096}), ("best", {"version": "1" * 9, "name": "x" * 4096}), ("best", {"machine_bound": None}),
    ("best", {"trace": [{**STEP, "args": {"x": [[[1.5, None, True]]]}}]}), ("best", {"trace": []}),
    ("best", {"trace": [{**STEP, "args": {"x": [1e308, -1e308, 5e-324]}}]}),
    ("best", {"trace": [{**STEP, "args": {"x": nested(30)}}]}), ("trial", {"unknown": 5}),
    ("best", {"name": "\ud7ff\ue000\U0001f600\x1b"}),
]


@pytest.mark.parametrize(("kind", "fields"), POSSIBLE, ids=lambda v: str(v)[:40])
def test_a_field_at_its_limit_is_taken(tmp_path: Path, kind: str, fields: dict[str, Any]) -> None:
    assert write(tmp_path, TRIAL).write_text(run_line(RUN) + sealed(kind, **fields))
    log = Log.open(tmp_path)
    assert log.damage == [] and len(known(log)) + (log.best(W, H) is not None) + len(log.bests(W, H, "1")) >= 1


def raw(text: str) -> str:
    return f'{text[:-1]},"crc":"{zlib.crc32(text.encode()):08x}"}}\n'


@pytest.mark.parametrize(("line", "said"), [
    (raw('{"kind":' + "[" * 10_000 + "]" * 10_000 + "}"), "nested too deep"), (raw('{"cycles":' + "9" * 5000 + "}"), "not JSON"),
    (raw('{"kind":{"a":1}}'), "format missing"), (raw('{"kind":["trial"],"format":2}'), "unknown kind"),
    ("junk\n", "no valid checksum"),
    ("\udcff\n", "no valid checksum"), (seal("future", {"x": 1}), "unknown kind of line 'future'"),
    (raw('{"kind":"trial","cycles":NaN}'), "NaN is no JSON"), (raw('{"kind":"run","asked":[-1e999]}'), "beyond all floats"),
], ids=range(9))
def test_what_is_no_line_is_counted(tmp_path: Path, line: str, said: str) -> None:
    path = write(tmp_path, TRIAL)
    with path.open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape"))
    log = Log.open(tmp_path)
    assert len(log.damage) == 1 and said in log.damage[0].reason and known(log)


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_an_error(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    directory = tmp_path_factory.mktemp("log")
    path = write(directory, TRIAL)
    path.write_bytes(path.read_bytes() + junk)
    assert set(known(Log.open(directory))) == {TRIAL.point}


# -- folders and files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [1, 100, 4096])
def test_a_file_is_read_in_pieces(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, TRIAL, replace(TRIAL, trial=8, cycles=474_000, point=(2,)), BEST, PROGRAM)
    whole = path.read_bytes()
    path.write_bytes(whole + b"junk\n\n" + whole[:-1])
    once = Log.open(tmp_path)
    monkeypatch.setattr(reading, "_PIECE", piece)
    log = Log.open(tmp_path)
    assert (log.digest(), log.counts(), log.tasks(), log.damage) == (once.digest(), once.counts(), once.tasks(), once.damage)
    assert list(log.all_bests()) == list(once.all_bests()) and known(log) == known(once) and len(once.damage) == 1


@pytest.mark.parametrize("piece", [100, 1 << 24])
def test_a_line_that_no_memory_holds_costs_itself(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, TRIAL, BEST)
    whole = path.read_bytes()
    monkeypatch.setattr(reading, "_PIECE", piece)
    monkeypatch.setattr(reading, "LONGEST", max(map(len, whole.split(b"\n"))))
    said = f":4: a line of more than {1 << 26} bytes"
    long = b"y" * (reading.LONGEST + 250)
    path.write_bytes(whole + long + b"\n" + whole)
    log = Log.open(tmp_path)
    (fault,) = log.damage
    assert str(fault).endswith(said) and log.counts() == {(W, H, "1.1"): 2}
    assert [best.cycles for best in log.all_bests()] == [BEST.cycles] * 2
    assert log._files[path].offset == path.stat().st_size and path.read_bytes().endswith(log._files[path].tail)
    # One that is still being written is read again, and what follows it.
    path.write_bytes(whole + long)
    log = Log.open(tmp_path)
    assert str(log.damage[0]).endswith(said) and log.counts() == {(W, H, "1.1"): 1}
    with path.open("ab") as file:
        file.write(b"\n" + whole)
    assert log.refresh() and [str(f).endswith(said) for f in log.damage] == [True] and log.counts() == {(W, H, "1.1"): 2}


def test_a_log_that_is_a_file_or_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(RecordError, match="is a file"):
        Log.open(tmp_path / "f")
    with pytest.raises(RecordError, match="does not exist"):
        Log.open(tmp_path / "nope", must_exist=True)


def test_only_files_are_read(tmp_path: Path) -> None:
    write(tmp_path, TRIAL)
    (tmp_path / "old.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nothing")
    (tmp_path / "self.jsonl").symlink_to(tmp_path / "self.jsonl")
    log = Log.open(tmp_path)
    assert len(known(log)) == 1 and log.damaged == 0


def test_format_1_is_read_for_ever(tmp_path: Path) -> None:
    text = (DATA / "log_format1.jsonl").read_text()
    (tmp_path / "old.jsonl").write_text(text)
    log = Log.open(tmp_path)
    assert log.damaged == 0 and len(log.tasks()) == 14
    first = json.loads(text.splitlines()[0])
    best = log.best(first["workload"], first["hardware"])
    assert best is not None and best.verified and best.trace == tuple(first["trace"]) and best.point == tuple(first["point"])
    assert (best.cycles, best.space_bound, best.machine_bound, best.run) == (521_065, 516_192, None, "shipped")


def test_trials_of_format_1_are_known(tmp_path: Path) -> None:
    body = {"workload": W, "hardware": H, "version": "1.1", "name": "t2", "target": "vta-de10", "space": 3, "point": [1, 2],
            "program": P, "cycles": 9, "bound": 8, "draft": 9, "status": "ok", "reason": "", "run": "r", "trial": 0, "seed": 0}
    (tmp_path / "old.jsonl").write_text(
        seal("run", {"run": "r", "workload": "t2", "trials": 4}, 1) + seal("trial", body, 1)
        + seal("trial", {**body, "point": [3], "status": "lowering", "cycles": None, "program": None, "reason": "x"}, 1)
        + seal("trial", {**body, "cycles": 0}, 1) + seal("trial", {**body, "name": 5}, 1)
    )
    log = Log.open(tmp_path)
    assert {p: r.cycles for p, r in known(log).items()} == {(1, 2): 9, (3,): None}
    assert [f.line for f in log.damage] == [4, 5]


# -- writers ------------------------------------------------------------------------------------------------------------


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    with log.writer(RUN) as a, log.writer(RUN) as b:
        assert a.run != b.run
        for n in range(20):
            (a, b)[n % 2].append(replace(TRIAL, point=(n,)))
    found = Log.open(tmp_path)
    assert found.damaged == 0 and len(known(found)) == 20


def test_a_reader_sees_what_is_added_as_it_is(tmp_path: Path) -> None:
    reader = Log.open(tmp_path / "new")
    assert not reader.refresh()
    with Log.open(tmp_path / "new").writer(RUN) as writer:
        writer.append(TRIAL)
        assert reader.refresh() and set(known(reader)) == {TRIAL.point} and not reader.refresh()
        line = trial_line(replace(TRIAL, point=(8,)), writer.head)
        with writer.path.open("a") as file:
            file.write(line[:100])
            file.flush()
            assert not reader.refresh() and "is writing it" in reader.damage[0].reason
            file.write(line[100:])
        assert reader.refresh() and set(known(reader)) == {TRIAL.point, (8,)} and reader.damaged == 0


def test_a_log_does_not_read_what_it_writes(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    with log.writer(RUN) as writer:
        writer.append(TRIAL)
    assert not log.refresh() and not known(log)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"cannot write .*\.jsonl: No space left"), Log.open(tmp_path).writer(RUN) as writer:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, writer._fd)
        os.close(full)
        writer.append(TRIAL)
    assert Log.open(tmp_path).damaged == 0


def test_a_line_that_a_full_disk_cut_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really, room = os.write, 300

    def write_some(fd: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(28, "No space left on device")
        written = really(fd, data[:room])
        room -= written
        return written

    with Log.open(tmp_path).writer(RUN) as writer:
        writer.append(TRIAL)
        monkeypatch.setattr(os, "write", write_some)
        with pytest.raises(RecordError, match="No space left"):
            writer.append(BEST)
        monkeypatch.setattr(os, "write", really)
        writer.append(replace(TRIAL, point=(8,)))
    log = Log.open(tmp_path)
    assert log.damaged == 0 and set(known(log)) == {TRIAL.point, (8,)} and log.best(W, H) is None


def test_a_program_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    write(tmp_path, PROGRAM, BEST)
    log = Log.open(tmp_path)
    (path,) = tmp_path.glob("*.jsonl")
    text = path.read_text()
    # Behind the log's back another one of as many bytes stands there now.
    (line,) = [line for line in text.splitlines(True) if '"kind":"program"' in line]
    path.write_text(text.replace(line, seal("program", vars(replace(PROGRAM, workload="9" * 64)))))
    assert log.program(W) is None


@pytest.mark.parametrize(("cycles", "reads"), [(2**62, True), (2**62 + 1, False), (1, True), (0, False)])
def test_cycles_have_bounds(tmp_path: Path, cycles: int, reads: bool) -> None:
    write(tmp_path, replace(BEST, cycles=cycles))
    log = Log.open(tmp_path)
    assert (log.best(W, H) is not None) == reads and bool(log.damage) != reads


@pytest.mark.skipif(sys.platform != "linux", reason="no locks, or others")
def test_a_copy_of_a_process_does_not_keep_a_log_that_is_written_locked(tmp_path: Path) -> None:
    with Log.open(tmp_path).writer(RUN) as writer:
        kept = os.dup(writer._fd)  # what a copy has
        other = os.open(writer.path, os.O_RDWR)
        assert not locked(other)
    assert locked(other)
    os.close(kept)
    os.close(other)
