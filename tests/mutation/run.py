"""Mutants of the rooms that everything stands on: a seeded sample, each with the tests that cover its line.

    python tests/mutation/run.py --count 400 --seed 0 --work DIR

Operators and their positions are cosmic-ray's, lines by test are coverage's. Kernels run uncompiled, or a mutant would cost its
compilation; with ``--compiled`` they are compiled once, and their own mutants, and those of what they freeze, are left out:
``space`` and most of ``autosched/lower`` are tested many times faster so. All happens in DIR, which keeps a copy of the tree,
what each test covers and the outcome of every mutant: a run that is stopped goes on where it was when called again with the same
DIR; another tree wants another DIR.

``--kernels`` takes just these: two runs, each with a DIR of its own, are one sample.

Tests run in processes of their own, which are killed when their processor time is over. A test that takes longer than
``TEST_SECONDS`` takes no part. A mutant under which a test takes far longer than it did counts as killed. Tests that killed
mutants of the same file come first, then those that did in the same folder. Survivors that
change nothing that could be observed stand, with the line that they change (``of``) and the reason, in ``equivalent.json`` beside
this file.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# For this process too: tests run in forks of it.
WANTED = {"NUMBA_DISABLE_JIT": "1", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("sim", "autosched/lower", "autosched/records", "space")  # the bounds are in ``space`` and ``sim``
TESTS = (
    "tests/unit/test_sim_*.py", "tests/unit/test_lower_*.py", "tests/unit/test_records_*.py", "tests/unit/test_measure.py",
    "tests/unit/test_target.py", "tests/unit/test_normalise.py", "tests/unit/test_fsim_counters.py", "tests/unit/test_kernel.py",
    "tests/unit/test_tuning_logs.py", "tests/unit/test_limits.py", "tests/unit/test_markup.py", "tests/unit/test_space_*.py",
    "tests/unit/test_refusal_codes.py", "tests/unit/test_windows.py", "tests/unit/test_add_by_gemm.py",
    "tests/unit/test_raise_epilogue.py", "tests/unit/test_offset_epilogue.py", "tests/unit/test_workload_schedules.py",
    "tests/unit/test_banked_buffers.py", "tests/unit/test_blockize_guards.py", "tests/unit/test_drop_zero_terms.py",
    "tests/unit/test_vta_gemm_lowering.py", "tests/unit/test_frozen.py",
    "tests/property/test_sim_*.py", "tests/property/test_lower_*.py", "tests/property/test_space_*.py",
    "tests/property/test_bound_streams.py", "tests/e2e/test_readme.py", "tests/e2e/test_db.py", "tests/e2e/test_trust.py",
    "tests/e2e/test_user_programs.py",
)
EQUIVALENT = Path(__file__).with_name("equivalent.json")
NAMED = Path(__file__).with_name("named.json")  # changes that no test noticed once
# Decorators and exceptions are part of signatures; the others need arguments.
OPERATORS_OUT = ("RemoveDecorator", "ExceptionReplacer", "Variable")
TEST_SECONDS = float(os.environ.get("MUTATION_SECONDS", "8"))
TOGETHER = 10  # test files of one process, in which it is told what they cover
BUDGET = 25.0  # seconds of tests per mutant, by what they took when nothing was changed
PATIENCE, TIMES = 8.0, 5  # seconds, and times what it took, that a test may take before its mutant counts as killed
MEMORY = 6 << 30  # bytes that a mutant may take
Mutant = tuple[str, str, int, int]  # file, operator, occurrence, line


@dataclass
class Covered:
    """What is known of the tests.

    Args:
        seconds: per test, what it took; those that took too long are not here.
        lines: per ``file:line``, the tests that run it.
        done: test files that have been through.
        slow: tests that take no part.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, list[str]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)


