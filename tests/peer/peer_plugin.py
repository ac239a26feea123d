"""pytest plugin of the peer runs: installs the stand-in, limits each test's time, records one line per test."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

# Comparisons of the running test that hold in normal form only; the stand-in's list, empty when TVM itself is tested.
_SOFT: list[str] = []
_LINES: list[dict[str, Any]] = []


def pytest_addoption(parser: Any) -> None:
    """Where to write, how long a test may take."""
    parser.addoption("--peer-out", required=True)
    parser.addoption("--peer-seconds", type=int, default=60)
    parser.addoption("--peer-legacy", action="store_true", help="the names of TVM 0.18")
    parser.addoption("--peer-control", action="store_true", help="no stand-in: TVM itself, to check the harness")


def pytest_configure(config: Any) -> None:
    """Before any test file is imported."""
    global _SOFT
    if not config.getoption("--peer-control"):
        import peer_shim

        peer_shim.install()
        if config.getoption("--peer-legacy"):
            import peer_legacy

            peer_legacy.install()
        _SOFT = peer_shim.SOFT


def _late(*_: Any) -> None:
    raise TimeoutError("time limit of the peer run")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Any:
    """A time limit, and a fresh list of soft comparisons."""
    _SOFT.clear()
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(item.config.getoption("--peer-seconds"))
    yield
    signal.alarm(0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """One record per test."""
    report = (yield).get_result()
    if report.when != "call" and report.outcome == "passed":
        return
    error = call.excinfo.value if call.excinfo is not None else None
    outcome = report.outcome
    if outcome == "passed":
        outcome = "modulo" if _SOFT else "strict"
    kind = type(error).__name__ if error is not None else ""
    reason = re.sub(r"\s+", " ", str(error).strip().split("\n")[0])[:200] if error is not None else ""
    _LINES.append({"node": item.nodeid.partition("::")[2], "outcome": outcome, "kind": kind, "reason": reason,
                   "seconds": round(report.duration, 2)})


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be imported is a failure of all its tests."""
    if report.failed:
        text = str(report.longrepr).strip().split("\n")[-1]
        _LINES.append({"node": "(collection)", "outcome": "failed", "kind": "collection", "reason": text[:200], "seconds": 0})


def pytest_sessionfinish(session: Any) -> None:
    """Writes the records."""
    Path(session.config.getoption("--peer-out")).write_text(json.dumps(_LINES))
