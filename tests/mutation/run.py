"""Mutants of the rooms that everything stands on: a seeded sample, each with the tests that cover its line.

    python tests/mutation/run.py --count 400 --seed 0 --out mutants.jsonl

Operators and their positions are cosmic-ray's, lines by test are coverage's. Kernels run uncompiled, or a mutant would cost its
compilation. All happens in a copy of the tree; a run that is stopped goes on where it was when called again with the same --out.
A mutant that ends the time it is given counts as killed: the tests of its line end in a fraction of it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("sim", "autosched/lower", "autosched/records")
TESTS = (
    "tests/unit/test_sim_*.py", "tests/unit/test_lower_*.py", "tests/unit/test_records_*.py", "tests/unit/test_measure.py",
    "tests/unit/test_target.py", "tests/property/test_sim_*.py", "tests/property/test_lower_*.py",
)
# Decorators and exceptions are part of signatures; the others need arguments.
OPERATORS_OUT = ("RemoveDecorator", "ExceptionReplacer", "Variable")
MOST_TESTS = 60
SECONDS = 120.0  # of a mutant's tests
FILE_SECONDS = float(os.environ.get("MUTATION_FILE_SECONDS", "300"))  # of a test file, to see what it covers
Mutant = tuple[str, str, int, int]  # file, operator, occurrence, line


def environment(copy: Path) -> dict[str, str]:
    """Uncompiled kernels, one thread, the copy's modules first."""
    return os.environ | {
        "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'tests' / 'mutation'}", "PYTHONHASHSEED": "0",
        "COVERAGE_FILE": str(copy / ".coverage"), "PYTHONDONTWRITEBYTECODE": "1",
    }


def copied() -> Path:
    """A copy of what the tests need."""
    copy = Path(tempfile.mkdtemp(prefix="mutants-"))
    for name in ("autosched", "sim", "space", "tuning_logs", "tests", "examples", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, copy / name)
    return copy


def covered(copy: Path, patterns: list[str]) -> dict[tuple[str, int], list[str]]:
    """Per (file, line): the tests that run it."""
    from coverage import CoverageData

    (copy / ".coveragerc").write_text("[run]\nparallel = true\nsource = " + ", ".join(ROOMS) + "\n", encoding="utf-8")
    for file in sorted({p for pattern in patterns for p in copy.glob(pattern)}):
        command = [
            sys.executable, "-m", "coverage", "run", "--rcfile", ".coveragerc", "-m", "pytest", "-q", "-p", "plugin",
            "-p", "contexts", "-p", "no:cacheprovider", "--no-header", str(file.relative_to(copy)),
        ]
        running = subprocess.Popen(
            command, cwd=copy, env=environment(copy), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            running.wait(FILE_SECONDS)
        except subprocess.TimeoutExpired:
            # What it has covered so far counts, if it can still write that down.
            running.send_signal(signal.SIGINT)
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
    subprocess.run([sys.executable, "-m", "coverage", "combine", "-q"], cwd=copy, env=environment(copy), check=False)
    data = CoverageData(str(copy / ".coverage"))
    data.read()
    found: dict[tuple[str, int], list[str]] = {}
    for path in data.measured_files():
        name = str(Path(path).relative_to(copy))
        for line, contexts in data.contexts_by_lineno(path).items():
            found[name, line] = sorted(c for c in contexts if c)
    return found


def sampled(copy: Path, count: int, seed: int) -> list[Mutant]:
    """Mutants at ``count`` places: a place is a node and a family of operators, of which one is drawn."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    places: dict[tuple[str, int, int, str], list[Mutant]] = defaultdict(list)
    operators = [(n, get_operator(n)()) for n in operator_names() if not any(out in n for out in OPERATORS_OUT)]
    for room in ROOMS:
        for path in sorted((copy / room).rglob("*.py")):
            name = str(path.relative_to(copy))
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


def outcome(copy: Path, mutant: Mutant, tests: list[str]) -> tuple[str, str]:
    """(``killed``, ``survived`` or ``uncovered``, the changed line)."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    name, operator, occurrence, line = mutant
    path = copy / name
    code = path.read_text(encoding="utf-8")
    changed = mutate_code(code, get_operator(operator)(), occurrence)
    if changed is None or meaning(changed) == meaning(code):
        return "none", ""
    text = changed.splitlines()[line - 1].strip() if line <= len(changed.splitlines()) else ""
    if not tests:
        return "uncovered", text
    path.write_text(changed, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "plugin", "-p", "no:cacheprovider", "--no-header", *tests]
    try:
        done = subprocess.run(command, cwd=copy, env=environment(copy), check=False, capture_output=True, timeout=SECONDS)
        return ("survived" if done.returncode == 0 else "killed"), text
    except subprocess.TimeoutExpired:
        return "killed", text
    finally:
        path.write_text(code, encoding="utf-8")


def main() -> None:
    """Samples, runs, and prints what survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so many")
    parser.add_argument("--tests", nargs="*", default=list(TESTS), help="patterns of test files")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    args = parser.parse_args()
    begun = time.monotonic()
    copy = copied()
    try:
        lines = covered(copy, args.tests)
        # What runs at import has no test of its own: any test that covers the file.
        by_file: dict[str, list[str]] = defaultdict(list)
        for (name, _), tests in lines.items():
            by_file[name] += tests
        chosen = sampled(copy, args.count, args.seed)
        known: dict[Mutant, dict[str, Any]] = {}
        if args.out.exists():
            for text in args.out.read_text(encoding="utf-8").splitlines():
                row = json.loads(text)
                known[tuple(row["mutant"])] = row
        for mutant in chosen:
            if mutant in known or time.monotonic() - begun > 60 * args.minutes:
                continue
            tests = lines.get((mutant[0], mutant[3])) or (sorted(set(by_file[mutant[0]])) if mutant[0] in by_file else [])
            picked = random.Random(args.seed).sample(tests, min(MOST_TESTS, len(tests)))
            result, text = outcome(copy, mutant, picked)
            row = known[mutant] = {"mutant": list(mutant), "result": result, "line": text, "tests": len(tests)}
            with args.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
    finally:
        shutil.rmtree(copy)
    rows = [known[m] for m in chosen if m in known and known[m]["result"] != "none"]
    killed = sum(r["result"] == "killed" for r in rows)
    for r in rows:
        if r["result"] != "killed":
            name, operator, _, line = r["mutant"]
            print(f"{r['result']}: {name}:{line}: {operator.removeprefix('core/')}: {r['line']}")
    print(f"{killed} of {len(rows)} mutants killed ({100 * killed / max(1, len(rows)):.1f} %)")


if __name__ == "__main__":
    main()