def copied(tree: Path, compiled: bool) -> None:
    """A copy of what the tests need; compiled modules go by their contents, so that a changed one is noticed."""
    if tree.exists():
        return
    for name in ("autosched", "sim", "space", "tuning_logs", "tests", "examples", "docs", ".ci"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, tree / name)
    rooms = [str(tree / name) for name in ("autosched", "sim", "space", "tuning_logs")]
    subprocess.run([sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", *rooms], check=True)
    if compiled:  # no test is to pay for it
        words = ["tune", "t1", "--trials", "8", "--jobs", "1", "--log", str(tree.parent / "log")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "tests" / "oracles")])}
        for first in (["-m", "autosched", *words], ["-c", "import kernels; kernels.load(backwards=True)"]):
            subprocess.run([sys.executable, *first], check=True, cwd=tree, stdout=subprocess.DEVNULL, env=environment)


def frozen(tree: Path) -> set[str]:
    """The files whose change compiles kernels again: their own, and what they import."""
    found: set[str] = set()
    for path in (p for room in ROOMS for p in (tree / room).rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        if not re.search(r"^@(njit|lean)", code, re.MULTILINE):
            continue
        modules = [f"{n.module}.{a.name}" for n in ast.walk(ast.parse(code)) if isinstance(n, ast.ImportFrom) for a in n.names]
        modules += [name.rsplit(".", 1)[0] for name in modules]
        found |= {str(path.relative_to(tree)), *(name.replace(".", "/") + ".py" for name in modules)}
    return found


def covered(tree: Path, patterns: Sequence[str], notes: Path, rooms: Sequence[str]) -> Covered:
    """Which tests run which lines of some rooms, and what they cost; written to ``notes`` after every few test files."""
    found = _noted(notes) if notes.exists() else Covered()
    (tree / ".coveragerc").write_text("[run]\nparallel = true\ninclude = " + ", ".join(rooms) + "\n", encoding="utf-8")
    names = sorted({str(p.relative_to(tree)) for pattern in patterns for p in tree.glob(pattern)})
    left = [name for name in names if name not in found.done]
    for part in tree.glob(".coverage.*"):  # of a run that was stopped
        part.unlink()
    while left:
        some = left[:TOGETHER]
        slow = _watched(tree, some, found)
        for part in tree.glob(".coverage.*"):
            _take(tree, part, found)
            part.unlink()
        done = some[: some.index(slow.split("::")[0])] if slow else some
        found.done += done
        left = left[len(done) :]
        _note(found, notes)
        for name in done:
            print(f"{name}: {sum(t.startswith(name) for t in found.seconds)} tests", flush=True)
    return found


def _note(found: Covered, notes: Path) -> None:
    """Writes what is known of the tests, each line's as numbers."""
    numbers = {test: n for n, test in enumerate(found.seconds)}
    lines = {place: [numbers[test] for test in tests] for place, tests in found.lines.items()}
    notes.write_text(json.dumps(vars(found) | {"lines": lines}), encoding="utf-8")


def _noted(notes: Path) -> Covered:
    found = json.loads(notes.read_text(encoding="utf-8"))
    tests = list(found["seconds"])
    return Covered(**found | {"lines": {place: [tests[n] for n in numbers] for place, numbers in found["lines"].items()}})


def _watched(tree: Path, files: Sequence[str], found: Covered) -> str:
    """Runs what is left of some test files; gives the test that was too slow, after which others may be left."""
    progress = tree / "progress"
    progress.write_text("", encoding="utf-8")
    known = [test for test in (*found.seconds, *found.slow) if test.split("::")[0] in files]
    command = [
        sys.executable, "-m", "coverage", "run", "--rcfile", ".coveragerc", "-m", "pytest", "-q", "-p", "plugin",
        "-p", "no:cacheprovider", "--no-header", "--hypothesis-seed=0", *files, *(f"--deselect={test}" for test in known),
    ]
    places = os.pathsep.join([str(tree), str(tree / "tests" / "mutation")])
    environment = {**os.environ, "PYTHONPATH": places, "MUTATION_PROGRESS": str(progress)}
    running = subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
    )
    since, size, current, slow = 0.0, 0, "", ""
    while running.poll() is None:
        time.sleep(0.2)
        text = progress.read_text(encoding="utf-8")
        if len(text) != size:
            since, size = _cpu_seconds(running.pid), len(text)
            words = text.splitlines()[-1].split(" ", 2)
            current = words[2] if words[0] == "begins" else ""
        if current and _cpu_seconds(running.pid) - since > TEST_SECONDS:
            _kill(running.pid)
            running.wait()
            slow = current
            found.slow.append(slow)
            break
    for line in progress.read_text(encoding="utf-8").splitlines():
        word, seconds, test = line.split(" ", 2)
        if word == "ends":
            found.seconds[test] = float(seconds)
    return slow


