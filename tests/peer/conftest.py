"""Where the tests of apache/tvm are, for ``pytest tests/peer --tvm-tests PATH``."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The path; without it the peer suite is skipped."""
    parser.addoption("--tvm-tests", default=None, help="checkout of apache/tvm v0.26.0, or its tests/python/s_tir/schedule")
