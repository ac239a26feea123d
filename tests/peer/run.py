"""Runs TVM's own schedule tests against autosched and counts.

    python tests/peer/run.py --tests PATH [FILE ...] [--jobs N] [--show] [--json OUT] [--update]

PATH is a checkout of apache/tvm at tag v0.26.0, or its folder tests/python/s_tir/schedule; FILE a name such as
``compute_at``. ``strict`` counts equality as TVM defines it, ``modulo`` equality of affine normal forms.
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
EXPECTED = HERE / "expected.json"
Record = dict[str, Any]


def folder_of(path: Path) -> Path:
    """The folder with the test files.

    Raises:
        FileNotFoundError: none below the path.
    """
    for folder in (path, path / "tests/python/s_tir/schedule"):
        if any(folder.glob(f"{PREFIX}*.py")):
            return folder
    raise FileNotFoundError(f"no {PREFIX}*.py in {path} nor in its tests/python/s_tir/schedule")


def run_file(file: Path, select: str = "", show: bool = False, seconds: int = 600) -> list[Record]:
    """The records of one test file, run in a process of its own."""
    with tempfile.TemporaryDirectory() as work:
        out = Path(work) / "out.json"
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "peer_plugin", "-p", "no:cacheprovider", "--noconftest", "-c", os.devnull,
            "--rootdir", str(file.parent), "--import-mode=importlib", "--peer-out", str(out), str(file),
            *(["-k", select] if select else []), *(["--tb=short"] if show else ["--tb=no", "-W", "ignore"]),
        ]
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


def load_expected() -> dict[str, Any]:
    """The expectation list: tier per file, and per test what is expected when it is not to pass."""
    return dict(json.loads(EXPECTED.read_text())) if EXPECTED.exists() else {"tiers": {}, "tests": {}}


def tally(name: str, records: list[Record], expected: dict[str, Any]) -> Counter[str]:
    """Counts of one file: items, out of scope, relevant, strict, modulo (which includes strict)."""
    scope = expected["tests"].get(name, {})
    count: Counter[str] = Counter(items=len(records))
    for r in records:
        if scope.get(r["node"], "").startswith("out:"):
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
        want = listed.get(r["node"], "strict")
        got = r["outcome"]
        if want.startswith("out:"):
            continue
        if want.startswith("fail:"):
            if got != "failed":
                found.append(f"{name}::{r['node']}: expected to fail, {got}")
        elif got == "failed" or (want == "strict" and got == "modulo"):
            found.append(f"{name}::{r['node']}: expected {want}, {got}: {r['kind']}: {r['reason']}")
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="names such as compute_at; default: all")
    parser.add_argument("--tests", type=Path, required=True, help="checkout of apache/tvm v0.26.0 or its folder of tests")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--select", default="", help="pytest -k")
    parser.add_argument("--show", action="store_true", help="let pytest print")
    parser.add_argument("--json", type=Path, help="write all records here")
    options = parser.parse_args()
    files = sorted(folder_of(options.tests).glob(f"{PREFIX}*.py"))
    if options.files:
        files = [f for f in files if name_of(f) in options.files]
    expected = load_expected()
    tiers = expected["tiers"]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(map(name_of, files), pool.map(lambda f: run_file(f, options.select, options.show), files)))
    total: dict[str, Counter[str]] = {}
    bad: list[str] = []
    print(f"{'file':36s} {'tier':10s} items relevant strict modulo")
    for name, records in results.items():
        count = tally(name, records, expected)
        total.setdefault(tiers.get(name, "?"), Counter()).update(count)
        bad += surprises(name, records, expected)
        print(f"{name:36s} {tiers.get(name, '?'):10s} {count['items']:5d} {count['relevant']:8d} {count['strict']:6d} {count['modulo']:6d}")
        for r in records:
            note = expected["tests"].get(name, {}).get(r["node"], "")
            if r["outcome"] not in ("strict", "skipped") and not note.startswith("out:") and len(files) <= 8:
                print(f"    {r['outcome']:7s} {r['node']}: {r['kind']}: {r['reason']}" + (f"  [{note}]" if note else ""))
    for tier, count in total.items():
        print(f"{'total ' + tier:36s} {'':10s} {count['items']:5d} {count['relevant']:8d} {count['strict']:6d} {count['modulo']:6d}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    print("\n".join(bad) if bad and not options.select else f"{len(bad)} surprises")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
