"""Runs TVM's own schedule tests against autosched and counts.

    python tests/peer/run.py --tests PATH [FILE ...] [--jobs N] [--show] [--json OUT] [--update]
                             [--control PYTHON]

PATH is a checkout of apache/tvm at tag v0.26.0, or its folder tests/python/s_tir/schedule; FILE a name such as
``compute_at``. TVM 0.18, the last release with axis separators in its tests, is understood too. ``strict`` counts
equality as TVM defines it, ``modulo`` equality of affine normal forms; PYTHON, with apache-tvm 0.26, is tested in our
place to check the harness.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PREFIX = "test_tir_schedule_"
# The folder of TVM 0.18's tests, in the older dialect.
LEGACY = "tir-schedule"
Record = dict[str, Any]


def folder_of(path: Path) -> Path:
    """The folder with the test files.

    Raises:
        FileNotFoundError: none below the path.
    """
    for folder in (path, path / "tests/python/s_tir/schedule", path / "tests/python/tir-schedule"):
        if any(folder.glob(f"{PREFIX}*.py")):
            return folder
    raise FileNotFoundError(f"no {PREFIX}*.py in {path} nor in its tests/python/s_tir/schedule")


def run_file(
    file: Path, select: str = "", show: bool = False, seconds: int = 600, control: str | None = None
) -> list[Record]:
    """The records of one test file, run in a process of its own: here, or by ``control``, an interpreter with TVM."""
    with tempfile.TemporaryDirectory() as work:
        out = Path(work) / "out.json"
        command = [
            control or sys.executable, "-m", "pytest", "-q", "-p", "peer_plugin", "-p", "no:cacheprovider", "--noconftest",
            "-c", os.devnull, "--rootdir", str(file.parent), "--import-mode=importlib", "--peer-out", str(out), str(file),
        ]
        command += ["-k", select] if select else []
        command += ["--peer-control"] if control else []
        command += ["--peer-legacy"] if file.parent.name == LEGACY else []
        command += ["--tb=short"] if show else ["--tb=no", "-W", "ignore"]
        paths = [str(HERE), str(ROOT), os.environ.get("PYTHONPATH", "")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(command, env=env, cwd=work, capture_output=not show, timeout=seconds, text=True)
        except subprocess.TimeoutExpired:
            return [{"node": "(file)", "outcome": "failed", "kind": "timeout", "reason": f"over {seconds} s", "seconds": seconds}]
        if not out.exists():
            tail = (done.stdout or "").strip().split("\n")[-1] + (done.stderr or "").strip()[-300:]
            return [{"node": "(file)", "outcome": "failed", "kind": "crash", "reason": tail, "seconds": 0}]
        return list(json.loads(out.read_text()))


def name_of(file: Path) -> str:
    """``compute_at`` of ``test_tir_schedule_compute_at.py``."""
    return file.stem.removeprefix(PREFIX)


def list_of(folder: Path) -> Path:
    """The file with what is expected of the tests of a folder."""
    return HERE / ("expected_0_18.json" if folder.name == LEGACY else "expected.json")


def load_expected(path: Path) -> dict[str, Any]:
    """The expectation list: tier per file, and what is expected of each test."""
    return dict(json.loads(path.read_text())) if path.exists() else {"tiers": {}, "tests": {}}


def expectation(listed: dict[str, str], node: str) -> str:
    """What is expected of a test: ``pass``, ``modulo``, ``fail: why`` or ``out: why``; ``*`` stands for a whole file."""
    return listed.get("*") or listed.get(node, "pass")


def update(path: Path, results: dict[str, list[Record]], expected: dict[str, Any]) -> None:
    """Writes today's outcomes as expectations; what is out of scope stays, known reasons stay as long as they fail."""
    for name, records in results.items():
        listed = expected["tests"].setdefault(name, {})
        for r in [] if "*" in listed else records:
            old = listed.get(r["node"], "")
            if old.startswith("out:") or (r["outcome"] == "failed" and old.startswith("fail:")):
                continue
            note = f"fail: {r['kind']}: {r['reason']}" if r["outcome"] == "failed" else r["outcome"]
            listed[r["node"]] = "pass" if note == "strict" else note
    path.write_text(json.dumps(expected, indent=1) + "\n")


