"""Writes fuzz_findings.md and fuzz_seeds.json from the tallies of a run.

    python tests/peer/fuzz_findings.py TALLY [TALLY ...]

A tally is what ``fuzz.py --tally FILE`` appends: one JSON line for each run, with the seeds of every disagreement.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from fuzz_known import REASONS  # noqa: E402


def merged(paths: list[Path]) -> dict[str, Any]:
    """All runs as one: numbers added up, lists of seeds joined."""
    runs = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    total: dict[str, Any] = {"cases": sum(r["cases"] for r in runs), "clean": sum(r["clean"] for r in runs)}
    for name in ("taken", "refused", "results"):
        counts: Counter[str] = Counter()
        for run in runs:
            counts.update(run[name])
        total[name] = counts
    seeds: dict[str, list[int]] = {}
    for run in runs:
        for key, some in run["seeds"].items():
            seeds.setdefault(key, []).extend(some)
    total["seeds"] = {key: sorted(some) for key, some in sorted(seeds.items())}
    total["ranges"] = _ranges([r["range"] for r in runs])
    return total


def _ranges(parts: list[list[int]]) -> list[list[int]]:
    out: list[list[int]] = []
    for first, count in sorted(parts):
        if out and out[-1][0] + out[-1][1] == first:
            out[-1][1] += count
        else:
            out.append([first, count])
    return out


def findings(total: dict[str, Any]) -> str:
    """The text of fuzz_findings.md."""
    by_name: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    unexplained: list[str] = []
    for key, seeds in total["seeds"].items():
        name, kind, op, right = key.split(" | ")
        if name not in REASONS:
            unexplained.append(f"| {kind} | {op} | {right} | {len(seeds)} | {', '.join(map(str, seeds))} |")
            continue
        by_name[name] += len(seeds)
        kinds.setdefault(name, Counter())[kind] += len(seeds)
    where = " and ".join(f"{first} to {first + count - 1}" for first, count in total["ranges"])
    results = ", ".join(f"{name} {count}" for name, count in total["results"].most_common())
    out = [
        "# What the fuzzer found against TVM 0.26", "",
        f"{total['cases']} cases, seeds {where}",
        "(`python tests/peer/fuzz.py --tvm-python PYTHON --cases N --seed FIRST --tally FILE`):",
        f"{sum(total['taken'].values())} steps that both take, {sum(total['refused'].values())} that both refuse, "
        f"{sum(map(len, total['seeds'].values()))} disagreements. Results: {results}.", "",
        "What only one side takes is run, and so are both results where they differ. A disagreement is explained by the first",
        "pattern of `fuzz_known.py` that fits, and a pattern says which answers of those runs it covers. The seeds of all are in",
        "`fuzz_seeds.json`; `--show SEED` prints a case. Cases that were fixed or explained after the run were",
        "run again and count as they came out then. This file is written by `fuzz_findings.py`.", "", "## Explained", "",
    ]
    for name, count in sorted(by_name.items(), key=lambda item: (-item[1], item[0])):
        split = ", ".join(f"{kind} {n}" for kind, n in sorted(kinds[name].items()))
        out += [f"### {name} ({count})", "", f"{REASONS[name]} ({split})", ""]
    idle = [name for name in REASONS if name not in by_name]
    if idle:
        out += ["## Known, not met in this run", ""]
        for name in idle:
            out += [f"* {name}: {REASONS[name]}"]
        out.append("")
    out += ["## Not explained", ""]
    if unexplained:
        out += ["| kind | primitive | right | count | seeds |", "|---|---|---|---|---|", *unexplained]
    else:
        out.append("None.")
    return "\n".join(out) + "\n"


def main() -> int:
    if len(sys.argv) < 2:
        sys.stderr.write((__doc__ or "") + "\n")
        return 2
    total = merged([Path(a) for a in sys.argv[1:]])
    (HERE / "fuzz_findings.md").write_text(findings(total))
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(seeds)}" for key, seeds in total["seeds"].items())
    (HERE / "fuzz_seeds.json").write_text("{\n" + lines + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
