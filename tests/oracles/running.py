"""What tests of a run from outside need: to wait for a moment of it, and to read what it has logged."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MINUTES = 600.0  # generous: no test may depend on how busy the machine is


def wait_for(what: Callable[[], Any]) -> Any:
    """The first true value of ``what()``."""
    until = time.monotonic() + MINUTES
    while time.monotonic() < until:
        value = what()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} never came true")


def lines(log: Path) -> list[dict[str, Any]]:
    """All whole lines of a log, of one writer after the other."""
    texts = [path.read_text() for path in sorted(log.glob("*.jsonl"))]
    return [json.loads(line) for text in texts for line in text.splitlines() if line.endswith("}")]


def trials(log: Path) -> list[tuple[Any, ...]]:
    """Point, cycles and status of every trial, in order."""
    return [(tuple(t["point"]), t.get("cycles"), t["status"]) for t in lines(log) if t.get("kind") == "trial"]