def _cpu_seconds(pid: int) -> float:
    """What a process has used of a processor; 0 for one that has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _take(tree: Path, part: Path, found: Covered) -> None:
    from coverage import CoverageData

    data = CoverageData(str(part))
    try:
        data.read()
    except Exception as error:  # noqa: BLE001 - a file cut off by a kill: its tests cover nothing
        print(f"{part.name}: {error}", flush=True)
        return
    for path in data.measured_files():
        name = str(Path(path).relative_to(tree))
        for line, contexts in data.contexts_by_lineno(path).items():
            have = set(found.lines.get(f"{name}:{line}", ()))
            found.lines[f"{name}:{line}"] = sorted(have | {c for c in contexts if c in found.seconds})


def sampled(tree: Path, count: int, seed: int) -> list[Mutant]:
    """Mutants at ``count`` places: a place is a node and a family of operators, of which one is drawn."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    places: dict[tuple[str, int, int, str], list[Mutant]] = defaultdict(list)
    operators = [(n, get_operator(n)()) for n in operator_names() if not any(out in n for out in OPERATORS_OUT)]
    for room in ROOMS:
        for path in sorted((tree / room).rglob("*.py")):
            name = str(path.relative_to(tree))
            counts: dict[str, int] = defaultdict(int)
            for node in ast_nodes(get_ast(path.read_text(encoding="utf-8"))):
                for operator_name, operator in operators:
                    for (line, column), _ in operator.mutation_positions(node):
                        family = operator_name.split("_")[0]
                        places[name, line, column, family].append((name, operator_name, counts[operator_name], line))
                        counts[operator_name] += 1
    rng = random.Random(seed)
    chosen = rng.sample(sorted(places), min(count, len(places)))
    return [rng.choice(places[place]) for place in chosen]


def parents(name: str) -> list[str]:
    """The folders around a file."""
    return [str(folder) for folder in Path(name).parents]


def in_functions(code: str) -> set[int]:
    """The lines that every call runs; all others run once, at import or for a cache, whichever test happens to be the first."""
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    once = [node for node in functions if any(re.search(r"\b(lru_)?cache\b", ast.unparse(d)) for d in node.decorator_list)]
    lines = [{*range(node.body[0].lineno, (node.end_lineno or 0) + 1)} for node in functions]
    return set().union(*lines).difference(*({*range(node.lineno, (node.end_lineno or 0) + 1)} for node in once))


