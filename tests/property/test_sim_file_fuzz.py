"""Damaged program files: ``autosched sim`` runs them or refuses them in one line, quickly, and never with a traceback."""

from __future__ import annotations

import copy
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from autosched.cli import main

DATA = Path(__file__).parent.parent / "data"
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 7, 16, 4095, 1 << 16, (1 << 32) - 1, 1 << 64, 10**30, 1.5, float("nan"), "", "x", "vta-fsim", "a\nb",
    "\ud800", [], [[]], {}, {"a": 1}, "0" * 32, "f" * 32, "AAAA", "=", "A" * 9999,
)
KEYS = ("foo", "config", "LOG_BATCH", "LOG_BLOCK", "semantics", "bus_bytes", "uop_depth", "delay", "size")
OPTIONS = (["--check"], ["--stats"], ["--gantt"], ["--asm"], ["--format", "json"], ["--target", "vta-de10-portable"])


def bases() -> list[dict[str, Any]]:
    """The smallest programs of every fixture, one to a file."""
    found = []
    for name in ("rtl_outputs", "rtl_cycles", "fsim_outputs_small", "fsim_outputs_batch2"):
        data = json.loads((DATA / f"{name}.json").read_text())
        smallest = sorted(data["programs"], key=lambda p: len(json.dumps(p)))[:12]
        found += [{"config": data["config"], "programs": [p]} for p in smallest]
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values inside a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(min(len(value), 40)) if isinstance(value, list) else ()
    return [p for k in keys for p in [(*path, k), *places(value[k], (*path, k))]]


def instructions(rng: random.Random, lines: list[str]) -> None:
    """Flips bits of an instruction, drops one, repeats one, or shuffles all."""
    at = rng.randrange(len(lines))
    kind = rng.random()
    if kind < 0.7:
        word = int(lines[at], 16)
        for _ in range(rng.choice((1, 1, 2, 5))):
            word ^= 1 << rng.randrange(128)
        lines[at] = f"{word:032x}"
    elif kind < 0.8 and len(lines) > 1:
        del lines[at]
    elif kind < 0.9:
        lines.insert(at, rng.choice(lines))
    else:
        rng.shuffle(lines)


def structure(rng: random.Random, data: dict[str, Any]) -> None:
    """Replaces, removes or adds one value anywhere."""
    *path, last = rng.choice(places(data))
    inside: Any = data
    for key in path:
        inside = inside[key]
    kind = rng.random()
    if kind < 0.65:
        inside[last] = copy.deepcopy(rng.choice(VALUES))
    elif kind < 0.85 or not isinstance(inside, dict):
        del inside[last]
    else:
        inside[rng.choice(KEYS)] = copy.deepcopy(rng.choice(VALUES))


def damaged(rng: random.Random, base: dict[str, Any]) -> bytes:
    """A file with one to three faults."""
    data = copy.deepcopy(base)
    if rng.random() < 0.5:
        for _ in range(rng.choice((1, 1, 3))):
            instructions(rng, data["programs"][0]["insns"])
    else:
        structure(rng, data)
    text = json.dumps(data).encode()
    if rng.random() < 0.15:
        raw = bytearray(text)
        for _ in range(rng.choice((1, 3, 20))):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        text = bytes(raw[: rng.randrange(len(raw) + 1)] if rng.random() < 0.4 else raw)
    return text


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_runs_or_is_one_line(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(seed)
    files = bases()
    path = tmp_path / "p.json"
    codes = set()
    for _ in range(60):
        path.write_bytes(damaged(rng, rng.choice(files)))
        options = [word for option in OPTIONS if rng.random() < 0.3 for word in option]
        begin = time.perf_counter()
        code = main(["sim", str(path), *options])
        assert time.perf_counter() - begin < 30
        printed = capsys.readouterr()
        said = [line for line in printed.err.splitlines() if "unknown fields ignored" not in line]
        assert code in (0, 2, 5)
        assert len(said) == (1 if code == 2 else 0), said
        assert all(len(line) < 500 for line in said)
        if code == 0 and "json" in options:
            assert {"name", "cycles", "outputs_match"} == set(json.loads(printed.out)[0])
        codes.add(code)
    assert {0, 2} <= codes <= {0, 2, 5}
