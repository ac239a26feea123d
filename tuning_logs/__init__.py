"""Curated best-known schedules, one JSON-lines file per target; running jobs write elsewhere."""

from __future__ import annotations

from pathlib import Path


def shipped(target: str) -> Path | None:
    """The file of best-known schedules of a target, or None where none are shipped."""
    path = Path(__file__).parent / f"{target}.jsonl"
    return path if path.is_file() else None


def targets() -> list[str]:
    """The targets that have shipped schedules."""
    return sorted(p.stem for p in Path(__file__).parent.glob("*.jsonl"))