def meaning(code: str) -> str:
    """A module's tree without what is never run: annotations and docstrings."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def outcome(tree: Path, mutant: Mutant, tests: Mapping[str, float]) -> tuple[str, str, str]:
    """What becomes of a mutant.

    Returns:
        ``killed``, ``survived``, ``uncovered``, or ``none`` where nothing is changed; the changed line; the test that noticed.
    """
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    name, operator, occurrence, _ = mutant
    path = tree / name
    code = path.read_text(encoding="utf-8")
    changed = mutate_code(code, get_operator(operator)(), occurrence)
    try:
        if changed is None or meaning(changed) == meaning(code):
            return "none", "", ""
    except SyntaxError:  # an operator of its own in place of the stars of a call
        return "none", "", ""
    before, after = code.splitlines(), changed.splitlines()
    text = next((b.strip() for a, b in zip(before, after) if a != b), "")
    if not tests:
        return "uncovered", text, ""
    (tree / "original.json").write_text(json.dumps({name: code}), encoding="utf-8")
    path.write_text(changed, encoding="utf-8")
    (tree / "progress").unlink(missing_ok=True)
    result = "survived" if passes(tree, tests) else "killed"
    restored(tree)
    told = (tree / "progress").read_text(encoding="utf-8").splitlines() if (tree / "progress").exists() else []
    return result, text, told[-1].split(" ", 2)[2] if result == "killed" and told else ""


def restored(tree: Path) -> None:
    """Takes the change back; also that of a run which was stopped."""
    note = tree / "original.json"
    if note.exists():
        for name, code in json.loads(note.read_text(encoding="utf-8")).items():
            (tree / name).write_text(code, encoding="utf-8")
        note.unlink()


def passes(tree: Path, tests: Mapping[str, float]) -> bool:
    """Whether tests pass in time, in a fork of this process: it has imported the libraries, and nothing of ours.

    Args:
        tree: the copy.
        tests: each with the seconds that it takes.
    """
    seconds = 30 + TIMES * sum(tests.values())
    child = os.fork()
    if not child:
        _run(tree, tests, seconds)
    # For what waits without working; a busy machine is no reason to call a mutant killed.
    until = time.monotonic() + 10 * seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            _kill(child)  # what it has started and left
            return os.waitstatus_to_exitcode(status) == 0
        if time.monotonic() > until:
            _kill(child)
            os.waitpid(child, 0)
            return False
        time.sleep(0.02)


def _run(tree: Path, tests: Mapping[str, float], seconds: float) -> None:
    import pytest

    code = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        os.chdir(tree)
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(tree), str(tree / "tests" / "mutation")]
        os.environ["PYTHONPATH"] = str(tree)
        os.environ["MUTATION_PROGRESS"] = str(tree / "progress")
        os.environ["MUTATION_LIMITS"] = json.dumps({test: PATIENCE + TIMES * own for test, own in tests.items()})
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        options = ["-q", "-x", "-p", "plugin", "-p", "no:cacheprovider", "--no-header", "--hypothesis-seed=0"]
        code = int(pytest.main([*options, *tests]))
    finally:
        os._exit(code)


def picked(
    tests: Sequence[str], found: Covered, seed: int, killers: Mapping[str, int], near: Mapping[str, int]
) -> dict[str, float]:
    """As many of some tests as the budget allows, with what they take.

    Args:
        tests: those to pick from.
        found: what they take.
        seed: of the order of those that noticed nothing yet.
        killers: how many mutants of the same file a test has noticed: they come first.
        near: how many of the same folder: they come next.
    """
    order = sorted(tests)
    random.Random(seed).shuffle(order)
    # The cheapest of all others: as many different ones as there is time for.
    order.sort(key=lambda test: (-killers.get(test, 0), -near.get(test, 0), round(found.seconds[test], 2)))
    chosen: dict[str, float] = {}
    for test in order:
        if not chosen or sum(chosen.values()) + found.seconds[test] <= BUDGET:
            chosen[test] = found.seconds[test]
    return chosen


def named(tree: Path) -> int:
    """Makes every change of ``named.json`` and runs the test that is to notice it; returns how many were not noticed."""
    unnoticed = 0
    for change in json.loads(NAMED.read_text(encoding="utf-8")):
        path, test = tree / change["file"], change["test"]
        code = path.read_text(encoding="utf-8")
        assert code.count(change["from"]) == 1, f"{change['file']} has changed: {change['from']}"
        (tree / "original.json").write_text(json.dumps({change["file"]: code}), encoding="utf-8")
        path.write_text(code.replace(change["from"], change["to"]), encoding="utf-8")
        result = "survived" if passes(tree, {test: 100.0}) else "killed"
        restored(tree)
        unnoticed += result == "survived"
        print(f"{result}: {change['file']}: {change['from']} -> {change['to'] or 'nothing'}: {test}", flush=True)
    return unnoticed


def explained(row: dict[str, Any], reasons: Sequence[dict[str, str]]) -> str:
    """Why a survivor is none, or nothing."""
    name, operator = row["mutant"][:2]
    for reason in reasons:
        if (reason["file"], reason["operator"], reason["line"]) == (name, operator.removeprefix("core/"), row["line"]):
            return reason["why"]
    return ""


def report(rows: Sequence[dict[str, Any]], slow: int) -> None:
    """Prints what survived, and how many did not."""
    reasons = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    rows = [r for r in rows if r["result"] != "none"]
    left = [(r, explained(r, reasons)) for r in rows if r["result"] != "killed"]
    for r, why in left:
        name, operator, _, line = r["mutant"]
        print(f"{'equivalent' if why else r['result']}: {name}:{line}: {operator.removeprefix('core/')}: {r['line']}")
    killed = len(rows) - len(left)
    same = sum(bool(why) for _, why in left)
    print(f"{killed} of {len(rows)} mutants killed ({100 * killed / max(1, len(rows)):.1f} %), {same} explained as equivalent, "
          f"{len(left) - same} left; {slow} tests were too slow to take part")


def main() -> None:
    """Samples, runs, and prints what survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so many")
    parser.add_argument("--named", action="store_true", help="only the changes of named.json, each with its one test")
    parser.add_argument("--compiled", action="store_true", help="compile kernels, and leave out what would compile them again")
    parser.add_argument("--kernels", action="store_true", help="only what --compiled leaves out")
    parser.add_argument("--rooms", nargs="*", default=list(ROOMS), help="only the sample's mutants in these folders or files")
    parser.add_argument("--tests", nargs="*", default=list(TESTS), help="patterns of test files")
    parser.add_argument("--work", type=Path, required=True, help="folder of the run, outside the repository")
    args = parser.parse_args()
    wanted = WANTED | ({"NUMBA_DISABLE_JIT": "0"} if args.compiled else {})
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    begun = time.monotonic()
    tree, out = args.work.resolve() / "tree", args.work.resolve() / "mutants.jsonl"
    args.work.mkdir(parents=True, exist_ok=True)
    copied(tree, args.compiled)
    restored(tree)
    if args.named:
        sys.exit(named(tree) > 0)
    apart = frozen(tree)
    rooms = sorted(name for name in apart if (tree / name).exists()) if args.kernels else [f"{room}/*" for room in ROOMS]
    found = covered(tree, args.tests, args.work / "covered.json", rooms)
    by_file: dict[str, set[str]] = defaultdict(set)
    for place, tests in found.lines.items():
        by_file[place.rsplit(":", 1)[0]].update(tests)
    known: dict[Mutant, dict[str, Any]] = {}
    if out.exists():
        known = {tuple(row["mutant"]): row for row in map(json.loads, out.read_text(encoding="utf-8").splitlines())}
    chosen = [m for m in sampled(tree, args.count, args.seed) if any(room in (m[0], *parents(m[0])) for room in args.rooms)]
    if args.compiled or args.kernels:
        chosen = [m for m in chosen if (m[0] in apart) == args.kernels]
    # In every fork they are there already.
    import hypothesis.extra.numpy
    import numba
    import numpy
    import pytest

    assert hypothesis and numba and numpy and pytest
    for number, mutant in enumerate(chosen):
        if mutant in known or time.monotonic() - begun > 60 * args.minutes:
            continue
        called = mutant[3] in in_functions((tree / mutant[0]).read_text(encoding="utf-8"))
        # What runs at import has no test of its own: any test that covers the file.
        tests = found.lines.get(f"{mutant[0]}:{mutant[3]}", []) if called else sorted(by_file[mutant[0]])
        killers = Counter(row.get("by") for m, row in known.items() if m[0] == mutant[0])
        near = Counter(row.get("by") for m, row in known.items() if parents(m[0])[0] == parents(mutant[0])[0])
        some = picked(tests, found, args.seed, killers, near)
        result, text, by = outcome(tree, mutant, some)
        row = {"mutant": list(mutant), "result": result, "line": text, "tests": len(some), "of": len(tests), "by": by}
        known[mutant] = row
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{number + 1}/{len(chosen)} {result} {mutant[0]}:{mutant[3]} {text}", flush=True)
    report([known[m] for m in chosen if m in known], len(found.slow))


if __name__ == "__main__":
    main()
