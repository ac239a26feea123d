"""Differential fuzzing of the schedule primitives against TVM 0.26.

    python tests/peer/fuzz.py --tvm-python PATH --cases 1000 --seed 0 [--save findings.json] [--only split,fuse]
    python tests/peer/fuzz.py --tvm-python PATH --show SEED

A case is a random program and up to ten random steps. Every step is run here and there and must be taken, or refused, by
both; a step that only one side takes is a disagreement, forgotten on both sides, and the case goes on. At the end our
trace text is replayed by TVM, our program is read by TVM and compared with the replay by TVM's structural equality, by
our normal form where that fails, and our interpreter runs it against the unscheduled program. What only one side takes
is run as well, whichever side it comes from, so each disagreement says which answer is right. Everything follows from
the case's seed. ``fuzz_known.py`` recognises and explains what is known; ``fuzz_findings.py`` writes ``fuzz_findings.md``.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "oracles"), str(HERE.parents[1])]

import affine_programs  # noqa: E402
import schedule_steps  # noqa: E402
from fuzz_compare import first_difference, normal_form  # noqa: E402
from fuzz_known import explain  # noqa: E402
from fuzz_layout import Change, change_of, laid_out, shape_of  # noqa: E402

from autosched.errors import AutoschedError, NotSupportedError, ProgramError, ScheduleError  # noqa: E402
from autosched.ir import PrimFunc  # noqa: E402
from autosched.ir.expr import int_value  # noqa: E402
from autosched.ir.interp import random_inputs, run  # noqa: E402
from autosched.script import parse  # noqa: E402

SECONDS = 60  # for one case
PATIENCE = 25  # seconds for one answer of TVM's


class Peer:
    """The subprocess that runs TVM.

    Args:
        python: interpreter with apache-tvm.
    """

    def __init__(self, python: str) -> None:
        self.python = python
        self.process: subprocess.Popen[str] | None = None

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        if self.process is None:
            self.process = subprocess.Popen(
                [self.python, str(HERE / "fuzz_server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            )
            self._read()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            self.stop()
            raise EOFError(f"no answer within {PATIENCE} s")
        line = self.process.stdout.readline()
        if not line:
            self.stop()
            raise EOFError("the process ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass(frozen=True)
class Finding:
    """One disagreement.

    Args:
        seed: of the case.
        kind: which sort, e.g. ``only tvm takes it``.
        op: primitive of the step.
        ours: our reason, or what our program shows.
        tvm: theirs.
        right: whether the program of the side that took it computes what the unscheduled one does; None: not run.
        text: the program.
        steps: lines of the steps, the last one the culprit.
    """

    seed: int
    kind: str
    op: str
    ours: str
    tvm: str
    right: bool | None
    text: str
    steps: tuple[tuple[str, ...], ...]

    @property
    def key(self) -> str:
        return " | ".join((self.kind, self.op, _plain(self.ours)[:110], _plain(self.tvm)[:110], f"right={self.right}"))

    @property
    def known(self) -> str | None:
        return explain(self.kind, self.op, self.ours, self.tvm, self.right)


def _plain(reason: str) -> str:
    """A reason without names and numbers."""
    text = re.sub(r"\b[SI]\d+[\w.]*", "X", " ".join(reason.split()))
    text = re.sub(r"\b(ax|i|v|l|b|k)\d[\w.]*", "i", text)
    return re.sub(r"-?\d+", "#", text)


@dataclass
class Tally:
    cases: int = 0
    clean: int = 0
    taken: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TimeoutError

    old = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


# What memory and outputs hold before they are stored to; two of them, so that a maximum or a minimum does not hide it.
STALE = ((0x80, 77), (0x7F, -77))


def outcome(
    func: PrimFunc, inputs: Sequence[np.ndarray[Any, Any]], stale: tuple[int, int] = STALE[0]
) -> list[np.ndarray[Any, Any]] | str:
    """What a program computes, or the error that stopped it."""
    outputs = [np.full([int_value(e) or 1 for e in b.shape], stale[1], b.dtype) for b in func.buffers[len(inputs):]]
    try:
        run(func, *inputs, *outputs, pattern=stale[0])
        return outputs
    except (ProgramError, NotSupportedError) as error:
        return f"{type(error).__name__}: {error}"


class Case:
    """One program under both schedulers."""

    def __init__(self, peer: Peer, text: str) -> None:
        self.peer, self.text = peer, text
        self.func = _function(text)
        self.inputs = random_inputs(self.func, 0)
        self.want = outcome(self.func, self.inputs)
        self.sch = schedule_steps.start(self.func)
        self.kept: list[schedule_steps.Step] = []
        self.changes: tuple[Change, ...] = ()  # of parameters' layouts, by the kept steps
        answer = peer.ask("start", text=text)
        assert answer["ok"], answer

    def right(self, func: PrimFunc, changes: Sequence[Change]) -> bool | None:
        """Whether a program computes what it should with its parameters in the layouts that the changes give.

        None: the reference does not run, or a map is not one to one.
        """
        if isinstance(self.want, str) or len(func.buffers) != len(self.func.buffers):
            return None
        arrays = []
        for k, (array, buffer) in enumerate(zip((*self.inputs, *self.want), func.buffers)):
            found = laid_out(array, [c for c in changes if c.param == k], shape_of(buffer))
            if found is None or isinstance(found, bool):
                return found
            arrays.append(found)
        n = len(self.inputs)
        for stale in STALE:
            got = outcome(func, [array for array, _ in arrays[:n]], stale)
            if isinstance(got, str):
                return False
            if not all(np.array_equal(x[known], want[known]) for x, (want, known) in zip(got, arrays[n:])):
                return False
        return True

    def step(self, step: schedule_steps.Step) -> tuple[str, str, str, bool | None]:
        """Runs a step on both sides; returns (kind, our reason, their reason, right)."""
        before = self.sch.copy()
        change = change_of(before, step)
        changes = self.changes if change is None else (*self.changes, change)
        kind, ours = "taken", ""
        try:
            schedule_steps.apply(self.sch, step)
        except ScheduleError as error:
            kind, ours = "refused", f"{error.primitive}: {error.reason}"
        except NotSupportedError as error:
            kind, ours = "unsupported", str(error).splitlines()[0]
        except AutoschedError as error:
            kind, ours = "refused", f"{type(error).__name__}: {error}"
        except (ValueError, TypeError, LookupError, AssertionError, AttributeError, RecursionError, ArithmeticError) as error:
            kind, ours = "crash", f"{type(error).__name__}: {error}"
        there = self._there(step)
        why = "" if there["ok"] else f"{there['kind']}: {there['why']}"
        if kind == "taken" and there["ok"]:
            self.kept.append(step)
            self.changes = changes
            return "both take it", "", "", None
        right = None
        if kind == "taken":
            right = self.right(self.sch.func, changes)
        elif there["ok"]:
            right = self._theirs(changes)
            self.peer.ask("undo")
        self.sch = before
        if kind == "crash":
            return "ours crashes", ours, why, right
        if kind == "taken":
            return ("only ours takes it" if there["kind"] == "ScheduleError" else "tvm breaks"), "", why, right
        if not there["ok"]:
            return "both refuse", ours, why, None
        return ("ours does not support it" if kind == "unsupported" else "only tvm takes it"), ours, "", right

    def _there(self, step: schedule_steps.Step) -> dict[str, Any]:
        """Their answer; where the step ends their process, another one is brought to the same point."""
        try:
            return self.peer.ask("step", lines=step.lines)
        except EOFError as error:
            self.peer.ask("start", text=self.text)
            for done in self.kept:
                self.peer.ask("step", lines=done.lines)
            return {"ok": False, "kind": "crash", "why": str(error)}

    def _theirs(self, changes: Sequence[Change]) -> bool | None:
        text = self.peer.ask("text").get("text", "")
        try:
            return self.right(_function(text), changes)
        except AutoschedError as error:
            # A buffer that a block uses and nothing declares prints as a declaration inside that block.
            return False if "a buffer inside the program is allocated" in str(error) else None

    def finish(self) -> tuple[str, str, str, bool | None]:
        """Compares the results; returns (kind, what ours shows, what theirs shows, right)."""
        func = self.sch.func
        text = func.script()
        right = self.right(func, self.changes)
        if parse(text) != func:
            return "ours does not read what it prints", text, "", right
        answer = self.peer.ask("finish", trace=self.sch.trace.as_python(), text=text)
        if not answer["ok"]:
            shown = f"tvm's right: {self._theirs(self.changes)}"  # of the program that it made step by step
            return "tvm does not replay our trace", shown, f"{answer['kind']}: {answer['why']}", right
        if answer["equal"]:
            return ("equal" if right is not False else "equal and wrong"), "", "", right
        there = answer["text"]
        if "unread" in answer:
            return "tvm does not read our text", first_difference(text, there), answer["unread"], right
        try:
            theirs = _function(there)
        except AutoschedError as error:
            return "ours does not read tvm's text", str(error), there, right
        if normal_form(theirs) == normal_form(func):
            return ("equal in normal form" if right is not False else "equal and wrong"), "", "", right
        verdict = f"{first_difference(text, there)} | tvm's right: {self.right(theirs, self.changes)}"
        return "different program", verdict, "", right


def _function(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def replayed(peer: Peer, text: str, steps: Sequence[schedule_steps.Step], final: bool) -> tuple[str, str, str, bool | None]:
    """The verdict on the last step after the others, or on the result of all."""
    case = Case(peer, text)
    verdict = ("both take it", "", "", None)
    for k, step in enumerate(steps):
        verdict = case.step(step)
        if verdict[0] != "both take it" and (final or k < len(steps) - 1):
            return verdict
    return case.finish() if final else verdict


GOOD = ("both take it", "both refuse", "equal", "equal in normal form")


def shrink(
    peer: Peer, text: str, steps: Sequence[schedule_steps.Step], final: bool, same: Callable[[tuple[Any, ...]], bool]
) -> list[schedule_steps.Step]:
    """Drops steps while the verdict stays."""
    steps = list(steps)
    if final:  # the first prefix that shows it
        for k in range(1, len(steps)):
            if same(replayed(peer, text, steps[:k], final)):
                steps = steps[:k]
                break
    at = 0
    while at < len(steps) - (not final):
        fewer = steps[:at] + steps[at + 1:]
        if same(replayed(peer, text, fewer, final)):
            steps = fewer
        else:
            at += 1
    return steps


def run_case(peer: Peer, seed: int, tally: Tally, weights: dict[str, int] | None, quick: bool) -> None:
    """One case; adds what it finds to the tally."""
    rng = random.Random(f"fuzz{seed}")
    text = affine_programs.program(rng)
    case = Case(peer, text)
    steps = schedule_steps.Steps(rng, weights)
    found: list[tuple[tuple[str, str, str, bool | None], list[schedule_steps.Step], bool]] = []
    tally.cases += 1
    for _ in range(rng.randint(2, 10)):
        step = steps.draw(case.sch)
        if step is None:
            break
        verdict = case.step(step)
        if verdict[0] == "both take it":
            tally.taken[step.op] += 1
        elif verdict[0] == "both refuse":
            tally.refused[step.op] += 1
        else:
            found.append((verdict, [*case.kept, step], False))
        if len(case.sch.state.loops) > 60:
            break
    verdict = case.finish()
    tally.equal[verdict[0]] += 1
    if verdict[0] not in GOOD:
        found.append((verdict, list(case.kept), True))
    tally.clean += not found
    for verdict, lines, final in found:
        kind = verdict[0]
        finding = _finding(seed, verdict, text, lines)
        if not quick and finding.known is None:
            key = finding.key
            lines = shrink(peer, text, lines, final, lambda v, kind=kind, key=key, lines=lines, final=final: (
                v[0] == kind and (final or _finding(seed, v, text, lines).key == key)))
            finding = _finding(seed, replayed(peer, text, lines, final), text, lines)
        tally.findings.append(finding)


def _finding(
    seed: int, verdict: tuple[str, str, str, bool | None], text: str, steps: Sequence[schedule_steps.Step]
) -> Finding:
    kind, ours, tvm, right = verdict
    return Finding(seed, kind, steps[-1].op if steps else "(none)", ours, tvm, right, text, tuple(s.lines for s in steps))


def show(finding: Finding) -> str:
    lines = "\n".join(line for s in finding.steps for line in s)
    return f"== seed {finding.seed}: {finding.key}\nours: {finding.ours}\ntvm: {finding.tvm}\n{finding.text}\n{lines}\n"


def report(tally: Tally, seconds: float) -> str:
    """The counts as text."""
    out = [
        f"{tally.cases} cases in {seconds:.0f} s, {tally.clean} without any disagreement",
        f"steps: both take {sum(tally.taken.values())}, both refuse {sum(tally.refused.values())}, "
        f"disagreements {sum(f.kind not in tally.equal for f in tally.findings)}",
        f"results: {', '.join(f'{k} {n}' for k, n in tally.equal.most_common())}",
        "step by step (both take / both refuse): " + ", ".join(
            f"{op} {tally.taken[op]}/{tally.refused[op]}" for op in sorted({*tally.taken, *tally.refused})),
    ]
    explained = Counter(f"{f.kind}: {f.known}" for f in tally.findings if f.known)
    out += ["explained:", *(f"{n:6} {why}" for why, n in explained.most_common())]
    fresh: dict[str, list[int]] = {}
    for f in tally.findings:
        if f.known is None:
            fresh.setdefault(f.key, []).append(f.seed)
    out += ["not explained:"]
    for key, seeds in sorted(fresh.items(), key=lambda item: -len(item[1])):
        out.append(f"{len(seeds):6} {key}  seeds {seeds[:6]}")
    return "\n".join(out)


def seeds_of(tally: Tally) -> dict[str, list[int]]:
    """The seeds of every disagreement, by reason, kind, primitive and answer."""
    out: dict[str, list[int]] = {}
    for f in tally.findings:
        out.setdefault(f"{f.known} | {f.kind} | {f.op} | {f.right}", []).append(f.seed)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tvm-python", required=True, help="interpreter with apache-tvm 0.26")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--only", help="these primitives, separated by commas")
    parser.add_argument("--save", type=Path, help="write unexplained disagreements as JSON lines")
    parser.add_argument("--tally", type=Path, help="append counts and seeds as a JSON line, for fuzz_findings.py")
    parser.add_argument("--seeds", help="these cases instead, separated by commas")
    parser.add_argument("--show", type=int, help="print one case's disagreements in full")
    parser.add_argument("--quick", action="store_true", help="do not shrink")
    options = parser.parse_args()
    weights = None if not options.only else {op: schedule_steps.WEIGHTS[op] for op in options.only.split(",")}
    peer, tally, begun = Peer(options.tvm_python), Tally(), time.monotonic()
    seeds = list(range(options.seed, options.seed + options.cases))
    if options.show is not None or options.seeds:
        seeds = [options.show] if options.show is not None else [int(s) for s in options.seeds.split(",")]
    for seed in seeds:
        try:
            with limit(SECONDS):
                run_case(peer, seed, tally, weights, options.quick)
        except (TimeoutError, EOFError, BrokenPipeError) as error:
            peer.stop()
            tally.findings.append(Finding(seed, f"{type(error).__name__} in a case", "", str(error), "", None, "", ()))
        except (AssertionError, KeyError, TypeError, ValueError, AutoschedError, RecursionError) as error:
            traceback.print_exc()
            tally.findings.append(Finding(seed, "crash outside a step", "", repr(error), "", None, "", ()))
    peer.stop()
    if options.show is not None:
        print("\n".join(show(f) for f in tally.findings))
    print(report(tally, time.monotonic() - begun))
    if options.save:
        with options.save.open("a") as file:
            for f in tally.findings:
                if f.known is None:
                    file.write(json.dumps({**f.__dict__, "key": f.key}) + "\n")
    if options.tally:
        with options.tally.open("a") as file:
            file.write(json.dumps({
                "cases": tally.cases, "clean": tally.clean, "taken": tally.taken, "refused": tally.refused,
                "results": tally.equal, "range": [seeds[0], len(seeds)], "seeds": seeds_of(tally),
            }) + "\n")
    return int(any(f.known is None for f in tally.findings))


if __name__ == "__main__":
    sys.exit(main())
