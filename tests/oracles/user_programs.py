"""Programs as users write them, through the public door: what is accepted, how fast it is, and what is refused and why.

    python tests/oracles/user_programs.py [NAME ...] [--trials 8] [--target vta-de10] [--write]

prints a row per file of ``tests/data/programs``: what it asks for (``VERDICT``: accepted, or refused with a part of the reason),
what happens, cycles, bound, gap, and whether the kernel gives the interpreter's bytes on the user's own arrays. ``--write``
records the present state in ``tests/data/programs/today.json``, which ``tests/e2e/test_programs.py`` compares with.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import sys
import tempfile
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.ir import PrimFunc

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "data" / "programs"
TODAY = FOLDER / "today.json"


@dataclass(frozen=True)
class Row:
    """What became of one program.

    Args:
        name: its file.
        wanted: its ``VERDICT``.
        state: ``accepted``, ``refused``, ``failed`` (trials were made, none succeeded), ``wrong`` (other bytes), ``bug`` (an
            error that is none of ours).
        reason: why not.
        cycles: of the best schedule.
        bound: of the machine.
    """

    name: str
    wanted: str
    state: str
    reason: str = ""
    cycles: int | None = None
    bound: int | None = None

    @property
    def right(self) -> bool:
        """Whether it is as the file asks."""
        if self.wanted == "accepted":
            return self.state == "accepted"
        return self.state == "refused" and self.wanted.partition(": ")[2] in self.reason


def names() -> list[str]:
    """All programs."""
    return sorted(p.stem for p in FOLDER.glob("*.py"))


@functools.cache
def module(name: str) -> ModuleType:
    """A program's file, imported here: these files are ours."""
    spec = importlib.util.spec_from_file_location(f"user_program_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


def verdict(name: str) -> str:
    """What a file asks for."""
    return str(module(name).VERDICT)


def program(name: str) -> PrimFunc:
    """A file's program."""
    from autosched.ir import IRModule, PrimFunc

    main = module(name).main
    found = main if isinstance(main, PrimFunc | IRModule) else main()
    func: PrimFunc = next(iter(found.functions.values())) if isinstance(found, IRModule) else found
    return func


def try_one(name: str, trials: int = 4, target: str = "vta-de10", jobs: int = 1) -> Row:
    """Tunes one program and runs its kernel.

    Args:
        name: of the file.
        trials: how many points to know.
        target: the machine.
        jobs: worker processes.
    """
    import numpy as np

    import autosched as at
    from autosched.errors import AutoschedError
    from autosched.ir.interp import random_inputs, run

    wanted = verdict(name)
    try:
        with tempfile.TemporaryDirectory() as log, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report: Any = at.tune(f"{FOLDER / name}.py:main", target=target, trials=trials, jobs=jobs, log=log, cold=True)
            if report.cycles is None:
                return Row(name, wanted, "failed", ", ".join(f"{n} {kind}" for kind, n in report.failed.items()))
            kernel = report.kernel()
    except AutoschedError as error:
        return Row(name, wanted, "refused", " ".join(str(error).split())[:200])
    except Exception as error:  # noqa: BLE001 (what is none of ours is a finding here)
        return Row(name, wanted, "bug", f"{type(error).__name__}: {error}"[:200])
    func = kernel.workload.func
    for seed in (0, 1):
        inputs = random_inputs(func, seed)
        got = kernel(*inputs)
        expected = run(func, *inputs)
        if any(not np.array_equal(a, b) for a, b in zip(got if isinstance(got, tuple) else (got,), expected, strict=True)):
            return Row(name, wanted, "wrong", "", report.cycles, report.machine_bound)
    return Row(name, wanted, "accepted", "", report.cycles, report.machine_bound)


def line(row: Row) -> str:
    """One row of the table."""
    gap = f"{(row.cycles - row.bound) / row.bound:8.1%}" if row.cycles and row.bound else " " * 8
    equal = {"accepted": "yes", "wrong": "NO"}.get(row.state, "-")
    mark = " " if row.right else "*"
    figures = f"{row.cycles or '':>9} {row.bound or '':>9} {gap} {equal:>4}"
    return f"{mark} {row.name:28} {row.state:9} {figures}  {row.reason[:100]}".rstrip()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--target", default="vta-de10")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    rows = []
    print(f"  {'program':28} {'state':9} {'cycles':>9} {'bound':>9} {'gap':>8} {'equal':>4}  reason")
    for name in args.names or names():
        rows.append(try_one(name, args.trials, args.target, args.jobs))
        print(line(rows[-1]), flush=True)
    accepted = sum(r.state == "accepted" for r in rows)
    right = sum(r.right for r in rows)
    print(f"{len(rows)} programs: {accepted} accepted and bit-equal, {right} as their files ask (* marks the others)")
    if args.write:
        known = json.loads(TODAY.read_text()) if TODAY.exists() else {}
        known.update({r.name: {k: v for k, v in asdict(r).items() if k in ("state", "reason")} for r in rows})
        TODAY.write_text(json.dumps({n: known[n] for n in sorted(known) if n in names()}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