def tally(name: str, records: list[Record], expected: dict[str, Any]) -> Counter[str]:
    """Counts of one file: items, out of scope, relevant, strict, modulo (which includes strict)."""
    scope = expected["tests"].get(name, {})
    count: Counter[str] = Counter(items=len(records))
    for r in records:
        count["passed"] += r["outcome"] in ("strict", "modulo")
        if expectation(scope, r["node"]).startswith("out:") or r["outcome"] == "skipped":
            count["out"] += 1
            continue
        count["relevant"] += 1
        count["strict"] += r["outcome"] == "strict"
        count["modulo"] += r["outcome"] in ("strict", "modulo")
    return count


def surprises(name: str, records: list[Record], expected: dict[str, Any]) -> list[str]:
    """Tests whose outcome is not the expected one."""
    listed = expected["tests"].get(name, {})
    found = []
    for r in records:
        want = expectation(listed, r["node"])
        got = r["outcome"]
        if want.startswith("out:") or got == "skipped":
            continue
        if want.startswith("fail:"):
            if got != "failed":
                found.append(f"{name}::{r['node']}: expected to fail, {got}")
        elif got not in ("strict", want):
            found.append(f"{name}::{r['node']}: expected {want}, {got}: {r['kind']}: {r['reason']}")
    return found


def line(name: str, tier: str, count: Counter[str]) -> str:
    """One line of the table."""
    return (f"{name:36s} {tier:10s} {count['items']:5d} {count['passed']:6d} | {count['relevant']:8d} {count['strict']:6d} "
            f"{count['modulo']:6d}")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="names such as compute_at; default: all")
    parser.add_argument("--tests", type=Path, required=True, help="checkout of apache/tvm v0.26.0 or its folder of tests")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--select", default="", help="pytest -k")
    parser.add_argument("--show", action="store_true", help="let pytest print")
    parser.add_argument("--control", help="an interpreter with apache-tvm 0.26, tested in our place to check the harness")
    parser.add_argument("--update", action="store_true", help="write the outcomes to expected.json")
    parser.add_argument("--json", type=Path, help="write all records here")
    options = parser.parse_args()
    files = sorted(folder_of(options.tests).glob(f"{PREFIX}*.py"))
    if unknown := set(options.files) - set(map(name_of, files)):
        parser.error(f"no such file: {', '.join(sorted(unknown))}; there are {', '.join(map(name_of, files))}")
    if options.files:
        files = [f for f in files if name_of(f) in options.files]
    expected = load_expected(list_of(files[0].parent))
    tiers = expected["tiers"]

    def job(file: Path) -> list[Record]:
        return run_file(file, options.select, options.show, control=options.control)

    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(map(name_of, files), pool.map(job, files)))
    total: dict[str, Counter[str]] = {}
    bad: list[str] = []
    print(f"{'file':36s} {'tier':10s} items passed | relevant strict modulo")
    for name, records in results.items():
        count = tally(name, records, expected)
        total.setdefault(tiers.get(name, "?"), Counter()).update(count)
        bad += surprises(name, records, expected)
        print(line(name, tiers.get(name, "?"), count))
        for r in records:
            note = expectation(expected["tests"].get(name, {}), r["node"])
            if r["outcome"] not in ("strict", "skipped") and not note.startswith("out:") and len(files) <= 8:
                print(f"    {r['outcome']:7s} {r['node']}: {r['kind']}: {r['reason']}" + (f"  [{note}]" if note else ""))
    for tier, count in total.items():
        print(line(f"total {tier}", "", count))
    if options.update:
        update(list_of(files[0].parent), results, expected)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    print("\n".join(bad) if bad and not options.select else f"{len(bad)} surprises")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
